import json
import os
import secrets
import sys
import tracemalloc
from contextlib import suppress

import handmade
import ml_dtypes
import numpy as np
import pytest
from handmade import PAD, RIGHT, fill_vllm, put, values
from smg_grpc_servicer import mm_shm
from smg_grpc_servicer.vllm import mm_keys

from foveal.backends.messages import BACKENDS, common, messages
from foveal.errors import OptionError, RequestError
from foveal.grpc.checking import problems
from foveal.grpc.decoding import Field, decode
from foveal.grpc.description import describe

DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.uint8, np.int64, np.uint32)
WITH_TENSORS = [name for name in RIGHT if not name.startswith(("trtllm", "text"))]


def same(array, expected):
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert array.tobytes() == expected.tobytes()


def refused(request, text, **options):
    with pytest.raises(RequestError) as caught:
        decode(request, **options)
    assert str(caught.value) == text


# ---- vLLM


def test_flat_keys_are_runs_of_rows():
    pixels = values(32, 12)
    decoded = decode(handmade.qwen())
    assert (decoded.backend, decoded.request_id, decoded.images) == ("vllm", "r", ())
    assert decoded.input_ids.tolist() == handmade.QWEN_IDS
    assert decoded.input_ids.dtype == np.int64
    first, second = decoded.items
    same(first.tensors["pixel_values"], pixels[:24])
    same(second.tensors["pixel_values"], pixels[24:])
    same(first.tensors["image_grid_thw"], np.array([1, 4, 6]))
    same(second.tensors["patches_per_image"], np.array(8))
    assert [item.ranges for item in decoded.items] == [((3, 6),), ((12, 2),)]
    assert [item.is_embed for item in decoded.items] == [None, None]
    assert [item.feature_tokens for item in decoded.items] == [6, 2]
    assert [item.hash for item in decoded.items] == ["IMAGE0" * 8, "IMAGE1" * 8]


def test_how_each_tensor_is_divided():
    (batch,) = decode(handmade.qwen()).batches
    assert (batch.name, batch.modality, batch.primary, batch.token_id) == ("mm_inputs", "IMAGE", "pixel_values", PAD)
    assert batch.ranges == ((3, 6), (12, 2))
    assert list(batch.tensors) == ["pixel_values", "image_grid_thw", "patches_per_image"]
    assert batch.fields == {
        "pixel_values": Field("flat", "patches_per_image", False),
        "image_grid_thw": Field("batched", None, True),
        "patches_per_image": Field("batched", None, False),
    }


def test_batched_keys_lose_an_axis():
    pixels = values(2, 3, 4, 4)
    items = decode(handmade.llava()).items
    for item, expected in zip(items, pixels, strict=True):
        same(item.tensors["pixel_values"], expected)


def test_structural_ranges_have_masks():
    first, second = decode(handmade.llama4()).items
    assert first.is_embed.tolist() == [False, True, True, False, True, True, True, True, False]
    assert second.is_embed.tolist() == [False, True, True, False]
    assert (first.feature_tokens, second.feature_tokens) == (6, 2)
    assert [len(item.tensors["pixel_values"]) for item in (first, second)] == [3, 1]


def test_no_mask_without_an_id():
    request = handmade.llama4()
    request.mm_inputs.ClearField("im_token_id")
    assert [(item.is_embed, item.feature_tokens) for item in decode(request).items] == [(None, 9), (None, 4)]


def test_a_mask_ends_with_the_prompt():
    request = handmade.llama4()
    del request.tokenized.input_ids[-2:]
    assert decode(request).items[1].is_embed.tolist() == [False, True]


def test_shared_keys_go_to_every_item_and_the_primary_tensor_has_the_engines_name():
    (batch,) = decode(handmade.internvl_chat()).batches
    assert batch.primary == "pixel_values_flat"
    assert [len(item.tensors["pixel_values_flat"]) for item in batch.items] == [2, 1]
    assert batch.fields["image_token_id"] == Field("shared")
    for item in batch.items:
        assert item.tensors["image_token_id"] is batch.tensors["image_token_id"]


