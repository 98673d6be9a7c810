"""Resampling weights of one axis: float64 as the references compute them, fixed point, packed for an instruction level.

A pass from ``length`` to ``size`` samples is described by

bounds : int32[size, 2]
    First source sample and number of taps of each output sample.
weights : int32[size, taps]
    Fixed point with ``shift`` fractional bits, zero beyond the number of taps.

Kernels read four source samples at a time, so taps are regrouped at multiples of four, and each weight is split into
signed digits that the level's multiply-add can take:

groups : int32[size, 2]
    First group of four source samples and number of groups.
packed : int8[size, groups * group_bytes]
    ``vnni``: 2 or 3 digits of 8 bits, a digit of 4 taps together. ``avx2``: 1 or 2 digits of 16 bits, taps (0, 2) and
    (1, 3) of a digit together. ``generic``: 4 taps of 32 bits.
"""

import math

import numpy as np

from .compile import helper, kernel
from .target import AVX2, GENERIC, VNNI

BOX, BILINEAR, HAMMING, BICUBIC, LANCZOS = range(5)
SUPPORT = (0.5, 1.0, 1.0, 2.0, 3.0)
"""Half width of each filter at scale 1, in source samples."""
HAMMING_MEAN, HAMMING_SWING = float(np.float32(0.54)), float(np.float32(0.46))
"""Numbers of the window, which Pillow writes in single precision."""


@helper
def _sinc(x):
    if x == 0.0:
        return 1.0
    x = x * math.pi
    return math.sin(x) / x


@helper
def _hamming(x):
    if x == 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    x = x * math.pi
    return math.sin(x) / x * (HAMMING_MEAN + HAMMING_SWING * math.cos(x))


@helper
def _filter(kind, x):
    if kind == BOX:
        return 1.0 if -0.5 < x <= 0.5 else 0.0
    if kind == LANCZOS:
        return _sinc(x) * _sinc(x / 3) if -3.0 <= x < 3.0 else 0.0
    x = abs(x)
    if kind == BILINEAR:
        return 1.0 - x if x < 1.0 else 0.0
    if kind == HAMMING:
        return _hamming(x)
    if x < 1.0:
        return ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1
    if x < 2.0:
        return (((x - 5) * x + 8) * x - 4) * -0.5
    return 0.0


@kernel
def float_weights(length, size, kind, support, start, bounds, weights):
    """Compute weights of an antialiased resize, each row normalized to a sum of 1.

    Parameters
    ----------
    length, size : int
        Source and output samples.
    kind : int
        BOX, BILINEAR, HAMMING, BICUBIC or LANCZOS.
    support : float
        The filter's half width at scale 1.
    start : int
        First output sample whose weights are wanted: of a crop, only those inside it are.
    bounds : int32[count, 2]
        Output.
    weights : float64[count, taps]
        Output; filled with zeros by the caller.

    Notes
    -----
    The order of the float64 operations matters: the rounding to fixed point depends on it.
    Source: Pillow 13.0.0, src/libImaging/Resample.c, precompute_coeffs; torch 2.14.1 computes the same values for
    uint8 images (aten/src/ATen/native/cpu/UpSampleKernel.cpp).
    """
    scale = length / size
    stretch = max(scale, 1.0)
    support = support * stretch
    inverse = 1.0 / stretch
    for i in range(bounds.shape[0]):
        center = (i + start + 0.5) * scale
        first = max(int(center - support + 0.5), 0)
        count = min(int(center + support + 0.5), length) - first
        total = 0.0
        for tap in range(count):
            weights[i, tap] = _filter(kind, (tap + first - center + 0.5) * inverse)
            total += weights[i, tap]
        if total != 0.0:
            for tap in range(count):
                weights[i, tap] /= total
        bounds[i, 0] = first
        bounds[i, 1] = count


@kernel
def fixed_point(weights, shift, out):
    """Round weights to ``shift`` fractional bits, half away from zero.

    Parameters
    ----------
    weights : float64[size, taps]
    shift : int
    out : int32[size, taps]
    """
    one = float(1 << shift)
    for i in range(weights.shape[0]):
        for tap in range(weights.shape[1]):
            value = weights[i, tap] * one
            out[i, tap] = int(value - 0.5) if weights[i, tap] < 0 else int(value + 0.5)


@kernel
def pack_weights(bounds, weights, level, digits, groups, packed):
    """Regroup taps by four aligned source samples and split them into signed digits.

    Parameters
    ----------
    bounds : int32[size, 2]
    weights : int32[size, taps]
    level : int
        GENERIC, AVX2 or VNNI.
    digits : int
        How many digits a weight becomes (1 for generic).
    groups : int32[size, 2]
        Output.
    packed : int8[size, groups * group_bytes]
        Output; filled with zeros by the caller.
    """
    stride = group_bytes(level, digits)
    for i in range(bounds.shape[0]):
        first = bounds[i, 0] >> 2
        groups[i, 0] = first
        groups[i, 1] = ((bounds[i, 0] + bounds[i, 1] - 1) >> 2) - first + 1
        for tap in range(bounds[i, 1]):
            sample = bounds[i, 0] + tap
            _put_weight(packed[i], ((sample >> 2) - first) * stride, sample & 3, weights[i, tap], level, digits)


@helper
def group_bytes(level, digits):
    """Bytes of packed weights for one group of four source samples."""
    if level == VNNI:
        return 4 * digits
    if level == AVX2:
        return 8 * digits
    return 16


@helper
def _put_weight(row, start, tap, weight, level, digits):
    """Write one weight of a group, lowest digit first, lowest byte first."""
    if level == VNNI:
        for digit in range(digits):
            low = ((weight + 128) & 255) - 128
            row[start + 4 * digit + tap] = np.int8(low)
            weight = (weight - low) >> 8
    elif level == AVX2:
        for digit in range(digits):
            low = ((weight + 32768) & 65535) - 32768
            at = start + 8 * digit + 4 * (tap & 1) + 2 * (tap >> 1)
            row[at] = np.int8(low & 255)
            row[at + 1] = np.int8((low >> 8) & 255)
            weight = (weight - low) >> 16
    else:
        for byte in range(4):
            row[start + 4 * tap + byte] = np.int8((weight >> (8 * byte)) & 255)


DIGITS = {VNNI: (2, 3), AVX2: (1, 2), GENERIC: (1, 1)}
"""Fewest and most digits of a weight, by level. Two signed 8-bit digits reach -32896..32639, so torchvision's 16-bit
weights usually fit the fewest and Pillow's 22-bit ones need the most."""
_REACH = {VNNI: (-32896, 32639), AVX2: (-32768, 32767), GENERIC: (-(2**31), 2**31 - 1)}


def digits_needed(weights, level):
    """Return how many digits the weights of one axis need at a level."""
    low, high = _REACH[level]
    return DIGITS[level][not (low <= weights.min() and weights.max() <= high)]
