"""Requests built the ordinary way: images one by one, arrays joined by NumPy, messages made and serialized by protobuf.

The twin of `foveal.backends`, from what facts about the receivers say and not from the specs.
"""

import re
import zlib
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from smg_grpc_proto.generated import common_pb2, sglang_scheduler_pb2, tokenspeed_scheduler_pb2, vllm_engine_pb2

import foveal
from foveal.backends import ServerInfo
from foveal.tokens import token_id


class Vllm(NamedTuple):
    """What vLLM's parser of a family reads: the tensor of the runs' lengths, small tensors and whether they stay."""

    flat: str | None = None
    small: dict = MappingProxyType({})
    primary: str = "pixel_values"
    token: str | None = None
    device_normalize: bool = False


KEPT, MOVED = True, False
GRID = {"image_grid_thw": KEPT, "patches_per_image": KEPT}
VLLM = {
    **{name: Vllm("patches_per_image", GRID, device_normalize=True) for name in ("qwen2_vl", "qwen2_5_vl")},
    **{name: Vllm("patches_per_image", GRID, device_normalize=True) for name in ("qwen3_vl", "glm4v")},
    "llama4": Vllm("patches_per_image", {"aspect_ratios": KEPT, "patches_per_image": KEPT}),
    "llava1_5": Vllm(),
    "llava_next": Vllm(small={"image_sizes": KEPT}),
    "llava_onevision": Vllm(small={"image_sizes": KEPT}),
    "pixtral": Vllm(),
    "mistral3": Vllm(device_normalize=True),
    "gemma3": Vllm("num_patches", {"num_patches": KEPT}),
    "gemma4": Vllm(small={"pixel_position_ids": MOVED}),
    "idefics3": Vllm("num_patches", {"pixel_attention_mask": MOVED, "num_patches": KEPT}),
    "smolvlm": Vllm("num_patches", {"pixel_attention_mask": MOVED, "num_patches": KEPT}),
    "internvl": Vllm("image_num_patches", {"image_num_patches": KEPT}, token="image_token_id"),
    "internvl_chat": Vllm("image_num_patches", {"image_num_patches": KEPT}, "pixel_values_flat", "image_token_id"),
    "phi3_v": Vllm(small={"image_sizes": KEPT}),
    "phi4mm": Vllm(
        small={"image_sizes": KEPT, "image_attention_mask": MOVED, "num_img_tokens": KEPT},
        primary="input_image_embeds",
    ),
    "kimi_vl": Vllm("patches_per_image", {"image_grid_hws": KEPT, "patches_per_image": KEPT}),
    "kimi_k25": Vllm("patches_per_image", {"grid_thws": KEPT, "patches_per_image": KEPT}, device_normalize=True),
}
SGLANG = {
    **{name: {"image_grid_thw"} for name in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v")},
    "llama4": set(),
    "pixtral": set(),
    "kimi_vl": {"image_grid_hws"},
    "kimi_k25": {"grid_thws"},
    "phi4mm": {"image_sizes", "image_attention_mask"},
    "gemma4": {"image_position_ids"},
}
OTHER_NAMES = {"grid_thws": "image_grid_thw", "pixel_position_ids": "image_position_ids"}
"""What transformers calls tensors that an engine calls otherwise."""

SIZES = {"patches_per_image", "num_patches", "image_num_patches"}
ONE_SIZE = ("pixtral", "mistral3")


def encode(tokens):
    """Return a tokenizer for which every tag, line break and word is a token."""
    known = {entry.token: entry.id for entry in tokens.ids}

    def to_ids(text):
        if text in known:
            return [known[text]]
        words = re.findall(r"<[^>]*>|\[[^]]*\]|\n+|\w+|.", text)
        return [known.get(word, 50_000 + zlib.crc32(word.encode()) % 10_000) for word in words]

    return to_ids


def prompt(tokens, images):
    """Return a prompt with text around each image."""
    anchor = token_id(tokens, tokens.anchor or tokens.placeholder, encode(tokens))
    return [1, *(part for number in range(images) for part in (anchor, 7 + number)), 2]


def parts(preprocessor, images, dtype):
    """Return the result of each image alone."""
    return [preprocessor(image, dtype=dtype) for image in images]


def joined(arrays, is_flat, pad=0):
    """Return runs of rows one after the other, or images side by side, padded to the longest."""
    if is_flat:
        return np.concatenate(arrays)
    longest = max(array.shape[1] if array.ndim > 1 else 0 for array in arrays)
    padded = [
        np.concatenate([array, np.full((1, longest - array.shape[1], *array.shape[2:]), pad, array.dtype)], axis=1)
        if array.ndim > 2
        else array
        for array in arrays
    ]
    return np.concatenate(padded)


def rows(preprocessor, alone):
    """Return an image's part of the primary tensor without the axis of samples."""
    array = alone[preprocessor.spec.primary.name]
    return array[0] if preprocessor.spec.image.batch.by_sample else array


def small(preprocessor, singles, name, is_flat=False):
    """Return a small tensor of all images by an engine's name."""
    if name in SIZES:
        return np.array([len(rows(preprocessor, alone)) for alone in singles])
    name = OTHER_NAMES.get(name, name)
    if name == "pixel_attention_mask":
        return np.concatenate([alone[name][0] for alone in singles]).astype(np.uint8)
    return joined([alone[name] for alone in singles], is_flat, pad=1 if name == "image_attention_mask" else 0)


def tensor(kind, array, **content):
    return kind(shape=array.shape, dtype=str(array.dtype), **content)


def vllm(preprocessor, intermediate, images, info: ServerInfo, **fields):
    kind, pb2 = VLLM[preprocessor.name], vllm_engine_pb2
    dtype = "uint8" if info.device_normalize and kind.device_normalize else info.encoder_dtype
    singles = parts(preprocessor, images, dtype)
    request = pb2.GenerateRequest(request_id="r", stream=True, **fields)
    request.sampling_params.temperature = 1.0
    request.tokenized.input_ids.extend(intermediate.expanded.ids.tolist())
    inputs = request.mm_inputs
    pixels = joined([rows(preprocessor, alone) for alone in singles], kind.flat is not None)
    inputs.pixel_values.CopyFrom(tensor(pb2.TensorData, pixels, inline=pixels.tobytes()))
    for name in kind.small:
        array = small(preprocessor, singles, name)
        inputs.model_specific_tensors[name].CopyFrom(tensor(pb2.TensorData, array, inline=array.tobytes()))
    if kind.token:
        array = np.array([intermediate.feature_id])
        inputs.model_specific_tensors[kind.token].CopyFrom(tensor(pb2.TensorData, array, inline=array.tobytes()))
    for offset, length in intermediate.expanded.structural:
        inputs.mm_placeholders.add(offset=offset, length=length)
    inputs.im_token_id = intermediate.feature_id
    inputs.mm_hashes.extend(item.identity for item in intermediate.items)
    if kind.flat:
        inputs.flat_keys[kind.primary] = kind.flat
    else:
        inputs.batched_keys.append(kind.primary)
    for name in kind.small:
        if name == "pixel_attention_mask":
            inputs.flat_keys[name] = kind.flat
        else:
            inputs.batched_keys.append(name)
    inputs.keep_on_cpu_keys.extend(name for name, kept in kind.small.items() if kept)
    inputs.modality = common_pb2.IMAGE
    if kind.primary != "pixel_values":
        inputs.encoder_input_key = kind.primary
    return request


def sglang(preprocessor, intermediate, images, info: ServerInfo):
    pb2, flat = sglang_scheduler_pb2, VLLM[preprocessor.name].flat
    singles = parts(preprocessor, images, info.encoder_dtype)
    request = pb2.GenerateRequest(request_id="r", stream=True)
    request.sampling_params.temperature = 1.0
    request.tokenized.input_ids.extend(intermediate.expanded.ids.tolist())
    inputs = request.mm_inputs
    pixels = joined([rows(preprocessor, alone) for alone in singles], flat is not None)
    inputs.pixel_values.CopyFrom(tensor(pb2.TensorData, pixels, data=pixels.tobytes()))
    for name in SGLANG[preprocessor.name]:
        array = small(preprocessor, singles, name)
        inputs.model_specific_tensors[name].CopyFrom(tensor(pb2.TensorData, array, data=array.tobytes()))
    for ranges in intermediate.expanded.features:
        for offset, length in ranges:
            inputs.mm_placeholders.add(offset=offset, length=length)
    inputs.im_token_id = intermediate.feature_id
    inputs.modalities.append("image")
    return request


def tokenspeed(preprocessor, intermediate, images, info: ServerInfo):
    pb2 = tokenspeed_scheduler_pb2
    request = pb2.GenerateRequest(request_id="r", stream=True)
    request.sampling_params.temperature = 1.0
    request.tokenized.input_ids.extend(intermediate.expanded.ids.tolist())
    for number, alone in enumerate(parts(preprocessor, images, info.encoder_dtype)):
        item = request.mm_inputs.items.add(modality=common_pb2.IMAGE)
        pixels = rows(preprocessor, alone)
        item.encoder_input.CopyFrom(tensor(pb2.TensorData, pixels, inline=pixels.tobytes()))
        item.content_hash = bytes.fromhex(intermediate.items[number].identity)
        item.placeholder_token_id = intermediate.feature_id
        for offset, length in intermediate.expanded.features[number]:
            item.placeholders.add(offset=offset, length=length)
        for name, value in alone.items():
            if name not in (preprocessor.spec.primary.name, "batch_num_images"):
                array = value[0] if name == "pixel_attention_mask" and value.ndim == 4 else value
                item.model_specific_tensors[name].CopyFrom(tensor(pb2.TensorData, array, inline=array.tobytes()))
    return request


def made(name, **options):
    return foveal.Preprocessor.from_spec(name, **options)