def test_shared_keys_are_never_kept_on_the_cpu():
    request = handmade.internvl_chat()
    request.mm_inputs.keep_on_cpu_keys.append("image_token_id")
    assert not decode(request).batches[0].fields["image_token_id"].keep_on_cpu


def test_a_batch_for_each_modality():
    images, videos = decode(handmade.image_and_video()).batches
    assert (images.modality, videos.modality) == ("IMAGE", "VIDEO")
    assert (images.name, videos.name) == ("mm_inputs", "extra_mm_inputs[0]")
    assert videos.primary == "pixel_values_videos"
    assert videos.fields["pixel_values_videos"] == Field("flat", "rows_of_video", False)
    same(videos.items[0].tensors["pixel_values_videos"], values(16, 12, seed=1))


@pytest.mark.parametrize("modality", ["IMAGE", "VIDEO"])
@pytest.mark.parametrize("key", ["", "pixel_values", "patches"])
def test_the_receivers_own_names(modality, key):
    request = handmade.llava()
    request.mm_inputs.modality = common().Modality.Value(modality)
    if key:
        request.mm_inputs.encoder_input_key = key
    expected = mm_keys.modality_key(mm_keys.primary_encoder_key(request.mm_inputs), modality == "VIDEO")
    request.mm_inputs.batched_keys[:] = [key or "pixel_values"]
    (batch,) = decode(request).batches
    assert batch.primary == expected
    assert batch.fields[expected] == Field("batched")
    assert mm_keys.modality_name(request.mm_inputs) == batch.modality.lower()


def test_the_receivers_own_batches():
    request = handmade.image_and_video()
    batches = mm_keys.mm_batches(request)
    assert [list(batch.hashes) for batch in decode(request).batches] == [list(batch.mm_hashes) for batch in batches]


def test_sizes_that_are_wrong_cut_runs_as_the_receiver_does():
    request = handmade.qwen()
    put(request.mm_inputs.model_specific_tensors["patches_per_image"], np.array([20, 30]))
    assert [len(item.tensors["pixel_values"]) for item in decode(request).items] == [20, 12]


@pytest.mark.parametrize("dtype", [np.uint32, np.uint8, np.int64])
def test_sizes_of_any_whole_dtype(dtype):
    request = handmade.qwen()
    put(request.mm_inputs.model_specific_tensors["patches_per_image"], np.array([[24], [8]], dtype))
    assert [len(item.tensors["pixel_values"]) for item in decode(request).items] == [24, 8]


# ---- other backends


def test_sglang_has_one_item():
    decoded = decode(handmade.sglang_qwen())
    (batch,), (item,) = decoded.batches, decoded.items
    assert item.offsets == ((3, 8), (12, 13))
    assert item.feature_tokens == 8
    assert (batch.token_id, batch.fields, batch.hashes) == (PAD, {}, ())
    same(item.tensors["pixel_values"], values(32, 12, dtype=np.float32))
    same(item.tensors["image_grid_thw"], np.array(handmade.QWEN_GRIDS))


def test_tokenspeed_has_an_item_for_each_image():
    decoded = decode(handmade.tokenspeed_llama4())
    first, second = decoded.batches
    assert [batch.name for batch in decoded.batches] == ["mm_inputs.items[0]", "mm_inputs.items[1]"]
    assert decoded.items[0].offsets == ((2, 3), (5, 6), (7, 8))
    assert second.items[0].hash == "01" * 32
    assert (first.modality, first.token_id, first.primary) == ("IMAGE", PAD, "encoder_input")
    same(first.tensors["encoder_input"], values(3, 3, 4, 4))


def test_tokenspeed_takes_scalars_and_other_dtypes():
    request = handmade.tokenspeed_qwen()
    put(request.mm_inputs.items[0].model_specific_tensors["tiles"], np.array(3, np.int32))
    same(decode(request).items[0].tensors["tiles"], np.array(3, np.int32))


def test_tensorrt_llm_gets_files():
    png, jpeg = handmade.image_bytes(), handmade.image_bytes(40, 50, "JPEG")
    decoded = decode(handmade.trtllm(png, jpeg))
    assert decoded.images == (png, jpeg)
    assert decoded.input_ids.tolist() == [1, PAD, 2]
    assert decoded.batches == decoded.items == ()


