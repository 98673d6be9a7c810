"""torch's float32 interpolation, `linear` and `fixed_taps`, against the plain twin and against torch itself."""

from itertools import pairwise

import ml_dtypes
import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from views import CLIP, guarded_pixels, pixels_of, run, view_of

from foveal.errors import OptionError
from foveal.plan.plan import Normalization, Pack
from foveal.run.tables import values_of
from foveal.types import DTYPES, Box

HALF = Normalization(True, 1 / 255, True, (0.5,) * 3, (0.5,) * 3)
ODD = Normalization(True, 0.0123, True, (0.31, 0.77, 0.111), (0.019, 0.9, 0.37))
ARITHMETIC = [(HALF, "torchvision"), (CLIP, "torchvision"), (ODD, "pillow")]
"""The last one's values no arithmetic form of the emit kernel reproduces: they are looked up."""

sides = st.one_of(st.integers(1, 24), st.integers(1, 160))
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def image_of(height, width, seed, channels=3):
    random = np.random.default_rng(seed)
    if seed % 2:
        return random.integers(0, 256, (height, width, channels), dtype=np.uint8)
    return (random.integers(0, 2, (height, width, channels)) * 255).astype(np.uint8)


# ---- linear


@given(source=st.tuples(sides, sides), size=st.tuples(sides, sides), seed=st.integers(0, 1000))
@quick
def test_linear_equals_the_twin(level, source, size, seed):
    image = image_of(*source, seed, 3 + seed % 4 // 2)[..., :3]
    got = run(view_of(size, method="linear"), pixels_of(image)).reshape(3, *size)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), naive.linear(image, size))


@given(
    source=st.tuples(sides, sides),
    size=st.tuples(sides, sides),
    cuts=st.lists(st.integers(0, 160), max_size=4),
    seed=st.integers(0, 1000),
)
@quick
def test_bands_of_a_linear_resize(level, source, size, cuts, seed):
    image = image_of(*source, seed)
    view = view_of(size, method="linear", canvas=(size[0] + 5, size[1] + 3), place=(2, 1), fill=(1, 2, 3))
    want = naive.canvas(naive.linear(image, size), view.canvas, (2, 1), (1, 2, 3))
    edges = sorted({0, view.canvas.height, *(min(cut, view.canvas.height) for cut in cuts)})
    got = run(view, pixels_of(image), bands=list(pairwise(edges))[::-1]).reshape(3, *view.canvas)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


def test_linear_goes_on_as_any_canvas_does():
    image = image_of(50, 70, 3)
    view = view_of((28, 56), method="linear", pack=Pack("merge_patches", 14, 2, 2))
    got = run(view, pixels_of(image), dtype="float32", reference="torchvision")
    values = naive.look_up(naive.linear(image, (28, 56)), values_of(CLIP, "torchvision"))
    np.testing.assert_array_equal(got, naive.merge_patches(values, 14, 2, 2).ravel())


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize(("step", "width"), [(3, 40), (4, 30), (3, 3), (4, 2), (3, 1), (4, 1)])
def test_a_linear_resize_reads_nothing_beyond_a_row(step, width, at_end):
    image = image_of(9, width, 5)
    pixels = guarded_pixels(image, step, at_end)
    for box in ((0, 0, 9, width), (-3, 0, 20, width), (1, width // 2, 8, width + 2)):
        for size in ((5, 17), (40, 130), (9, 1)):
            view = view_of(size, method="linear", window=box, border=(7, 8, 9))
            got = run(view, pixels).reshape(3, *size)
            np.testing.assert_array_equal(
                got.transpose(1, 2, 0), naive.linear(naive.window(image, box, (7, 8, 9)), size)
            )


# ---- fixed taps


def values_at(image, size, dtype="float32", arithmetic=(CLIP, "torchvision")):
    """The twin's result as a dtype."""
    values = naive.look_up(image, values_of(*arithmetic).astype(np.float32))
    return naive.fixed_taps(values, size).astype(DTYPES[dtype])


@given(
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    ratios=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    arithmetic=st.sampled_from(ARITHMETIC),
    cut=st.integers(0, 40),
    seed=st.integers(0, 1000),
)
@quick
def test_fixed_taps_equal_the_twin(level, size, ratios, dtype, arithmetic, cut, seed):
    image = image_of(size[0] * ratios[0], size[1] * ratios[1], seed)
    pack = Pack("tiles", size[0]) if size[0] == size[1] else Pack("planar")
    view = view_of(size, method="fixed_taps", pack=pack)
    cut = min(cut, size[0])
    bands, (normalization, reference) = [(cut, size[0]), (0, cut)], arithmetic
    got = run(view, pixels_of(image), reference=reference, normalization=normalization, dtype=dtype, bands=bands)
    assert got.tobytes() == values_at(image, size, dtype, arithmetic).tobytes()


def test_fixed_taps_of_any_memory_form():
    image = image_of(60, 84, 1, 4)
    for form in (image[::-1, ::-1, :3], image[..., :3], image[..., 2::-1]):
        got = run(view_of((10, 21), method="fixed_taps"), pixels_of(form), reference="torchvision", dtype="float32")
        np.testing.assert_array_equal(got.reshape(3, 10, 21), values_at(form, (10, 21)))


def test_rounding_to_bfloat16_is_half_to_even():
    """Values that lie half way between two of bfloat16 are rounded as a cast does, not away from zero."""
    image = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2)
    factor = (256 + 1) / 2**20  # odd multiples of 1 + 1 / 256
    bytes_alone = Normalization(True, factor, False, (0.0,) * 3, (1.0,) * 3)
    view = view_of((1, 256), method="fixed_taps")
    got = run(view, pixels_of(image), reference="torchvision", normalization=bytes_alone, dtype="bfloat16")
    exact = np.arange(256, dtype=np.float32) * np.float32(factor)
    assert got.reshape(3, 256)[0].tolist() == exact.astype(ml_dtypes.bfloat16).tolist()


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("ratios", [(1, 1), (2, 2), (3, 4), (4, 3), (2, 1), (1, 6)])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (5, 3), (7, 20)])
def test_fixed_taps_read_nothing_beyond_a_row(ratios, size, at_end):
    image = image_of(size[0] * ratios[0], size[1] * ratios[1], 3)
    pixels = guarded_pixels(image, 3, at_end)
    got = run(view_of(size, method="fixed_taps"), pixels, reference="torchvision", dtype="float32")
    np.testing.assert_array_equal(got.reshape(3, *size), values_at(image, size))


