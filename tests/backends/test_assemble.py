import io
import os
from pathlib import Path

import numpy as np
import plain
import pytest
from PIL import Image

import foveal
from foveal.backends import BACKENDS, ServerInfo, assemble
from foveal.backends.messages import messages, recognized
from foveal.backends.shm import namespace_id
from foveal.errors import ImageSizeError, OptionError, RequestError
from foveal.grpc.checking import problems
from foveal.grpc.decoding import decode
from foveal.media.sources import Source
from foveal.spec import find

SIZES = [(60, 80), (90, 50), (48, 140)]


def pictures(count, one_size=False):
    random = np.random.default_rng(5)
    sizes = [SIZES[0]] * 3 if one_size else SIZES
    return [random.integers(0, 256, (*size, 3), np.uint8) for size in sizes[:count]]


def png(array):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def made():
    """Return preprocessors by name, made once."""
    kept = {}
    return lambda name: kept.setdefault(name, plain.made(name))


def processed(preprocessor, images, **options):
    tokens = preprocessor.spec.tokens
    ids = plain.prompt(tokens, len(images))
    return preprocessor.process(ids, images, encode=plain.encode(tokens), **options)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", plain.VLLM)
def test_vllm(name, count, made):
    images = pictures(count, name in plain.ONE_SIZE)
    ready = processed(made(name), images)
    for info in (ServerInfo(encoder_dtype="bfloat16"), ServerInfo(encoder_dtype="bfloat16", device_normalize=True)):
        request = assemble(ready, "vllm", info, request_id="r")
        assert request.message() == plain.vllm(made(name), ready, images, info)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["qwen2_5_vl", "llava_next"])
def test_every_dtype(name, dtype, made):
    images, info = pictures(2), ServerInfo(encoder_dtype=dtype)
    ready = processed(made(name), images)
    assert assemble(ready, "vllm", info, request_id="r").message() == plain.vllm(made(name), ready, images, info)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", plain.SGLANG)
def test_sglang(name, count, made):
    images = pictures(count, name in plain.ONE_SIZE)
    ready, info = processed(made(name), images), ServerInfo()
    request = assemble(ready, "sglang", info, request_id="r")
    assert request.message() == plain.sglang(made(name), ready, images, info)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", [name for name in plain.VLLM if name != "internvl_chat"])
def test_tokenspeed(name, count, made):
    images, info = pictures(count), ServerInfo(encoder_dtype="bfloat16")
    ready = processed(made(name), images)
    request = assemble(ready, "tokenspeed", info, request_id="r")
    assert request.message() == plain.tokenspeed(made(name), ready, images, info)


def test_the_contract_covers_every_spec_that_names_an_engine(made):
    by_engine = {"vllm": set(plain.VLLM), "sglang": set(plain.SGLANG)}
    for name in find.names():
        engines = made(name).spec.wire.engines
        assert {engine for engine, names in by_engine.items() if name in names} == set(engines), name


# ---- TensorRT-LLM


def test_trtllm_gets_the_files_and_nothing_is_decoded(made, monkeypatch, tmp_path):
    monkeypatch.setattr(Source, "decode", lambda self: pytest.fail("decoded"))
    monkeypatch.setattr(foveal.intermediate.Intermediate, "write", lambda *_: pytest.fail("a kernel ran"))
    files = [png(array) for array in pictures(3)]
    (tmp_path / "a.png").write_bytes(files[0])
    images = [tmp_path / "a.png", files[1], io.BytesIO(files[2])]
    ready = processed(made("qwen2_5_vl"), images)
    message = assemble(ready, "trtllm", request_id="r", sampling={"max_tokens": 5, "stop": "x"}, stream=False).message()
    expected = messages("trtllm").pb2.GenerateRequest(request_id="r", max_tokens=5, stop=["x"])
    expected.sampling_config.temperature = 1.0
    expected.tokenized.input_token_ids.extend(plain.prompt(made("qwen2_5_vl").spec.tokens, 3))
    expected.multimodal_input.image_data.extend(files)
    assert message == expected


def test_trtllm_takes_every_family(made):
    for name in find.names():
        if made(name).spec.tokens is not None:
            ready = processed(made(name), [png(pictures(1)[0])])
            assert len(assemble(ready, "trtllm").message().multimodal_input.image_data) == 1


def test_trtllm_refuses_what_has_no_file(made):
    image = pictures(1)[0]
    for kind, given in (("array", image), ("pillow", Image.fromarray(image))):
        with pytest.raises(RequestError, match=rf"^image 1: trtllm takes encoded images, and this is one of {kind}$"):
            assemble(processed(made("qwen2_5_vl"), [png(image), given]), "trtllm")