@pytest.mark.parametrize("name", [name for name in RIGHT if name.startswith("text")])
def test_text_has_no_items(name):
    decoded = decode(RIGHT[name]())
    assert decoded.input_ids.tolist() == [1, 2, 3]
    assert decoded.items == ()


# ---- arrays


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("name", ["llava", "sglang_qwen", "tokenspeed_qwen"])
def test_every_dtype(name, dtype):
    array = values(2, 3, 5, dtype=dtype)
    request = RIGHT[name]()
    holder = request.mm_inputs.items[0] if name.startswith("tokenspeed") else request.mm_inputs
    put(holder.model_specific_tensors["extra"], array)
    same(decode(request).batches[0].tensors["extra"], array)


def test_bytes_are_little_endian():
    request = handmade.sglang_qwen()
    tensor = request.mm_inputs.model_specific_tensors["extra"]
    for dtype, data, number in (
        ("int64", b"\x01\x02" + bytes(6), 0x0201),
        ("uint32", b"\x01\x02\0\0", 0x0201),
        ("float32", b"\0\0\x80\x3f", 1.0),
        ("float16", b"\0\x3c", 1.0),
        ("bfloat16", b"\x80\x3f", 1.0),
    ):
        tensor.data, tensor.shape[:], tensor.dtype = data, [1], dtype
        assert decode(request).batches[0].tensors["extra"].tolist() == [number]


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_arrays_are_read_only_views(name):
    for batch in decode(RIGHT[name]()).batches:
        for key, tensor in batch.tensors.items():
            assert not tensor.flags.writeable
            assert isinstance(owner(tensor), bytes)
            for item in batch.items:
                assert np.shares_memory(item.tensors[key], tensor)
                assert not item.tensors[key].flags.writeable


