"""Weights against the plain twin, and their packing against themselves."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.run.tables import axis_weights, pack_axis
from foveal_kernels.target import AVX2, GENERIC, VNNI
from foveal_kernels.weights import DIGITS, digits_needed, group_bytes

lengths = st.integers(1, 3000)
filters = st.sampled_from(["bilinear", "bicubic", "lanczos"])
references = st.sampled_from(["pillow", "torchvision"])


@given(lengths, st.integers(1, 400), filters, references)
@settings(max_examples=150, deadline=None)
def test_weights_equal_the_twin(length, size, kind, reference):
    axis = axis_weights(length, size, kind, reference, 0, size)
    rows, shift = naive.fixed_weights(length, size, kind, reference)
    assert axis.shift == shift
    for i, (first, weights) in enumerate(rows):
        assert axis.bounds[i].tolist() == [first, len(weights)]
        assert axis.weights[i, : len(weights)].tolist() == weights
        assert not axis.weights[i, len(weights) :].any()


@given(lengths, st.integers(2, 400), filters, references, st.data())
@settings(max_examples=60, deadline=None)
def test_weights_of_a_crop_are_a_slice(length, size, kind, reference, data):
    start = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(1, size - start))
    whole = axis_weights(length, size, kind, reference, 0, size)
    part = axis_weights(length, size, kind, reference, start, count)
    assert part.shift == whole.shift
    np.testing.assert_array_equal(part.bounds, whole.bounds[start : start + count])
    np.testing.assert_array_equal(part.weights, whole.weights[start : start + count])


@pytest.mark.parametrize("level", [GENERIC, AVX2, VNNI])
@given(lengths, st.integers(1, 200), filters, references, st.booleans())
@settings(max_examples=60, deadline=None)
def test_packed_weights_hold_every_tap(level, length, size, kind, reference, most):
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
