"""Output buffers and dtypes, and what is refused."""

import ml_dtypes
import msgspec
import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.errors import MediaError, OptionError, OutputError
from foveal.media.pixels import ON_WHITE, Pixels
from foveal.run import buffers, execute, info, resize
from foveal.run.buffers import aligned_empty

IMAGE = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def pre():
    return foveal.Preprocessor.from_spec("qwen2_vl")


def test_aligned_memory():
    for shape, dtype in (((3, 5, 7), np.float32), ((11,), ml_dtypes.bfloat16), ((4, 1), np.uint8)):
        array = aligned_empty(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous


def test_no_memory_of_negative_size():
    with pytest.raises(OptionError, match=r"^shape is \(-1, 3\): dimensions must not be negative$"):
        aligned_empty((-1, 3), np.float32)


def test_memory_of_one_dimension():
    assert aligned_empty(5, "bfloat16").shape == aligned_empty(np.int64(5), "uint8").shape == (5,)
    assert aligned_empty([2, 3], "float32").shape == (2, 3)


@pytest.mark.parametrize(("shape", "dtype"), [((2.5,), "uint8"), (2.5, "uint8"), ("23", "uint8"), ((2,), "float23")])
def test_no_memory_of_what_is_no_shape_or_dtype(shape, dtype):
    with pytest.raises(OptionError, match=r"^a shape has whole numbers, and a dtype is one of NumPy's or its name$"):
        aligned_empty(shape, dtype)


def test_results_are_aligned(pre):
    assert pre(IMAGE)["pixel_values"].ctypes.data % 64 == 0


def test_out_is_written_and_returned(pre):
    shape = pre.plan(60, 90).shape
    want = pre(IMAGE)["pixel_values"]
    for out in (np.empty(shape, np.float32), aligned_empty(shape, np.float32)):
        out.fill(np.nan)
        result = pre(IMAGE, out=out)
        assert result["pixel_values"] is out
        np.testing.assert_array_equal(out, want)


def test_out_unaligned_in_the_middle_of_other_memory(pre):
    shape = pre.plan(60, 90).shape
    size = int(np.prod(shape))
    memory = np.full(4 * size + 64, 0x5A, np.uint8)
    out = memory[12 : 12 + 4 * size].view(np.float32).reshape(shape)
    pre(IMAGE, out=out)
    np.testing.assert_array_equal(out, pre(IMAGE)["pixel_values"])
    assert (memory[:12] == 0x5A).all()
    assert (memory[12 + 4 * size :] == 0x5A).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda shape: np.empty((shape[0], 7), np.float32), r"^out has shape \(24, 7\), this call needs \(24, 1176\)$"),
        (lambda shape: np.empty(shape, np.float64), r"^out has dtype float64, this call needs float32$"),
        (lambda shape: np.empty(shape, ml_dtypes.bfloat16), r"^out has dtype bfloat16, this call needs float32$"),
        (lambda shape: np.empty(shape, ">f4"), r"^out has dtype >f4, this call needs float32$"),
        (lambda shape: np.empty(shape[::-1], np.float32).T, r"^out must be C-contiguous and writeable$"),
        (lambda shape: np.empty((shape[0], 2352), np.float32)[:, ::2], r"^out must be C-contiguous and writeable$"),
        (lambda shape: np.broadcast_to(np.float32(0), shape), r"^out must be C-contiguous and writeable$"),
        (lambda shape: [0.0], r"^out must be a NumPy array$"),
    ],
)
def test_a_wrong_out_is_refused(pre, make, text):
    with pytest.raises(OutputError, match=text):
        pre(IMAGE, out=make(pre.plan(60, 90).shape))


