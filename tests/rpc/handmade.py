"""Requests made field by field, as each engine's receiver wants them: small numbers in the shape of real families."""

import io

import ml_dtypes
import numpy as np
from PIL import Image

from foveal.backends.messages import common, messages

PAD, START, END, SEPARATOR = 7, 20, 21, 22
QWEN_IDS = [1, 2, START, *[PAD] * 6, END, 3, START, *[PAD] * 2, END, 4]
QWEN_RANGES = [(3, 6), (12, 2)]
QWEN_GRIDS = [[1, 4, 6], [1, 2, 4]]
LLAMA4_IDS = [1, START, PAD, PAD, SEPARATOR, PAD, PAD, PAD, PAD, END, 2, START, PAD, PAD, END]
LLAMA4_RANGES = [(1, 9), (11, 4)]
LLAMA4_TILES = [(2, 2), (5, 2), (7, 2), (12, 2)]
LLAVA_IDS = [1, *[PAD] * 4, 2, *[PAD] * 4]
LLAVA_RANGES = [(1, 4), (6, 4)]


def values(*shape, dtype=ml_dtypes.bfloat16, seed=0):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0, 200, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def put(message, array):
    """Write an array into a TensorData message of any backend."""
    array = np.asarray(array)
    message.shape[:] = array.shape
    message.dtype = array.dtype.name
    field = "data" if "data" in message.DESCRIPTOR.fields_by_name else "inline"
    setattr(message, field, array.tobytes())


