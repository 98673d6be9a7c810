"""NumPy arrays as pixels: any strides, no copy."""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.errors import MediaError, OptionError
from foveal.media.pixels import ON_WHITE, Backdrop, Pixels

__all__ = [
    "Array",
    "ArrayOptions",
    "ValueRange",
    "array_options",
    "array_pixels",
    "as_bytes",
    "as_channels_last",
    "check_values",
]

_CHANNELS: dict[int, tuple[tuple[int, int, int], int | None]] = {
    1: ((0, 0, 0), None),
    2: ((0, 0, 0), 1),
    3: ((0, 1, 2), None),
    4: ((0, 1, 2), 3),
}
"""Which channel is red, green and blue, and which is alpha, by number of channels."""

_ACCEPTED = (1, 3, 4)
Array = npt.NDArray[np.generic]
ValueRange = Literal[1, 255]
"""Largest value of floating-point arrays; the smallest is 0."""

_VALUE_RANGES: dict[tuple[object, ...], ValueRange] = {(0, 1): 1, (0, 255): 255}
_DATA_FORMATS = ("channels_first", "channels_last")

_BAND = 1 << 18
"""Values that are converted at a time, so that what NumPy makes on the way stays small."""


class ArrayOptions(NamedTuple):
    """How arrays are read."""

    channels_first: bool = False
    value_range: ValueRange | None = None


def array_options(input_data_format: object, value_range: object) -> ArrayOptions:
    """Return what was asked for, and refuse what no array could be read with.

    Raises
    ------
    OptionError
    """
    if input_data_format is not None and (
        not isinstance(input_data_format, str) or input_data_format not in _DATA_FORMATS
    ):
        raise OptionError(f"input_data_format must be {' or '.join(_DATA_FORMATS)}, not {_kind(input_data_format)}")
    values = value_range.tolist() if isinstance(value_range, np.ndarray) and value_range.size == 2 else value_range
    found = None
    if isinstance(values, list | tuple) and all(isinstance(value, int | float) for value in values):
        found = _VALUE_RANGES.get(tuple(values))
    if found is None and value_range is not None:
        given = "other values" if isinstance(values, list | tuple) else _kind(value_range)
        raise OptionError(f"value_range must be (0, 1) or (0, 255), not {given}")
    return ArrayOptions(input_data_format == "channels_first", found)


def _kind(value: object) -> str:
    """Return a value for a message: short text as it is, anything else by its kind alone."""
    return repr(value) if isinstance(value, str) and len(value) <= 40 else f"a {type(value).__name__[:40]}"


def as_channels_last(array: Array, channels_first: bool = False) -> Array:
    """Return a view (height, width, channels) of a picture; nothing is guessed from its shape.

    Raises
    ------
    MediaError
    """
    if isinstance(array, np.ma.MaskedArray):
        raise MediaError("a masked array is not an image; pass what filled() returns")
    array = np.asarray(array)
    shape = "x".join(map(str, array.shape))
    if array.ndim == 4:
        raise MediaError(f"the array has 4 axes ({shape}); pass a batch as a list of pictures")
    if array.ndim not in (2, 3):
        raise MediaError(f"the array has {array.ndim} axes; expected height x width or height x width x channels")
    if array.ndim == 2:
        view = array[:, :, np.newaxis]
    elif channels_first:
        view = np.moveaxis(array, 0, -1)
    else:
        view = array
    if view.shape[2] not in _ACCEPTED:
        raise MediaError(_channels_message(array, shape, channels_first))
    if not array.size:
        raise MediaError(f"the array has no pixels ({shape})")
    return view


def _channels_message(array: Array, shape: str, first: bool) -> str:
    """Return what is wrong, and the option that would help where the other order fits."""
    found, other = (array.shape[0], array.shape[2]) if first else (array.shape[2], array.shape[0])
    message = f"the array has {found} channels ({shape}, {_DATA_FORMATS[not first]}); expected 1, 3 or 4"
    if other not in _ACCEPTED:
        return message
    axis = "last" if first else "first"
    return f"{message}; pass input_data_format={_DATA_FORMATS[first]!r} if they are its {axis} axis"


def check_values(array: Array, value_range: ValueRange | None) -> None:
    """Refuse dtypes whose values have no stated meaning.

    Raises
    ------
    MediaError
    """
    if array.dtype == np.uint8:
        if value_range == 1:
            raise MediaError("value_range=(0, 1) is for floats; the array is uint8")
    elif array.dtype.kind != "f":
        raise MediaError(f"the array is {array.dtype.name[:40]}; expected uint8, or floats with value_range=")
    elif value_range is None:
        raise MediaError(f"the array is {array.dtype}; say value_range=(0, 1) or value_range=(0, 255)")


def as_bytes(array: Array, value_range: ValueRange | None) -> npt.NDArray[np.uint8]:
    """Return the array as uint8: itself, or floats scaled to 0..255, clipped, then rounded half to even.

    Raises
    ------
    MediaError
        Where a value is not a number.
    """
    if array.dtype == np.uint8:
        return array.astype(np.uint8, copy=False)
    out: npt.NDArray[np.uint8] = np.empty_like(array, np.uint8, subok=False)
    rows = -(-_BAND // array[0].size)
    for top in range(0, len(array), rows):
        out[top : top + rows] = _rounded(array[top : top + rows], value_range)
    return out


def _rounded(array: Array, value_range: ValueRange | None) -> Array:
    scale = 255 if value_range == 1 else 1
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is clipped
        values = np.multiply(array, scale, dtype=np.float32 if array.dtype.itemsize <= 4 else np.float64)
    if np.isnan(values).any():
        raise MediaError("the array holds values that are not a number")
    return np.rint(np.clip(values, 0, 255, out=values), out=values)


def array_pixels(array: npt.NDArray[np.uint8], backdrop: Backdrop = ON_WHITE) -> Pixels:
    """Return the addresses of an array (height, width) or (height, width, 1, 2, 3 or 4), whatever its strides."""
    view = array if array.ndim == 3 else array[:, :, np.newaxis]
    height, width, count = view.shape
    pitch, step, stride = view.strides
    channels, alpha = _CHANNELS[count]
    # A pixel's address is its lowest byte, so that offsets are never negative (BGR seen as RGB).
    lowest = min(0, stride * (count - 1))
    red, green, blue = (channel * stride - lowest for channel in channels)
    base = view.__array_interface__["data"][0] + lowest
    rows = (base + pitch * np.arange(height, dtype=np.int64)).view(np.uint64)
    offset = None if alpha is None else alpha * stride - lowest
    return Pixels(height, width, rows, step, (red, green, blue), offset, backdrop, view)