def owner(array):
    """Return what holds the memory of an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def test_nothing_is_copied_but_by_protobuf():
    request = handmade.vllm(
        handmade.QWEN_IDS, handmade.QWEN_RANGES, values(2, 1 << 22, dtype=np.uint8), {}, batched=["pixel_values"]
    )
    tracemalloc.start()
    try:
        decoded = decode(request)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = decoded.batches[0].tensors["pixel_values"].nbytes
    assert size == 1 << 23
    assert size <= peak < 1.1 * size


# ---- what is no request


@pytest.mark.parametrize("name", list(RIGHT))
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_serialized(name, kind):
    request = RIGHT[name]()
    expected = decode(request)
    decoded = decode(kind(request.SerializeToString()), backend=expected.backend)
    assert decoded.input_ids.tolist() == expected.input_ids.tolist()
    assert decoded.images == expected.images
    for item, other in zip(decoded.items, expected.items, strict=True):
        assert (item.ranges, item.hash, item.tensors.keys()) == (other.ranges, other.hash, other.tensors.keys())
        for key, tensor in item.tensors.items():
            same(tensor, other.tensors[key])


def test_unknown_fields_are_passed_over():
    padded = handmade.qwen().SerializeToString() + b"\xa2\x7d\x03abc"
    assert len(decode(padded, backend="vllm").items) == 2


def test_bytes_that_are_no_message():
    refused(b"\xff\xff\xff", "the bytes are no GenerateRequest of vllm", backend="vllm")
    refused(handmade.qwen().SerializeToString()[:-1], "the bytes are no GenerateRequest of vllm", backend="vllm")


@pytest.mark.parametrize(
    ("request_", "options", "text"),
    [
        (b"", {}, "bytes need backend"),
        (b"", {"backend": "triton"}, "the backend must be one of vllm"),
        ("text", {}, "request must be a GenerateRequest of a backend, or its bytes"),
        (None, {"backend": "vllm"}, "request must be a GenerateRequest of vllm, or its bytes"),
        (handmade.qwen().mm_inputs, {}, "request must be a GenerateRequest of a backend"),
        (handmade.qwen(), {"backend": "sglang"}, "request must be a GenerateRequest of sglang"),
        (handmade.qwen(), {"shm": "always"}, "shm must be one of unlink, keep, refuse"),
    ],
)
def test_wrong_arguments(request_, options, text):
    with pytest.raises(OptionError, match=text):
        decode(request_, **options)


def test_the_backend_may_be_named():
    assert decode(handmade.qwen(), backend="vllm").backend == "vllm"


@pytest.mark.parametrize("name", list(RIGHT))
def test_bytes_that_are_damaged(name):
    """Whatever the bytes are, they are a request of each backend, or there is a reason why not."""
    data = RIGHT[name]().SerializeToString()
    random = np.random.default_rng(0)
    texts, read = [], 0
    for _ in range(200):
        damaged = bytearray(data)
        for place in random.integers(0, len(data), random.integers(1, 4)):
            damaged[place] = random.integers(0, 256)
        for backend in BACKENDS:
            try:
                decoded = decode(damaged, backend=backend, shm="refuse")
            except RequestError as error:
                texts.append(str(error))
            else:
                texts += problems(decoded)
                read += bool(json.dumps(describe(decoded)))
    assert 0 < read < 200 * len(BACKENDS)
    assert [text for text in texts if not text.isprintable()] == []


# ---- what a receiver refuses


def spoiled(name, **fields):
    """A request whose encoder input has other fields."""
    request = RIGHT[name]()
    tokenspeed = name.startswith("tokenspeed")
    tensor = request.mm_inputs.items[0].encoder_input if tokenspeed else request.mm_inputs.pixel_values
    for field, value in fields.items():
        if field == "shape":
            tensor.shape[:] = value
        else:
            setattr(tensor, field, value)
    return request


SIX = "float32, bfloat16, float16, uint8, int64 or uint32"


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("llava", {"dtype": "int32"}, f"mm_inputs.pixel_values has the dtype 'int32'; it must be {SIX}"),
        ("llava", {"dtype": ""}, f"mm_inputs.pixel_values has the dtype ''; it must be {SIX}"),
        (
            "sglang_qwen",
            {"dtype": "torch.bfloat16"},
            f"mm_inputs.pixel_values has the dtype 'torch.bfloat16'; it must be {SIX}",
        ),
        ("llava", {"dtype": "x" * 5000}, f"mm_inputs.pixel_values has the dtype a long text; it must be {SIX}"),
        ("llava", {"shape": []}, "mm_inputs.pixel_values has the shape []; one number must have the shape [1]"),
        (
            "llava",
            {"shape": [2, 0], "inline": b""},
            "mm_inputs.pixel_values has the shape [2, 0] and no elements; it must be left out",
        ),
        ("llava", {"shape": [1] * 33}, "mm_inputs.pixel_values has 33 dimensions, more than 32"),
        ("llava", {"inline": b"123"}, "mm_inputs.pixel_values has 3 bytes, but bfloat16 [2, 3, 4, 4] needs 192"),
        (
            "llava",
            {"shape": [2**32 - 1] * 4},
            f"mm_inputs.pixel_values has 192 bytes, but bfloat16 {[2**32 - 1] * 4} needs {2 * (2**32 - 1) ** 4}",
        ),
        (
            "sglang_qwen",
            {"data": bytes(1540)},
            "mm_inputs.pixel_values has 1540 bytes, but float32 [32, 12] needs 1536",
        ),
        (
            "tokenspeed_qwen",
            {"shape": []},
            "mm_inputs.items[0].encoder_input has the shape []; one number must have the shape [1]",
        ),
        (
            "tokenspeed_qwen",
            {"dtype": "object"},
            f"mm_inputs.items[0].encoder_input has the dtype 'object'; it must be {SIX.replace(' or', ',')}, bool, "
            "int8, int16, int32, uint16, uint64 or float64",
        ),
    ],
)
def test_tensors_that_cannot_be_read(name, fields, text):
    refused(spoiled(name, **fields), text)


def test_payloads_that_cannot_be_read():
    request = handmade.llava()
    request.mm_inputs.pixel_values.ClearField("inline")
    refused(request, "mm_inputs.pixel_values has no bytes, neither inline nor in shared memory")
    request.mm_inputs.pixel_values.remote.transport = "nixl"
    refused(request, "mm_inputs.pixel_values is on another host, from where nothing is read; it must be inline")


def test_side_tensors_are_read_as_strictly():
    request = handmade.qwen()
    request.mm_inputs.model_specific_tensors["image_grid_thw"].dtype = "float64"
    refused(request, f"mm_inputs.image_grid_thw has the dtype 'float64'; it must be {SIX}")
    request = handmade.qwen()
    put(request.mm_inputs.model_specific_tensors["image\n"], np.array(1))
    refused(
        request,
        r"mm_inputs.model_specific_tensors['image\n'] has the shape []; one number must have the shape [1]",
    )


def test_a_tensor_twice():
    request = handmade.llava()
    put(request.mm_inputs.model_specific_tensors["pixel_values"], values(2, 3))
    refused(request, "mm_inputs.model_specific_tensors has 'pixel_values', which is there already")


def test_sizes_that_are_not_there():
    request = handmade.qwen()
    del request.mm_inputs.model_specific_tensors["patches_per_image"]
    refused(request, "mm_inputs.flat_keys divides 'pixel_values' by 'patches_per_image', and there is no such tensor")


@pytest.mark.parametrize("sizes", [np.array([24, 0]), np.array([40, -8]), np.array([24.0, 8.0], np.float32)])
def test_sizes_that_are_none(sizes):
    request = handmade.qwen()
    put(request.mm_inputs.model_specific_tensors["patches_per_image"], sizes)
    refused(request, "mm_inputs.patches_per_image divides 'pixel_values', and must hold whole numbers above 0")


def test_other_numbers_of_items():
    request = handmade.qwen()
    put(request.mm_inputs.model_specific_tensors["patches_per_image"], np.array([16, 8, 8]))
    refused(request, "mm_inputs.pixel_values is divided among 3 items, but mm_placeholders has 2")
    request = handmade.qwen()
    put(request.mm_inputs.model_specific_tensors["image_grid_thw"], np.array([[1, 4, 8]]))
    refused(request, "mm_inputs.image_grid_thw is divided among 1 items, but mm_placeholders has 2")


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_placeholders_than_items(count):
    request = handmade.llava()
    del request.mm_inputs.mm_placeholders[count:]
    refused(request, f"mm_inputs.pixel_values is divided among 2 items, but mm_placeholders has {count}")


def test_more_placeholders_than_items():
    request = handmade.llava()
    request.mm_inputs.mm_placeholders.add(offset=0, length=1)
    refused(request, "mm_inputs.pixel_values is divided among 2 items, but mm_placeholders has 3")


@pytest.mark.parametrize("name", ["llava", "sglang_qwen", "tokenspeed_qwen"])
def test_ranges_that_have_more_than_the_prompt(name):
    request = RIGHT[name]()
    tokenspeed = name.startswith("tokenspeed")
    holder = request.mm_inputs.items[0] if tokenspeed else request.mm_inputs
    ranges, field = (holder.placeholders, "placeholders") if tokenspeed else (holder.mm_placeholders, "mm_placeholders")
    del ranges[:]
    for _ in range(2):
        ranges.add(offset=0, length=2**32 - 1)
    prompt = len(request.tokenized.input_ids)
    where = f"mm_inputs{'.items[0]' if tokenspeed else ''}.{field}"
    refused(request, f"{where} overlap: they have {2 * prompt} tokens of a prompt of {prompt}")


def test_references():
    request = handmade.text()
    request.media_refs.items.add(url="data:,")
    refused(request, "media_refs are not read: images must be tensors")


def test_no_items_of_tokenspeed():
    request = handmade.text("tokenspeed")
    request.mm_inputs.SetInParent()
    refused(request, "mm_inputs.items is empty")


# ---- shared memory


@pytest.fixture
def segment():
    """The name of a segment with 100 bytes before an array, and the array."""
    array = values(2, 3, 4, 4)
    name = f"foveal-test-{secrets.token_hex(8)}"
    path = f"/dev/shm/{name}"
    with open(path, "xb") as file:
        file.write(bytes(100) + array.tobytes() + bytes(10))
    yield name, path, array
    with suppress(FileNotFoundError):
        os.unlink(path)


def by_handle(name, offset=100, nbytes=192, backend="llava"):
    request = RIGHT[backend]()
    tokenspeed = backend.startswith("tokenspeed")
    tensor = request.mm_inputs.items[0].encoder_input if tokenspeed else request.mm_inputs.pixel_values
    put(tensor, values(2, 3, 4, 4))
    tensor.shm.name, tensor.shm.offset, tensor.shm.nbytes = name, offset, nbytes
    return request


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("backend", ["llava", "tokenspeed_llama4"])
def test_shared_memory_is_read_and_removed(segment, slash, backend):
    name, path, array = segment
    batch = decode(by_handle(f"{slash}{name}", backend=backend)).batches[0]
    same(batch.tensors[batch.primary], array)
    assert not batch.tensors[batch.primary].flags.writeable
    assert not os.path.exists(path)


def test_shared_memory_is_kept(segment):
    name, path, array = segment
    for _ in range(2):
        same(decode(by_handle(name), shm="keep").batches[0].tensors["pixel_values"], array)
    assert os.path.exists(path)


def test_the_receivers_own_reader(segment, monkeypatch):
    monkeypatch.setattr(mm_shm, "UNLINK_MM_SHM_AFTER_READ", False)
    request = by_handle(segment[0])
    tensor = decode(request, shm="keep").batches[0].tensors["pixel_values"]
    assert tensor.tobytes() == mm_shm.tensor_payload_bytes(request.mm_inputs.pixel_values)


def test_shared_memory_is_not_read(segment):
    name, path, _ = segment
    refused(
        by_handle(name),
        "mm_inputs.pixel_values is in shared memory, which is not read here; it must be inline",
        shm="refuse",
    )
    assert os.path.exists(path)


@pytest.mark.parametrize("name", ["", "/", ".", "..", "a/b", "../etc/passwd", "a\0b"])
def test_names_that_are_no_files(name):
    refused(
        by_handle(name), "mm_inputs.pixel_values names a segment of shared memory by something that is no file's name"
    )
    with pytest.raises(ValueError):
        mm_shm.validated_shm_name(name)


def test_segments_that_cannot_be_opened(segment):
    name, path, _ = segment
    start = "mm_inputs.pixel_values names a segment of shared memory that"
    refused(by_handle(f"{name}-"), f"{start} cannot be opened: it does not exist (one that was read is removed)")
    os.symlink(path, f"{path}-link")
    try:
        refused(by_handle(f"{name}-link"), f"{start} cannot be opened: it is a symbolic link")
        assert os.path.islink(f"{path}-link")
    finally:
        os.unlink(f"{path}-link")
    os.unlink(path)
    os.mkfifo(path)
    refused(by_handle(name), f"{start} is no regular file")
    assert os.path.exists(path)
    refused(by_handle("x" * 300), f"{start} cannot be opened: file name too long")


def test_a_segment_for_two_tensors(segment):
    request = by_handle(segment[0])
    request.mm_inputs.model_specific_tensors["extra"].CopyFrom(request.mm_inputs.pixel_values)
    refused(
        request,
        "mm_inputs.extra names a segment of shared memory that cannot be opened: it does not exist (one that was read "
        "is removed)",
    )


@pytest.mark.parametrize(
    ("offset", "nbytes", "text"),
    [
        (100, 191, "mm_inputs.pixel_values has 191 bytes, but bfloat16 [2, 3, 4, 4] needs 192"),
        (100, 2**63, f"mm_inputs.pixel_values has {2**63} bytes, but bfloat16 [2, 3, 4, 4] needs 192"),
        (111, 192, "mm_inputs.pixel_values ends at byte 303 of a segment of shared memory that has 302"),
        (
            2**64 - 1,
            192,
            f"mm_inputs.pixel_values ends at byte {2**64 + 191} of a segment of shared memory that has 302",
        ),
    ],
)
def test_segments_of_a_wrong_length_are_removed(segment, offset, nbytes, text):
    name, path, _ = segment
    refused(by_handle(name, offset, nbytes), text)
    assert not os.path.exists(path)


def test_tokenspeed_reads_only_floats_from_shared_memory(segment):
    request = by_handle(segment[0], backend="tokenspeed_llama4")
    request.mm_inputs.items[0].encoder_input.dtype = "uint8"
    refused(
        request,
        "mm_inputs.items[0].encoder_input is uint8 in shared memory, which must be float32, bfloat16 or float16",
    )


def test_sglang_has_no_shared_memory():
    assert "shm" not in messages("sglang").pb2.TensorData.DESCRIPTOR.fields_by_name


# ---- torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", WITH_TENSORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_torch(torch, name, dtype):
    request = RIGHT[name]()
    plain, decoded = decode(request), decode(request, torch_dtype=dtype)
    for item, expected in zip(decoded.items, plain.items, strict=True):
        for key, array in expected.tensors.items():
            tensor = item.tensors[key]
            if np.issubdtype(array.dtype, np.integer):
                same(tensor.numpy(), array)
            else:
                assert tensor.dtype == getattr(torch, dtype)
                wide = torch.from_numpy(array.astype(np.float32))
                assert torch.equal(tensor, wide.to(tensor.dtype))
        mask = None if item.is_embed is None else item.is_embed.tolist()
        assert mask == (None if expected.is_embed is None else expected.is_embed.tolist())
        assert item.is_embed is None or item.is_embed.dtype == torch.bool
        assert item.feature_tokens == expected.feature_tokens


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_the_receivers_own_tensors(torch, dtype):
    from smg_grpc_servicer import tensor_wire

    array = values(2, 3, 5, dtype=dtype)
    request = handmade.llava()
    put(request.mm_inputs.model_specific_tensors["extra"], array)
    expected = tensor_wire.tensor_from_parts(array.tobytes(), array.shape, array.dtype.name)
    if expected.is_floating_point():
        expected = expected.to(torch.float16)
    found = decode(request, torch_dtype=torch.float16).batches[0].tensors["extra"]
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_tokenspeed_casts_the_encoders_input_alone(torch):
    request = handmade.tokenspeed_qwen()
    put(request.mm_inputs.items[0].model_specific_tensors["seconds"], np.array([0.1], np.float32))
    tensors = decode(request, torch_dtype="float16").items[0].tensors
    assert (tensors["encoder_input"].dtype, tensors["seconds"].dtype) == (torch.float16, torch.float32)


def test_torch_tensors_do_not_touch_the_message(torch):
    request = handmade.llava()
    decode(request, torch_dtype="bfloat16").batches[0].tensors["pixel_values"].zero_()
    same(decode(request).batches[0].tensors["pixel_values"], values(2, 3, 4, 4))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "torch.int64", "float64", ""])
def test_torch_dtypes_that_no_encoder_has(dtype):
    with pytest.raises(OptionError, match="torch_dtype must be float32, bfloat16 or float16"):
        decode(handmade.llava(), torch_dtype=dtype)


def test_torch_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(OptionError, match="torch tensors need the package torch: pip install torch"):
        decode(handmade.llava(), torch_dtype="bfloat16")
    assert len(decode(handmade.llava()).items) == 2


def test_the_grpc_that_is_imported_is_the_library():
    import grpc

    assert grpc.__file__
    assert hasattr(grpc, "aio")


def test_two_extra_batches_of_the_same_keys_can_be_read():
    request = handmade.llava()
    fill_vllm(request.extra_mm_inputs.add(), [(0, 1)], values(1, 3, 4, 4), {}, batched=["pixel_values"])
    assert [batch.name for batch in decode(request).batches] == ["mm_inputs", "extra_mm_inputs[0]"]


def test_many_empty_ranges_are_not_made_items():
    request = handmade.qwen()
    for _ in range(300):
        request.mm_inputs.mm_placeholders.add(offset=0, length=0)
    tokens = len(request.tokenized.input_ids)
    refused(request, f"mm_inputs.mm_placeholders are 302, more than the {tokens} tokens of the prompt")
