"""Pixels as kernels read them: a part of an image, which may reach over its edges, where it lies."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from foveal.media.pixels import Backdrop, Pixels
from foveal.types import Box, Color
from foveal_kernels.source import Source, is_interleaved

__all__ = ["board_of", "source_of"]

_NO_BOARD = np.zeros((2, 0), np.uint8)


def source_of(pixels: Pixels, box: Box, border: Color) -> tuple[Source, object]:
    """Return a part of an image without copying it.

    Parameters
    ----------
    pixels : Pixels
    box : Box
        May reach over the image's edges.
    border : tuple of int
        Colour of what lies beyond them.

    Returns
    -------
    Source
    object
        What keeps alive the memory of rows that are all border, beside the owner of the pixels.
    """
    above, below = _beyond(box.top, box.height, pixels.height)
    before, behind = _beyond(box.left, box.width, pixels.width)
    top, left = max(box.top, 0), max(box.left, 0)
    rows = pixels.rows[top : top + box.height - above - below]
    if left:
        rows = rows + np.uint64(left * pixels.step % (1 << 64))
    form = (pixels.step, *pixels.channels, *_alpha(pixels, left, box.width - before - behind))
    source = Source(rows, box.width, *form, box.top, pixels.backdrop.rounds_down, before, behind, *border)
    if not above and not below:
        return source, None
    edge = _border_row(border, box.width, pixels.step) if is_interleaved.py_func(source) else None
    address = np.uint64(0 if edge is None else edge.ctypes.data)
    return source._replace(rows=np.concatenate([np.full(above, address), rows, np.full(below, address)])), edge


def _alpha(pixels: Pixels, left: int, width: int) -> tuple[int, bool, npt.NDArray[np.uint8], int]:
    """Return alpha, opaque, board and square of a source of columns from ``left`` on."""
    if pixels.alpha is None:
        return 0, True, _NO_BOARD, 1
    return pixels.alpha, False, board_of(pixels.backdrop, left, width), pixels.backdrop.square


def board_of(backdrop: Backdrop, left: int, width: int) -> npt.NDArray[np.uint8]:
    """Return both kinds of rows of a backdrop, as RGBX, from the column ``left`` on."""
    plain = backdrop.light == backdrop.dark
    return _board(backdrop.light, backdrop.dark, backdrop.square, 0 if plain else left % (2 * backdrop.square), width)


@lru_cache(maxsize=32)
def _board(light: Color, dark: Color, square: int, left: int, width: int) -> npt.NDArray[np.uint8]:
    fields = np.arange(left, left + width) // square & 1
    colors = np.array([(*light, 0), (*dark, 0)], np.uint8)
    return np.stack([colors[fields], colors[1 - fields]]).reshape(2, 4 * width)


def _beyond(start: int, count: int, length: int) -> tuple[int, int]:
    """Return how much of ``start .. start + count`` lies before and behind ``0 .. length``."""
    return min(max(-start, 0), count), min(max(start + count - length, 0), count)


def _border_row(border: Color, width: int, step: int) -> npt.NDArray[np.uint8]:
    row = np.empty((width, step), np.uint8)
    row[:, :3] = border
    return row
