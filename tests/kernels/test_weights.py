"""Weights against the plain twin, and their packing against themselves."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.run.tables import axis_weights, linear_taps, pack_axis
from foveal_kernels.compile import assembly
from foveal_kernels.target import AVX2, GENERIC, VNNI
from foveal_kernels.weights import DIGITS, digits_needed, fixed_point, group_bytes

lengths = st.integers(1, 3000)
TORCHVISION = ["bilinear", "bicubic", "lanczos"]
filters = st.sampled_from(
    [(kind, "pillow") for kind in naive.SUPPORT] + [(kind, "torchvision") for kind in TORCHVISION]
)
with_nearest = filters | st.sampled_from([("nearest", "pillow"), ("nearest", "torchvision")])


@given(lengths, st.integers(1, 400), filters)
@settings(max_examples=150, deadline=None)
def test_weights_equal_the_twin(length, size, filter):
    kind, reference = filter
    axis = axis_weights(length, size, kind, reference, 0, size)
    rows, shift = naive.fixed_weights(length, size, kind, reference)
    assert axis.shift == shift
    for i, (first, weights) in enumerate(rows):
        assert axis.bounds[i].tolist() == [first, len(weights)]
        assert axis.weights[i, : len(weights)].tolist() == weights
        assert not axis.weights[i, len(weights) :].any()


@given(st.integers(1, 70000), st.integers(1, 3000), st.sampled_from(["pillow", "torchvision"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_nearest_is_one_tap_of_weight_one(length, size, reference, is_small):
    axis = axis_weights(length, size, "nearest", reference, 0, size, is_small)
    assert axis.bounds[:, 0].tolist() == naive.nearest_samples(length, size, reference, is_small)
    assert (axis.bounds[:, 1] == 1).all()
    assert (axis.weights == 1 << axis.shift).all()


@given(lengths, st.integers(2, 400), with_nearest, st.data())
@settings(max_examples=60, deadline=None)
def test_weights_of_a_crop_are_a_slice(length, size, filter, data):
    kind, reference = filter
    start = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(1, size - start))
    whole = axis_weights(length, size, kind, reference, 0, size)
    part = axis_weights(length, size, kind, reference, start, count)
    assert part.shift == whole.shift
    np.testing.assert_array_equal(part.bounds, whole.bounds[start : start + count])
    np.testing.assert_array_equal(part.weights, whole.weights[start : start + count])


@pytest.mark.parametrize("level", [GENERIC, AVX2, VNNI])
@given(lengths, st.integers(1, 200), with_nearest, st.booleans())
@settings(max_examples=60, deadline=None)
def test_packed_weights_hold_every_tap(level, length, size, filter, most):
    kind, reference = filter
    axis = axis_weights(length, size, kind, reference, 0, size)
    digits = DIGITS[level][1] if most else digits_needed(axis.weights, level)
    groups, packed, shift = pack_axis(axis, level, digits)
    assert shift == axis.shift
    for i in range(size):
        dense = np.zeros(4 * int(groups[i].sum()), np.int64)
        dense[4 * groups[i, 0] :] = _unpacked(packed[i], int(groups[i, 1]), level, digits)
        first, count = axis.bounds[i]
        wanted = np.zeros_like(dense)
        wanted[first : first + count] = axis.weights[i, :count]
        assert (dense == wanted).all()


def _unpacked(row, groups, level, digits):
    """Packed bytes -> the weights of all samples of the groups."""
    data = row[: groups * group_bytes.py_func(level, digits)].tobytes()
    if level == VNNI:
        parts = np.frombuffer(data, np.int8).reshape(groups, digits, 4).astype(np.int64)
        return (parts << (8 * np.arange(digits))[:, None]).sum(1).ravel()
    if level == AVX2:
        parts = np.frombuffer(data, np.int16).reshape(groups, digits, 2, 2).astype(np.int64)
        return (parts << (16 * np.arange(digits))[:, None, None]).sum(1).transpose(0, 2, 1).ravel()
    return np.frombuffer(data, np.int32).astype(np.int64)


def test_a_weight_beyond_two_digits_takes_three():
    assert digits_needed(np.array([-32896, 32639]), VNNI) == 2
    assert digits_needed(np.array([0, 32640]), VNNI) == 3
    assert digits_needed(np.array([-32897, 0]), VNNI) == 3
    assert digits_needed(np.array([0, 32767]), AVX2) == 1
    assert digits_needed(np.array([0, 32768]), AVX2) == 2
    assert digits_needed(np.array([0, 1 << 22]), GENERIC) == 1


@given(st.integers(1, 70000), st.integers(1, 3000))
@settings(max_examples=100, deadline=None)
def test_linear_taps_equal_the_twin(length, size):
    taps = linear_taps(length, size, 0, size)
    first, second, before, behind = naive.linear_axis(length, size)
    np.testing.assert_array_equal(taps.first, first)
    np.testing.assert_array_equal(taps.second, second)
    np.testing.assert_array_equal(taps.weights[:, :size], [before, behind])
    part = linear_taps(length, size, size // 3, size - size // 3)
    np.testing.assert_array_equal(part.first, first[size // 3 :])
    np.testing.assert_array_equal(part.weights[1, : size - size // 3], behind[size // 3 :])


def test_assembly_is_that_of_a_kernel():
    """A kernel that comes from the disk has no text of its own."""
    fixed_point(np.ones((1, 1)), 3, np.empty((1, 1), np.int32))
    text = assembly(fixed_point, fixed_point.signatures[0])
    assert "fixed_point" in text
    assert text.count("\n\t") > 20
