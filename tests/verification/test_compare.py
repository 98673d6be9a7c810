import ml_dtypes
import numpy as np
import pytest

from foveal.plan.plan import Normalization, Pack, View
from foveal.types import Box, Size
from foveal.verification import compare
from foveal.verification.compare import Channels, compare_tensors, compare_values, pixel_channels

PLAIN = Channels(1, (1.0,))
CLIP = Normalization(True, 1 / 255, True, (0.5, 0.5, 0.5), (0.25, 0.5, 1.0))


def view(kind, block=0, temporal=1):
    size = Size(8, 8)
    box = Box(0, 0, *size)
    pack = Pack(kind, block, temporal=temporal)
    return View(
        "v", "image", box, (0, 0, 0), size, "bicubic", "antialias", False, box, size, (0, 0), (0, 0, 0), pack, 0
    )


def test_equal_arrays():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert compare_values(array, array.copy(), PLAIN) == (0, 0.0, 0.0)


def test_values_differ_where_their_bits_do():
    ours, theirs = np.array([0.0, 1.0, 2.0], np.float32), np.array([-0.0, 1.0, 2.5], np.float32)
    assert compare_values(ours, theirs) == (2, 0.5, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_two_that_are_not_a_number_are_the_same(dtype):
    ours, theirs = np.array([np.nan, np.nan, 1.0], dtype), np.array([np.nan, 2.0, -np.nan], dtype)
    assert compare_values(ours[:1], -theirs[:1]) == (0, 0.0, None)
    assert compare_values(ours, theirs) == (2, None, None)


def test_infinite_differences_are_none():
    ours, theirs = np.array([np.inf, 1.0], np.float32), np.array([np.inf, np.inf], np.float32)
    assert compare_values(ours, theirs, PLAIN) == (1, None, None)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.int64, ml_dtypes.bfloat16])
def test_every_dtype(dtype):
    ours = np.array([[0, 1], [1, 0]]).astype(dtype)
    assert compare_values(ours, ours[::-1]) == (4, 1.0, None)
    assert compare_values(ours, ours.copy()) == (0, 0.0, None)


def test_numbers_of_different_dtypes():
    assert compare_values(np.array([1, 2, 3]), np.array([1.0, 2.0, 3.5], np.float32)) == (1, 0.5, None)


def test_what_differs_in_a_later_part(monkeypatch):
    monkeypatch.setattr(compare, "CHUNK", 5)
    ours = np.zeros(17, np.float32)
    theirs = ours.copy()
    theirs[[4, 5, 16]] = 1, 2, 3
    # Values 4, 5 and 16 are of channels 0, 0 and 2.
    assert compare_values(ours, theirs, Channels(2, (1.0, 1.0, 0.5))) == (3, 3.0, 6.0)


@pytest.mark.parametrize(
    ("kind", "options", "shape", "run"),
    [
        ("planar", {}, (1, 3, 8, 10), 80),
        ("tiles", {"block": 4}, (4, 3, 4, 4), 16),
        ("patches", {"block": 4}, (4, 48), 16),
        ("channels_last_patches", {"block": 4}, (4, 48), 1),
        ("merge_patches", {"block": 4, "temporal": 2}, (4, 96), 32),
    ],
)
def test_channels_of_every_layout(kind, options, shape, run):
    channels = pixel_channels(view(kind, **options), shape, CLIP, "float32")
    assert channels.run == run
    assert channels.steps == pytest.approx((4 / 255, 2 / 255, 1 / 255))


def test_levels_of_values_that_are_not_normalized():
    planar = view("planar")
    scaled = Normalization(True, 1 / 255, False, (0.5,) * 3, (0.5,) * 3)
    unscaled = Normalization(False, 1 / 255, True, (0.5,) * 3, (2.0,) * 3)
    assert pixel_channels(planar, (3, 8, 8), scaled, "float32").steps == (1 / 255,) * 3
    assert pixel_channels(planar, (3, 8, 8), unscaled, "float32").steps == (0.5,) * 3
    assert pixel_channels(planar, (3, 8, 8), CLIP, "uint8").steps == (1.0,) * 3


def test_tensors_by_name():
    ours = {"pixel_values": np.zeros((1, 3, 2, 2), np.float32), "grid": np.array([[1, 2]]), "extra": np.zeros(2)}
    theirs = {"pixel_values": np.zeros((1, 3, 2, 3), np.float32), "grid": np.array([[1, 3]]), "mask": np.ones(4)}
    pixels, grid, extra, mask = compare_tensors(ours, theirs, "pixel_values", PLAIN)
    assert (pixels.alike, pixels.differing, pixels.levels) == (False, None, None)
    assert (grid.alike, grid.equal, grid.differing, grid.greatest, grid.levels) == (True, False, 1, 1.0, None)
    assert (extra.name, extra.reference_shape, extra.reference_dtype, extra.equal) == ("extra", None, None, False)
    assert (mask.name, mask.shape, mask.dtype, mask.equal) == ("mask", None, None, False)


def test_a_tensor_of_another_dtype_is_not_alike():
    ours, theirs = {"mask": np.ones(2, np.int64)}, {"mask": np.ones(2, np.int32)}
    (mask,) = compare_tensors(ours, theirs, "pixel_values", PLAIN)
    assert (mask.alike, mask.equal, mask.differing) == (False, False, 0)