def test_trtllm_notices_a_file_that_changed(made, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(pictures(1)[0]))
    ready = processed(made("qwen2_5_vl"), [path])
    path.write_bytes(b"other")
    with pytest.raises(foveal.MediaError, match="the file changed after it was opened"):
        assemble(ready, "trtllm")


# ---- what cannot be sent


def test_images_of_several_sizes_in_one_tensor(made):
    for name in plain.ONE_SIZE:
        ready = processed(made(name), pictures(2))
        with pytest.raises(ImageSizeError, match=r"^image 1 is 90x50 \(height x width\): it becomes .*one size"):
            assemble(ready, "vllm")


def test_engines_that_do_not_take_a_family(made):
    for name, backend, text in (
        ("gemma3", "sglang", "sglang cannot serve gemma3 over gRPC: its receiver looks for pairs"),
        ("llava1_5", "sglang", "its receiver expands the placeholder itself"),
        ("ovis2", "vllm", r"ovis2 is not known to be taken by vllm: its spec has no wire\.vllm"),
        ("mllama", "tokenspeed", "the features of mllama stand in no prompt"),
    ):
        with pytest.raises(RequestError, match=text):
            assemble(processed(made(name), pictures(1)), backend)


def test_normalization_that_is_off_where_the_worker_normalizes(made):
    for option in ("do_normalize", "do_rescale", "image_mean", "image_std", "rescale_factor"):
        value = {"rescale_factor": 1 / 127.5}.get(option, [0.25] * 3 if option.startswith("image") else False)
        ready = processed(made("qwen2_5_vl"), pictures(1), **{option: value})
        with pytest.raises(RequestError, match="the worker normalizes pixels itself, by the checkpoint's numbers"):
            assemble(ready, "vllm", ServerInfo(device_normalize=True))
    assert assemble(
        processed(made("qwen2_5_vl"), pictures(1), max_pixels=3136), "vllm", ServerInfo(device_normalize=True)
    )
    assert assemble(ready, "vllm", ServerInfo()).message().mm_inputs.pixel_values.dtype == "float32"


def test_limits_of_the_worker_and_of_the_spec(made):
    ready = processed(made("qwen2_5_vl"), pictures(3))
    with pytest.raises(RequestError, match=r"^there are 3 images, more than the worker's limit of 2$"):
        assemble(ready, "vllm", ServerInfo(images=2))
    with pytest.raises(foveal.MediaTooLarge, match=r"^there are 5 images, more than the limit of 4 \(llava1_5\)$"):
        processed(made("llava1_5"), pictures(1) * 5)


def test_arguments(made):
    ready = processed(made("llava1_5"), pictures(1))
    with pytest.raises(OptionError, match="the backend must be one of vllm, sglang, trtllm, tokenspeed"):
        assemble(ready, "vLLM")
    with pytest.raises(OptionError, match="transport must be"):
        assemble(ready, "vllm", transport="rdma")
    with pytest.raises(RequestError, match="does not say that it shares"):
        assemble(ready, "vllm", transport="shm")
    for request_id in ("", "x" * 257, 5):
        with pytest.raises(OptionError, match="request_id must be"):
            assemble(ready, "vllm", request_id=request_id)


def test_arguments_of_wrong_types(made):
    ready = processed(made("llava1_5"), pictures(1))
    for wrong, text in (
        ({"server_info": "x"}, "server_info must be a ServerInfo"),
        ({"sampling": [1]}, "sampling must be a mapping"),
        ({"stream": "x"}, "stream must be true or false"),
        ({"request_id": "\ud800"}, "request_id must be valid Unicode"),
    ):
        with pytest.raises(OptionError, match=text):
            assemble(ready, "vllm", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"encoder_dtype": "uint8"},
        {"encoder_dtype": None},
        {"device_normalize": "no"},
        {"images": "3"},
        {"images": 0},
        {"architectures": "Pixtral"},
        {"architectures": None},
        {"shm_namespace": None},
    ],
)
def test_server_infos_that_are_wrong(wrong):
    with pytest.raises(OptionError, match=rf"^ServerInfo\.{next(iter(wrong))}"):
        ServerInfo(**wrong)


def test_images_that_change_after_they_were_hashed(made):
    array = pictures(1)[0]
    for image in (array, Image.fromarray(array)):
        ready = processed(made("qwen2_5_vl"), [image])
        assert assemble(ready, "vllm")
        assert assemble(ready, "tokenspeed")
        if isinstance(image, Image.Image):
            image.putpixel((0, 0), (1, 2, 3))
        else:
            image[:] = 200
        for backend in ("vllm", "tokenspeed"):
            with pytest.raises(foveal.MediaError, match=r"^image 0: it was changed after it had been hashed$"):
                assemble(ready, backend)