def image_bytes(height=20, width=30, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(values(height, width, 3, dtype=np.uint8)).save(file, kind)
    return file.getvalue()


def vllm(ids, ranges, pixels, small, *, batched=(), flat=None, kept=(), request_id="r"):
    pb2 = messages("vllm").pb2
    request = pb2.GenerateRequest(request_id=request_id, stream=True)
    request.tokenized.input_ids[:] = ids
    fill_vllm(request.mm_inputs, ranges, pixels, small, batched=batched, flat=flat, kept=kept)
    return request


def fill_vllm(inputs, ranges, pixels, small, *, batched=(), flat=None, kept=(), modality="IMAGE"):
    put(inputs.pixel_values, pixels)
    for key, array in small.items():
        put(inputs.model_specific_tensors[key], array)
    inputs.im_token_id = PAD
    for offset, length in ranges:
        inputs.mm_placeholders.add(offset=offset, length=length)
    inputs.mm_hashes[:] = [f"{modality}{number}" * 8 for number in range(len(ranges))]
    inputs.batched_keys[:] = batched
    for key, sizes in (flat or {}).items():
        inputs.flat_keys[key] = sizes
    inputs.keep_on_cpu_keys[:] = kept
    inputs.modality = common().Modality.Value(modality)


def qwen(dtype=ml_dtypes.bfloat16):
    small = {"image_grid_thw": np.array(QWEN_GRIDS), "patches_per_image": np.array([24, 8])}
    pixels = values(32, 12, dtype=dtype)
    flat = {"pixel_values": "patches_per_image"}
    return vllm(QWEN_IDS, QWEN_RANGES, pixels, small, batched=list(small), flat=flat, kept=["image_grid_thw"])


def llama4():
    small = {"aspect_ratios": np.array([[1, 2], [1, 1]]), "patches_per_image": np.array([3, 1])}
    flat = {"pixel_values": "patches_per_image"}
    return vllm(LLAMA4_IDS, LLAMA4_RANGES, values(4, 3, 4, 4), small, batched=list(small), flat=flat, kept=list(small))


def llava():
    return vllm(LLAVA_IDS, LLAVA_RANGES, values(2, 3, 4, 4), {}, batched=["pixel_values"])


def internvl_chat():
    """Named by the engine's own key, with a tensor that all images share."""
    small = {"image_num_patches": np.array([2, 1]), "image_token_id": np.array([PAD])}
    flat = {"pixel_values_flat": "image_num_patches"}
    request = vllm(LLAVA_IDS, LLAVA_RANGES, values(3, 3, 4, 4), small, batched=["image_num_patches"], flat=flat)
    request.mm_inputs.encoder_input_key = "pixel_values_flat"
    return request


def image_and_video():
    request = qwen()
    ids = [START, *[PAD] * 4, END]
    offset = len(request.tokenized.input_ids)
    request.tokenized.input_ids.extend(ids)
    fill_vllm(
        request.extra_mm_inputs.add(),
        [(offset + 1, 4)],
        values(16, 12, seed=1),
        {"video_grid_thw": np.array([[2, 2, 4]]), "rows_of_video": np.array([16])},
        batched=["video_grid_thw", "rows_of_video"],
        flat={"pixel_values": "rows_of_video"},
        kept=["video_grid_thw"],
        modality="VIDEO",
    )
    return request


def text(backend="vllm"):
    request = messages(backend).pb2.GenerateRequest(request_id="r")
    (request.tokenized.input_token_ids if backend == "trtllm" else request.tokenized.input_ids)[:] = [1, 2, 3]
    return request


def sglang(ids, ranges, pixels, small):
    request = messages("sglang").pb2.GenerateRequest(request_id="r", stream=True)
    request.tokenized.input_ids[:] = ids
    inputs = request.mm_inputs
    put(inputs.pixel_values, pixels)
    for key, array in small.items():
        put(inputs.model_specific_tensors[key], array)
    for offset, length in ranges:
        inputs.mm_placeholders.add(offset=offset, length=length)
    inputs.im_token_id = PAD
    return request


def sglang_qwen():
    return sglang(QWEN_IDS, QWEN_RANGES, values(32, 12, dtype=np.float32), {"image_grid_thw": np.array(QWEN_GRIDS)})


def sglang_llama4():
    return sglang(LLAMA4_IDS, LLAMA4_TILES, values(4, 3, 4, 4, dtype=np.float32), {})


def tokenspeed(ids, items):
    """``items`` are ranges, pixels, and the other tensors of each."""
    request = messages("tokenspeed").pb2.GenerateRequest(request_id="r", stream=True)
    request.tokenized.input_ids[:] = ids
    for number, (ranges, pixels, small) in enumerate(items):
        item = request.mm_inputs.items.add(modality=common().IMAGE, placeholder_token_id=PAD)
        item.content_hash = bytes([number]) * 32
        put(item.encoder_input, pixels)
        for key, array in small.items():
            put(item.model_specific_tensors[key], array)
        for offset, length in ranges:
            item.placeholders.add(offset=offset, length=length)
    return request


def tokenspeed_qwen():
    items = [
        ([QWEN_RANGES[0]], values(24, 12), {"image_grid_thw": np.array(QWEN_GRIDS[:1])}),
        ([QWEN_RANGES[1]], values(8, 12, seed=1), {"image_grid_thw": np.array(QWEN_GRIDS[1:])}),
    ]
    return tokenspeed(QWEN_IDS, items)


def tokenspeed_llama4():
    items = [(LLAMA4_TILES[:3], values(3, 3, 4, 4), {}), (LLAMA4_TILES[3:], values(1, 3, 4, 4, seed=1), {})]
    return tokenspeed(LLAMA4_IDS, items)


def trtllm(*images):
    request = messages("trtllm").pb2.GenerateRequest(request_id="r", streaming=True)
    request.tokenized.input_token_ids[:] = [1, PAD, 2]
    request.multimodal_input.image_data[:] = images or [image_bytes(), image_bytes(40, 50, "JPEG")]
    return request


RIGHT = {
    "qwen": qwen,
    "llama4": llama4,
    "llava": llava,
    "internvl_chat": internvl_chat,
    "image_and_video": image_and_video,
    "sglang_qwen": sglang_qwen,
    "sglang_llama4": sglang_llama4,
    "tokenspeed_qwen": tokenspeed_qwen,
    "tokenspeed_llama4": tokenspeed_llama4,
    "trtllm": trtllm,
    **{
        f"text_{backend}": (lambda backend=backend: text(backend))
        for backend in ("vllm", "sglang", "trtllm", "tokenspeed")
    },
}