def test_what_fixed_taps_cannot_be():
    pixels = pixels_of(image_of(28, 28, 1))
    view = view_of((14, 14), method="fixed_taps")
    with pytest.raises(OptionError, match=r"^dtype is 'uint8': view is interpolated after normalization, which bytes"):
        run(view, pixels, dtype="uint8")
    plain = Normalization(False, 1.0, False, (0.0,) * 3, (1.0,) * 3)
    with pytest.raises(OptionError, match=r"^view is interpolated after normalization: do_rescale and do_normalize"):
        run(view, pixels, normalization=plain, dtype="float32")
    for wrong in (
        {"window": (0, 0, 27, 28)},
        {"window": (0, 0, 28, 7)},
        {"crop": Box(0, 0, 7, 14)},
        {"pack": Pack("tiles", 7)},
        {"canvas": (15, 14)},
    ):
        with pytest.raises(OptionError, match=r"^view: fixed taps are for whole canvases at whole ratios, planar or"):
            run(view_of((14, 14), method="fixed_taps", **wrong), pixels, dtype="float32")


# ---- torch itself


@pytest.fixture
def interpolate():
    """torchvision's resize without antialias of (3, height, width) float32, on one thread as in the goldens."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def resize(values, size, mode, antialias=False):
        mode = functional.InterpolationMode(mode)
        return functional.resize(torch.from_numpy(values)[None], list(size), mode, antialias=antialias)[0].numpy()

    yield resize
    torch.set_num_threads(threads)


@pytest.mark.reference
@given(
    source=st.tuples(st.integers(1, 700), st.integers(1, 700)),
    size=st.tuples(st.integers(1, 500), st.integers(1, 500)),
    seed=st.integers(0, 1000),
)
@quick
def test_linear_equals_torch(interpolate, source, size, seed):
    image = image_of(*source, seed)
    got = run(view_of(size, method="linear"), pixels_of(image))
    floats = np.ascontiguousarray(image.transpose(2, 0, 1)).astype(np.float32)
    np.testing.assert_array_equal(got.reshape(3, *size), np.rint(interpolate(floats, size, "bilinear")))


@pytest.mark.reference
@given(
    size=st.integers(1, 60),
    ratios=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    arithmetic=st.sampled_from(ARITHMETIC),
    seed=st.integers(0, 1000),
)
@quick
def test_fixed_taps_equal_torch(interpolate, size, ratios, arithmetic, seed):
    image, (normalization, reference) = image_of(size * ratios[0], size * ratios[1], seed), arithmetic
    view = view_of((size, size), method="fixed_taps")
    got = run(view, pixels_of(image), reference=reference, normalization=normalization, dtype="float32")
    values = naive.look_up(image, values_of(*arithmetic))
    np.testing.assert_array_equal(got.reshape(3, size, size), interpolate(values, (size, size), "bicubic"))


@pytest.mark.reference
@given(
    source=st.tuples(st.integers(1, 700), st.integers(1, 700)),
    size=st.tuples(st.integers(1, 500), st.integers(1, 500)),
    seed=st.integers(0, 1000),
)
@quick
def test_nearest_equals_torch(interpolate, source, size, seed):
    image = image_of(*source, seed)
    got = run(view_of(size, filter="nearest"), pixels_of(image), reference="torchvision")
    bytes_ = np.ascontiguousarray(image.transpose(2, 0, 1))
    np.testing.assert_array_equal(got.reshape(3, *size), interpolate(bytes_, size, "nearest-exact", True))