def test_ids_belong_to_the_request(made):
    ids = np.array(plain.prompt(made("qwen2_5_vl").spec.tokens, 1))
    ready = made("qwen2_5_vl").process(ids, [png(pictures(1)[0])])
    expected = ids.tolist()
    ids[:] = 7
    assert list(assemble(ready, "trtllm").message().tokenized.input_token_ids) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_prompt_without_images(backend, made):
    ready = made("qwen2_5_vl").process([1, 2, 3])
    message = assemble(ready, backend, request_id="r").message()
    field = "multimodal_input" if backend == "trtllm" else "mm_inputs"
    assert not message.HasField(field)
    assert message.request_id == "r"


def test_ids_of_more_than_32_bits(made):
    for wrong in (-1, 1 << 32):
        with pytest.raises(RequestError, match="above 32 bits"):
            assemble(made("qwen2_5_vl").process([1, wrong]), "vllm")


def test_a_picture_that_cannot_be_decoded_is_named(made):
    broken = png(pictures(1)[0])[:-60]
    ready = processed(made("qwen2_5_vl"), [png(pictures(1)[0]), broken])
    with pytest.raises(foveal.CorruptImage, match=r"^image 1: "):
        assemble(ready, "vllm")


def test_names_of_other_architectures(made):
    ready = processed(made("pixtral"), pictures(1))
    plain_name = assemble(ready, "vllm", ServerInfo(architectures=("LlavaForConditionalGeneration",)))
    assert not plain_name.message().mm_inputs.HasField("encoder_input_key")
    other = assemble(ready, "vllm", ServerInfo(architectures=("PixtralForConditionalGeneration",))).message().mm_inputs
    assert (other.encoder_input_key, list(other.batched_keys)) == ("images", ["images"])


# ---- shared memory


def left():
    return {path.name for path in Path("/dev/shm").glob(f"foveal-*-{os.getpid()}-*")}


@pytest.mark.parametrize(("backend", "count"), [("vllm", 1), ("tokenspeed", 2)])
def test_shared_memory_holds_what_a_request_would(backend, count, made):
    images, info = pictures(2), ServerInfo(encoder_dtype="bfloat16", shm_namespace=namespace_id())
    ready = processed(made("qwen2_5_vl"), images)
    request = assemble(ready, backend, info, request_id="r", transport="shm")
    inline = assemble(ready, backend, info, request_id="r").message()
    message = request.message()
    assert len(request.segments) == len(left()) == count
    tensors, expected = (
        [each.mm_inputs.pixel_values] if backend == "vllm" else [item.encoder_input for item in each.mm_inputs.items]
        for each in (message, inline)
    )
    for tensor, other in zip(tensors, expected, strict=True):
        data = Path("/dev/shm", tensor.shm.name).read_bytes()
        assert (tensor.shm.nbytes, tensor.shm.offset) == (len(data), 0)
        assert data == other.inline
        tensor.inline = data
    assert message == inline
    request.discard()
    request.discard()
    assert left() == set()


def test_no_segment_stays_where_a_picture_cannot_be_decoded(made):
    info = ServerInfo(shm_namespace=namespace_id())
    ready = processed(made("qwen2_5_vl"), [png(pictures(1)[0]), png(pictures(1)[0])[:-60]])
    for backend in ("vllm", "tokenspeed"):
        with pytest.raises(foveal.CorruptImage, match=r"^image 1: "):
            assemble(ready, backend, info, transport="shm")
    assert left() == set()


@pytest.mark.parametrize("backend", ["sglang", "trtllm"])
def test_engines_that_read_no_shared_memory(backend, made):
    info = ServerInfo(shm_namespace=namespace_id())
    with pytest.raises(RequestError, match=f"^{backend} reads no shared memory$"):
        assemble(processed(made("qwen2_5_vl"), [png(pictures(1)[0])]), backend, info, transport="shm")


# ---- as a careful receiver sees it


@pytest.mark.parametrize("backend", ["vllm", "sglang", "tokenspeed", "trtllm"])
@pytest.mark.parametrize("name", plain.VLLM)
def test_nothing_that_a_receiver_would_not_notice_is_wrong(name, backend, made):
    if backend == "sglang" and name not in plain.SGLANG:
        return
    images = [png(array) for array in pictures(3, name in plain.ONE_SIZE)]
    ready = processed(made(name), images)
    for normalizes in (False, True):
        info = ServerInfo(encoder_dtype="bfloat16", device_normalize=normalizes)
        request = assemble(ready, backend, info)
        bytes_expected = normalizes and backend == "vllm" and plain.VLLM[name].device_normalize
        assert problems(decode(request.serialized, backend=backend), device_normalize=bytes_expected) == []
        assert recognized(request.serialized) == [backend]
