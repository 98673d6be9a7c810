"""What the kernels multiply and look up: weights of an axis, values of a byte. The reference lives here, as data.

Pillow and torchvision differ in the precision of the weights and in the order of float operations of the normalization,
never in the shape of a loop.
"""

import math
import os
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from foveal.plan.plan import Normalization
from foveal.run.kept import kept
from foveal.types import DTYPES
from foveal_kernels import emit, target, weights
from foveal_kernels.resample import Weights
from foveal_kernels.rules import LANES, Taps
from foveal_kernels.weights import group_bytes

__all__ = [
    "Arithmetic",
    "arithmetic",
    "axis_weights",
    "compiled_emit",
    "computed",
    "emit_constants",
    "linear_taps",
    "pack_axis",
    "values_of",
]

FILTERS = {
    "box": weights.BOX,
    "bilinear": weights.BILINEAR,
    "hamming": weights.HAMMING,
    "bicubic": weights.BICUBIC,
    "lanczos": weights.LANCZOS,
}
EMIT_DTYPES = {"float32": emit.FLOAT32, "bfloat16": emit.BFLOAT16, "uint8": emit.UINT8, "float16": emit.FLOAT16}
WEIGHTS_AT_ONCE = 4096
PILLOW_SHIFT = 22
"""Source: Pillow 13.0.0, src/libImaging/Resample.c, PRECISION_BITS."""

Floats = npt.NDArray[np.float32]


# ---- weights


class Axis(NamedTuple):
    """Fixed-point weights of one axis, not yet packed for an instruction level."""

    bounds: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int32]
    shift: int


@kept
def axis_weights(
    length: int, size: int, filter: str, reference: str, start: int, count: int, small: bool = False
) -> Axis:
    """Return the weights with which the reference resizes ``length`` samples to ``size``.

    Only those of the output samples ``start .. start + count``: the rest of a long strip would be thrown away.
    ``small`` says that the result's height and width are at most 128 together, which matters for nearest in torch.
    """
    if filter == "nearest":
        return _one_tap(_nearest(length, size, reference, start, count, small), reference)
    bounds, exact = _float_weights(length, size, filter, start, count)
    shift = PILLOW_SHIFT
    if reference == "torchvision":
        shift = _torchvision_shift(float(exact.max()) if count == size else _largest_weight(length, size, filter))
    fixed = np.empty(exact.shape, np.int32)
    weights.fixed_point(exact, shift, fixed)
    return Axis(bounds, fixed, shift)


def _one_tap(samples: npt.NDArray[np.int32], reference: str) -> Axis:
    """Take one source sample for each output sample, as it is."""
    shift = _torchvision_shift(1.0) if reference == "torchvision" else PILLOW_SHIFT
    bounds = np.stack([samples, np.ones_like(samples)], axis=1)
    return Axis(bounds, np.full((len(samples), 1), 1 << shift, np.int32), shift)


def _nearest(length: int, size: int, reference: str, start: int, count: int, small: bool) -> npt.NDArray[np.int32]:
    """Return the source sample of each of the output samples ``start .. start + count``.

    Notes
    -----
    Source: Pillow 13.0.0, src/libImaging/Geometry.c, ImagingScaleAffine, where the distance of the samples is summed up
    in float64; torch 2.14.1, aten/src/ATen/native/UpSample.h, the rule "nearest-exact" in float32, which transformers
    5.24.0 asks for (image_utils.py, pil_torch_interpolation_mapping).
    """
    if reference == "torchvision":
        half, scale = np.float32(0.5), np.float32(length) / np.float32(size)
        centers = np.arange(start, start + count, dtype=np.float32) + half
        # The kernel for larger results goes through the source's centre, with a fused multiply-add.
        larger = (centers.astype(np.float64) * scale - half).astype(np.float32) + half
        places = centers * scale if small else larger
    else:
        distances = np.full(start + count, length / size)
        distances[0] *= 0.5
        places = np.cumsum(distances)[start:]
    return np.minimum(places.astype(np.int32), length - 1)


