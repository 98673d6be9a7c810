"""Two sides of one call, compared: names, shapes, dtypes, and values by their bits."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.plan.plan import Normalization, View
from foveal.verification.report import TensorReport

__all__ = ["Channels", "Difference", "compare_tensors", "compare_values", "pixel_channels"]

Array = npt.NDArray[Any]
CHUNK = 1 << 20
"""Values that are looked at together, so that a difference costs no copy of the tensor."""


class Channels(NamedTuple):
    """Where the channel of a value is, and what one step of a byte becomes in each.

    Attributes
    ----------
    run : int
        Values of one channel that follow one another.
    steps : tuple of float
    """

    run: int
    steps: tuple[float, ...]


class Difference(NamedTuple):
    """How many values differ by their bits, and the greatest difference: as such, and in levels."""

    differing: int
    greatest: float | None
    levels: float | None


def pixel_channels(view: View, shape: tuple[int, ...], normalization: Normalization, dtype: str) -> Channels:
    """Return the channels of the primary tensor, from one of its views."""
    pack = view.pack
    if pack.kind == "channels_last_patches":
        run = 1
    elif pack.kind == "planar":
        run = math.prod(shape[-2:])
    else:
        run = pack.temporal * pack.block**2
    step = normalization.factor if normalization.rescale else 1.0
    if dtype == "uint8" or not normalization.normalize:
        return Channels(run, (1.0 if dtype == "uint8" else step,) * 3)
    return Channels(run, tuple(abs(step / std) for std in normalization.std))


def compare_tensors(
    ours: Mapping[str, Array], theirs: Mapping[str, Array], primary: str, channels: Channels
) -> tuple[TensorReport, ...]:
    """Compare the tensors of a call by name, Foveal's first."""
    names = [*ours, *(name for name in theirs if name not in ours)]
    return tuple(
        _compare(name, ours.get(name), theirs.get(name), channels if name == primary else None) for name in names
    )


def _compare(name: str, ours: Array | None, theirs: Array | None, channels: Channels | None) -> TensorReport:
    comparable = ours is not None and theirs is not None and ours.shape == theirs.shape
    found = compare_values(ours, theirs, channels) if comparable else Difference(0, None, None)  # type: ignore[arg-type]
    return TensorReport(
        name,
        None if ours is None else ours.dtype.name,
        None if theirs is None else theirs.dtype.name,
        None if ours is None else ours.shape,
        None if theirs is None else theirs.shape,
        found.differing if comparable else None,
        found.greatest,
        found.levels,
    )


def compare_values(ours: Array, theirs: Array, channels: Channels | None = None) -> Difference:
    """Compare two arrays of one shape, part by part.

    Values differ where their bits do; two that are not a number are the same. Of different dtypes the numbers are
    compared.
    """
    differing, greatest, levels = 0, 0.0, 0.0
    for start, wrong, difference in _differences(ours, theirs):
        differing += len(wrong)
        greatest = max(greatest, float(difference.max()))
        if channels is not None:
            steps = np.asarray(channels.steps)[(start + wrong) // channels.run % len(channels.steps)]
            levels = max(levels, float((difference / steps).max()))
    return Difference(differing, _finite(greatest), None if channels is None else _finite(levels))


def _differences(ours: Array, theirs: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield, for each part that is not equal, where it begins, what in it differs, and by how much."""
    left, right = np.ascontiguousarray(ours).reshape(-1), np.ascontiguousarray(theirs).reshape(-1)
    for start in range(0, left.size, CHUNK):
        a, b = left[start : start + CHUNK], right[start : start + CHUNK]
        if a.dtype == b.dtype:
            wrong = np.flatnonzero(_bits(a) != _bits(b))
            a, b = a[wrong].astype(np.float64), b[wrong].astype(np.float64)
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            wrong = np.flatnonzero(a != b)
            a, b = a[wrong], b[wrong]
        known = ~(np.isnan(a) & np.isnan(b))
        wrong, a, b = wrong[known], a[known], b[known]
        if wrong.size:
            with np.errstate(invalid="ignore"):
                difference = np.abs(a - b)
            yield start, wrong, np.where(np.isnan(difference), np.inf, difference)


def _bits(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
