"""Views of the method ``fixed_taps``: normalized values, interpolated at whole ratios."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError
from foveal.media.pixels import Pixels
from foveal.plan.plan import Normalization, View
from foveal.run.buffers import scratch
from foveal.run.kept import kept
from foveal.run.layout import layout_of
from foveal.run.reading import source_of
from foveal.run.tables import EMIT_DTYPES, arithmetic, compiled_emit, values_of
from foveal.types import DTYPES
from foveal_kernels import rules
from foveal_kernels.emit import layout_words
from foveal_kernels.view import Emitter, canvas_plane

__all__ = ["run_fixed_taps"]


def run_fixed_taps(
    view: View,
    reference: str,
    normalization: Normalization,
    pixels: Pixels,
    dtype: str,
    address: int,
    start: int,
    stop: int,
) -> None:
    """Write the canvas rows ``start .. stop`` of a view into memory at ``address``.

    Raises
    ------
    OptionError
        If the view cannot be had as this dtype, or without normalization, or is not a whole canvas at whole ratios.
    """
    fixed = _prepare(view, reference, normalization, dtype)
    source, _edge = source_of(pixels, view.window, view.border)
    memory, _ = scratch(rules.fixed_taps_scratch(source.width, view.canvas.width, fixed.plane), 0)
    rules.fixed_taps(source, *fixed[:-1], memory, address, start, stop)


class _Prepared(NamedTuple):
    """Arguments of the kernel that do not depend on pixels; ``owners`` keeps alive what addresses point to."""

    down: int
    across: int
    emitter: Emitter
    plane: int
    channels: npt.NDArray[np.int64]
    dtype: int
    owners: tuple[Any, ...]


@kept
def _prepare(view: View, reference: str, normalization: Normalization, dtype: str) -> _Prepared:
    down, across = _ratios(view)
    _check_values(view.name, reference, normalization, dtype)
    values = arithmetic(normalization, reference, "float32")
    function = compiled_emit(values.form, values.dtype)
    count = rules.tap_count(across) * view.canvas.width
    plane, columns, channels = canvas_plane(count), np.zeros(1, np.int64), np.arange(3) * rules.line_pitch(count)
    words = layout_words(plane, 1, 0, count, 1, columns, channels, 1, 0, values.constants, values.values)
    layout, item = layout_of(view), DTYPES[dtype].itemsize
    emitter = Emitter(function.address, words, layout.rows * item, 1, 1)
    owners = (function, columns, channels, values)
    return _Prepared(down, across, emitter, plane, layout.channels * item, EMIT_DTYPES[dtype], owners)


def _ratios(view: View) -> tuple[int, int]:
    """Return how many samples become one, down and across."""
    (height, width), window, layout = view.canvas, view.window, layout_of(view)
    down, across = window.height // height, window.width // width
    whole = view.resized == view.canvas and view.crop == (0, 0, height, width)
    in_one_piece = layout.run == width and layout.copies == 1
    if not whole or not in_one_piece or (window.height, window.width) != (down * height, across * width):
        raise OptionError(f"{view.name}: fixed taps are for whole canvases at whole ratios, planar or as one tile")
    return down, across


def _check_values(name: str, reference: str, normalization: Normalization, dtype: str) -> None:
    if dtype == "uint8":
        raise OptionError(f"dtype is 'uint8': {name} is interpolated after normalization, which bytes cannot hold")
    if values_of(normalization, reference).dtype == np.uint8:
        raise OptionError(f"{name} is interpolated after normalization: do_rescale and do_normalize cannot both be off")