@pytest.mark.parametrize("dtype", ["bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "torch.bfloat16"])
def test_bfloat16_is_the_rounded_float32(pre, dtype):
    want = pre(IMAGE)["pixel_values"].astype(ml_dtypes.bfloat16)
    got = pre(IMAGE, dtype=dtype)["pixel_values"]
    assert got.dtype == ml_dtypes.bfloat16
    assert got.tobytes() == want.tobytes()


def test_uint8_is_what_is_normalized(pre):
    raw = pre(IMAGE, dtype="uint8")["pixel_values"].astype(np.float32)
    channel = raw.reshape(len(raw), 3, -1)
    mean, std = np.float32(pre.spec.image.normalize.mean), np.float32(pre.spec.image.normalize.std)
    value = (channel - mean[:, None] * np.float32(255)) / (std[:, None] * np.float32(255))
    np.testing.assert_array_equal(value.reshape(raw.shape), pre(IMAGE)["pixel_values"])


def test_float32_of_a_bfloat16_model():
    pre = foveal.Preprocessor.from_spec("llama4")
    assert pre.dtype == "bfloat16"
    want = pre(IMAGE)["pixel_values"].astype(np.float32)
    np.testing.assert_array_equal(pre(IMAGE, dtype=np.float32)["pixel_values"], want)


@pytest.mark.parametrize("dtype", ["int32", "int64", "complex128", np.float64])
def test_other_dtypes_are_refused(pre, dtype):
    name = np.dtype(dtype).name
    with pytest.raises(OptionError, match=rf"^dtype is '{name}': it must be one of float32, bfloat16, float16, uint8$"):
        pre(IMAGE, dtype=dtype)


def test_a_dtype_that_is_none():
    with pytest.raises(OptionError, match=r"^dtype is 'unknown': it must be one of float32, bfloat16, float16, uint8$"):
        foveal.Preprocessor.from_spec("qwen2_vl")(IMAGE, dtype=object())


def test_an_image_larger_than_its_header_never_reaches_a_kernel(pre):
    plan = pre.plan(IMAGE)
    rows = (IMAGE.ctypes.data + np.arange(30) * IMAGE.strides[0]).astype(np.uint64)
    smaller = Pixels(30, 90, rows, 3, (0, 1, 2), None, ON_WHITE, IMAGE)
    with pytest.raises(MediaError, match=r"^image 0: decoded to 30x90 \(height x width\), its header says 60x90$"):
        execute.run_batch(plan, pre.normalization, [lambda: smaller], "float32")


def test_out_may_not_lie_over_an_image(pre):
    memory = np.zeros((400, 1176), np.float32)
    image = memory.view(np.uint8).reshape(-1)[: 60 * 90 * 3].reshape(60, 90, 3)
    for picture in (image, image[::-1, ::-1]):
        with pytest.raises(OutputError, match=r"^out shares memory with image 1$"):
            pre([IMAGE, picture], out=memory[:48])
    pre([IMAGE, image], out=memory[100:148])


def test_out_may_not_lie_over_one_channel_of_an_image(pre):
    memory = np.zeros((400, 1176), np.float32)
    planes = memory.view(np.uint8).reshape(-1)[: 3 * 60 * 8000].reshape(3, 60, 8000)[:, :, :90]
    last_plane = memory[210:234]
    assert np.shares_memory(planes[2], last_plane)
    assert not np.shares_memory(planes[:2], last_plane)
    with pytest.raises(OutputError, match=r"^out shares memory with image 0$"):
        pre(planes, out=last_plane, input_data_format="channels_first")


def test_out_between_the_rows_of_an_image(pre):
    """Pillow keeps a large image in several blocks of memory, and anything may lie between them."""
    memory = np.zeros((400, 1176), np.float32)
    inside = memory.view(np.uint8).reshape(-1)
    halves = inside[: 30 * 270], inside[-30 * 270 :]
    for half, part in zip(halves, (IMAGE[:30], IMAGE[30:]), strict=True):
        half[:] = part.reshape(-1)
    rows = np.concatenate([half.ctypes.data + np.arange(30) * 270 for half in halves]).astype(np.uint64)
    image = Pixels(60, 90, rows, 3, (0, 1, 2), None, ON_WHITE, memory)
    plan = pre.plan([IMAGE])
    height = plan.shape[0]
    result = execute.run_batch(plan, pre.normalization, [lambda: image], "float32", out=memory[100 : 100 + height])
    np.testing.assert_array_equal(result, pre(IMAGE)["pixel_values"])
    for out in (memory[:height], memory[1 : height + 1], memory[-height:]):
        with pytest.raises(OutputError, match=r"^out shares memory with image 0$"):
            execute.run_batch(plan, pre.normalization, [lambda: image], "float32", out=out)


def test_more_memory_than_there_is():
    plan = foveal.Preprocessor.from_spec("qwen2_vl").plan([IMAGE])
    huge = msgspec.structs.replace(plan, shape=(1 << 50, 1176))
    with pytest.raises(OutputError, match=r"^the primary tensor \(1125899906842624, 1176\) needs \d+ bytes, which"):
        execute.run_batch(huge, foveal.Preprocessor.from_spec("qwen2_vl").normalization, [], "float32")


def test_scratch_that_is_unusually_large_is_not_kept():
    small = buffers.scratch(1000, 10)[0]
    assert buffers.scratch(buffers.KEPT_BYTES + 1, 10)[0].size > buffers.KEPT_BYTES
    assert buffers.scratch(1000, 10)[0] is small or small.size < 1000


@pytest.mark.parametrize(("size", "drawn"), [((48, 64), 3), ((60, 90), 4)])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_stage_that_changes_nothing_is_not_made(monkeypatch, size, drawn, threads):
    """A second stage of the size that the first one has; the views read the first one, which is not in the output."""
    monkeypatch.setenv("FOVEAL_THREADS", "3")
    pre, image = foveal.Preprocessor.from_spec("idefics3"), IMAGE[: size[0], : size[1]]
    names, run_view = set(), execute.run_view
    monkeypatch.setattr(execute, "run_view", lambda view, *a, **o: names.add(view.name) or run_view(view, *a, **o))
    found = pre(image, threads=threads)["pixel_values"]
    assert len(names) == drawn
    monkeypatch.setattr(execute, "_repeats", lambda view, size: False)
    np.testing.assert_array_equal(pre(image, threads=threads)["pixel_values"], found)


def test_resize_alone():
    result = resize(IMAGE, (30, 40))
    assert result.shape == (3, 30, 40)
    assert result.dtype == np.uint8
    out = np.empty((3, 30, 40), np.uint8)
    assert resize(IMAGE, (30, 40), out=out) is out
    np.testing.assert_array_equal(out, result)
    for wrong in ({"filter": "sinc"}, {"reference": "opencv"}):
        with pytest.raises(OptionError, match=r"^filter must be one of"):
            resize(IMAGE, (30, 40), **wrong)
    with pytest.raises(OptionError, match=r"^size is 0x40 \(height x width\): it must be at least 1x1$"):
        resize(IMAGE, (0, 40))


@pytest.mark.parametrize("filter", ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(30, 40), (7, 80), (200, 131)])
def test_resize_alone_with_each_filter_of_pillow(filter, size):
    want = Image.fromarray(IMAGE).resize(size[::-1], Image.Resampling[filter.upper()])
    np.testing.assert_array_equal(resize(IMAGE, size, filter).transpose(1, 2, 0), np.asarray(want))


@pytest.mark.parametrize("filter", ["box", "hamming"])
def test_filters_that_torchvision_lacks(filter):
    with pytest.raises(OptionError, match=rf"^filter is '{filter}': torchvision has no such filter for tensors, only"):
        resize(IMAGE, (30, 40), filter, "torchvision")


def test_what_a_process_runs_on():
    facts = info()
    assert facts["level"] in facts["levels"]
    assert facts["threads"] >= 1
    assert facts["versions"]["numba"]