def _float_weights(
    length: int, size: int, filter: str, start: int, count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    kind = FILTERS[filter]
    support = weights.SUPPORT[kind]
    taps = math.ceil(support * max(length / size, 1.0)) * 2 + 1
    bounds, exact = np.empty((count, 2), np.int32), np.zeros((count, taps))
    weights.float_weights(length, size, kind, support, start, bounds, exact)
    return bounds, exact


@lru_cache(maxsize=256)
def _largest_weight(length: int, size: int, filter: str) -> float:
    """Return the largest weight of a whole axis, looking at a part of it at a time."""
    starts = range(0, size, WEIGHTS_AT_ONCE)
    parts = (_float_weights(length, size, filter, start, min(WEIGHTS_AT_ONCE, size - start)) for start in starts)
    return max(float(exact.max()) for _, exact in parts)


def _torchvision_shift(largest: float) -> int:
    """Return the largest shift, of at most 22, at which every weight of the axis fits 16 bits.

    Notes
    -----
    Source: torch 2.14.1, aten/src/ATen/native/cpu/UpSampleKernel.cpp, for uint8 with antialias.
    """
    shift = 0
    while shift < 22 and int(0.5 + largest * (1 << (shift + 1))) < (1 << 15):
        shift += 1
    return shift


@kept
def linear_taps(length: int, size: int, start: int, count: int) -> Taps:
    """Return the taps with which torch interpolates ``length`` samples to ``size``, of ``start .. start + count``.

    Notes
    -----
    Each place is a fused multiply-add in float32. In float64 the product of two float32 is exact, and so is the
    difference, unless it is negative.
    Source: torch 2.14.1, aten/src/ATen/native/UpSample.h, without align_corners.
    """
    scale = np.float64(np.float32(length) / np.float32(size))
    places = np.maximum((scale * (np.arange(start, start + count) + 0.5) - 0.5).astype(np.float32), np.float32(0))
    first = np.minimum(places.astype(np.int32), length - 1)
    factors = np.zeros((2, -(-count // LANES) * LANES), np.float32)
    factors[1, :count] = np.minimum(places - first.astype(np.float32), np.float32(1))
    factors[0, :count] = np.float32(1) - factors[1, :count]
    return Taps(first, np.minimum(first + 1, length - 1), factors)


def pack_axis(axis: Axis, level: int, digits: int) -> Weights:
    """Pack the weights of an axis for an instruction level."""
    bounds = axis.bounds
    groups = ((bounds[:, 0] + bounds[:, 1] - 1) >> 2) - (bounds[:, 0] >> 2) + 1
    packed = np.zeros((len(bounds), int(groups.max()) * weight_bytes(level, digits)), np.int8)
    table = np.empty((len(bounds), 2), np.int32)
    weights.pack_weights(bounds, axis.weights, level, digits, table, packed)
    return Weights(table, packed, axis.shift)


def weight_bytes(level: int, digits: int) -> int:
    """Bytes of packed weights for one group of four samples."""
    return int(group_bytes.py_func(level, digits))


# ---- normalization


@lru_cache(maxsize=256)
@np.errstate(all="ignore")  # extreme factors overflow, as in the reference
def values_of(normalization: Normalization, reference: str) -> npt.NDArray[Any]:
    """Return the value of every byte of every channel, in the reference's own order of operations.

    Returns
    -------
    float32[3, 256], bfloat16[3, 256], or uint8[3, 256] where nothing is computed

    Notes
    -----
    Source: transformers 5.24.0, image_processing_backends.py (TorchvisionBackend.rescale_and_normalize),
    image_transforms.py (rescale, normalize), models/llama4/image_processing_llama4.py (bfloat16 at each step).
    """
    x = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    mean = np.array(normalization.mean, np.float32)[:, None]
    std = np.array(normalization.std, np.float32)[:, None]
    if not (normalization.rescale or normalization.normalize):
        return x
    if normalization.compute == "bfloat16" and normalization.normalize:
        return _bfloat16_steps(x, normalization.factor, mean, std)
    compute = _torchvision_values if reference == "torchvision" else _pillow_values
    return compute(x, normalization, mean, std)


def _torchvision_values(x: npt.NDArray[np.uint8], n: Normalization, mean: Floats, std: Floats) -> npt.NDArray[Any]:
    """Rescaling is folded into mean and standard deviation, in float32."""
    value = x.astype(np.float32)
    if not n.normalize:
        return np.asarray(value * np.float32(n.factor))
    unit = np.float32(1.0 / n.factor) if n.rescale else np.float32(1.0)
    return np.asarray((value - mean * unit) / (std * unit))


def _pillow_values(x: npt.NDArray[np.uint8], n: Normalization, mean: Floats, std: Floats) -> npt.NDArray[Any]:
    """Rescaled in float64, rounded to float32, normalized."""
    value = (x.astype(np.float64) * (n.factor if n.rescale else 1.0)).astype(np.float32)
    return np.asarray((value - mean) / std) if n.normalize else value


def _bfloat16_steps(x: npt.NDArray[np.uint8], factor: float, mean: Floats, std: Floats) -> npt.NDArray[Any]:
    """Rescale and normalize, rounded to bfloat16 after each step, as torch computes in that dtype."""
    scaled = _rounded_to_bfloat16(x.astype(np.float32) * np.float32(factor))
    centered = _rounded_to_bfloat16(scaled - _rounded_to_bfloat16(mean))
    return (centered / _rounded_to_bfloat16(std)).astype(ml_dtypes.bfloat16)


def _rounded_to_bfloat16(value: npt.NDArray[Any]) -> Floats:
    return value.astype(ml_dtypes.bfloat16).astype(np.float32)


class Arithmetic(NamedTuple):
    """How the emit kernel computes values of a dtype.

    Attributes
    ----------
    form, dtype : int
        Constants of `foveal_kernels.emit`.
    constants : float32[3, 4]
    values : dtype[3, 256]
        What every byte must become.
    """

    form: int
    dtype: int
    constants: Floats
    values: npt.NDArray[Any]


@lru_cache(maxsize=256)
@np.errstate(all="ignore")
def arithmetic(normalization: Normalization, reference: str, dtype: str, interleaved: bool = False) -> Arithmetic:
    """Choose the fastest form whose result equals the reference's on all 256 bytes of every channel, else the table.

    uint8 means the bytes before normalization, for engines that normalize on the device. Of the two kernels of a form,
    the one for interleaved layouts or the other, only that is compiled which will be used.
    """
    code = EMIT_DTYPES[dtype]
    if dtype == "uint8":
        wanted: npt.NDArray[Any] = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
        return Arithmetic(emit.COPY, code, np.zeros((3, 4), np.float32), wanted)
    wanted = np.ascontiguousarray(values_of(normalization, reference).astype(DTYPES[dtype]))
    for form in (emit.MULTIPLY_ADD, emit.SUBTRACT_DIVIDE, emit.SCALE_SUBTRACT_DIVIDE, emit.BFLOAT16_STEPS):
        chosen = Arithmetic(form, code, _constants(form, normalization), wanted)
        if _same_bits(_predicted(chosen), wanted) and _same_bits(computed(chosen, interleaved), wanted):
            return chosen
    return Arithmetic(emit.TABLE, code, np.zeros((3, 4), np.float32), wanted)


@np.errstate(all="ignore")
def _constants(form: int, normalization: Normalization) -> Floats:
    """Constants (a, r, s, k) of a form for each channel."""
    mean = np.array(normalization.mean if normalization.normalize else (0.0,) * 3)
    std = np.array(normalization.std if normalization.normalize else (1.0,) * 3)
    factor = normalization.factor if normalization.rescale else 1.0
    if form == emit.MULTIPLY_ADD:
        a, reciprocal = -mean / std, factor / std
    else:
        a, b = mean.astype(np.float32), std.astype(np.float32)
        if form == emit.SUBTRACT_DIVIDE and normalization.rescale:
            a, b = a * np.float32(1.0 / factor), b * np.float32(1.0 / factor)
        elif form == emit.BFLOAT16_STEPS:
            a, b = _rounded_to_bfloat16(a), _rounded_to_bfloat16(b)
        reciprocal = 1.0 / b.astype(np.float64)
    rest = reciprocal - reciprocal.astype(np.float32)
    return np.stack([a, reciprocal, rest, np.full(3, factor)], axis=1).astype(np.float32)


@np.errstate(all="ignore")
def _predicted(chosen: Arithmetic) -> npt.NDArray[Any]:
    """NumPy's result of a form, so that only the form that will be used is compiled."""
    a, r, s, k = (chosen.constants[:, i : i + 1].astype(np.float64) for i in range(4))
    x = np.tile(np.arange(256, dtype=np.float64), (3, 1))
    if chosen.form == emit.MULTIPLY_ADD:
        value = (x * r + a).astype(np.float32)
    elif chosen.form == emit.SUBTRACT_DIVIDE:
        value = _divided((x - a).astype(np.float32), r, s)
    elif chosen.form == emit.SCALE_SUBTRACT_DIVIDE:
        scaled = _divided(x.astype(np.float32), emit.UNIT, emit.REST)
        value = _divided((scaled - a).astype(np.float32), r, s)
    else:
        scaled = _rounded_to_bfloat16((x * k).astype(np.float32))
        value = _divided(_rounded_to_bfloat16((scaled - a).astype(np.float32)), r, s)
    return value.astype(chosen.values.dtype)


def _divided(x: Floats, high: Any, low: Any) -> Floats:
    """Return x * (high + low), the sum rounded once: float64 holds the product of two float32 exactly."""
    return (x.astype(np.float64) * np.float64(high) + x * np.float32(low)).astype(np.float32)


def computed(chosen: Arithmetic, interleaved: bool) -> npt.NDArray[Any]:
    """Return the compiled kernel's result on all 256 bytes of every channel."""
    row = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    out = np.empty((256, 3) if interleaved else (3, 256), chosen.values.dtype)
    columns, channels = np.zeros(1, np.int64), np.arange(3) * (256 * out.itemsize)
    constants = emit_constants(chosen, interleaved)
    words = emit.layout_words(256, 1, 0, 256, 1, columns, channels, 1, 0, constants, chosen.values)
    function = compiled_emit(chosen.form, chosen.dtype, interleaved)
    function.ctypes(words.ctypes.data, row.ctypes.data, out.ctypes.data, 1)
    return np.ascontiguousarray(out.T) if interleaved else out


def emit_constants(chosen: Arithmetic, interleaved: bool) -> Floats:
    """Return a form's constants as the kernel for a kind of layout reads them."""
    return emit.interleaved_constants(chosen.constants) if interleaved else chosen.constants


def _same_bits(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    return left.tobytes() == right.tobytes()


_emit_lock = threading.Lock()


def _forget_lock() -> None:
    """After a fork nobody in the child holds it."""
    global _emit_lock
    _emit_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)

_emits: dict[tuple[int, int, bool, bool], Any] = {}


def compiled_emit(form: int, dtype: int, interleaved: bool = False) -> Any:
    """Return the emit kernel of a form, dtype and kind of layout, compiled once a process."""
    key = (form, dtype, interleaved, dtype == emit.FLOAT16 and target.has_f16c())
    with _emit_lock:
        if key not in _emits:
            _emits[key] = emit.compile_emit(*key)
        return _emits[key]
