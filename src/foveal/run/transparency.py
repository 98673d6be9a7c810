"""Transparent pixels that are composited after the resize."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError
from foveal.media.arrays import array_pixels
from foveal.media.pixels import Backdrop, Pixels
from foveal.plan.plan import Pack, View
from foveal.run.reading import board_of
from foveal.types import Box, Size
from foveal_kernels.alpha import composite_resized

__all__ = ["composited", "pieces"]

Draw = Callable[[View, Pixels, npt.NDArray[Any]], None]

_BLACK = Backdrop((0, 0, 0), (0, 0, 0))
_OPAQUE = (255, 255, 255)

PIECE = 1 << 18
"""Pixels of a canvas whose colours and alpha are there at a time: 1.5 MB."""


def pieces(start: int, stop: int, width: int, multiple: int) -> Iterator[tuple[int, int]]:
    """Yield the canvas rows ``start .. stop`` in pieces, cut at multiples, that need little memory."""
    rows = max(PIECE // (width * multiple), 1) * multiple
    for first in range(start, stop, rows):
        yield first, min(first + rows, stop)


def composited(view: View, pixels: Pixels, start: int, stop: int, draw: Draw) -> tuple[View, Pixels]:
    """Resize colours and alpha, and composite them; nothing is done for pixels without alpha.

    Parameters
    ----------
    view : View
    pixels : Pixels
        Whose backdrop comes after the resize.
    start, stop : int
        Canvas rows that are needed.
    draw : callable
        Runs a view of bytes into a picture of its own.

    Returns
    -------
    View
        The same without a resize.
    Pixels
        What it reads: opaque; only the rows that are needed are there.

    Raises
    ------
    OptionError
        If the view resizes normalized values, of which there is no alpha.

    Notes
    -----
    Pillow resizes RGBA so, except with the nearest filter: colours are multiplied by their alpha, all four channels are
    resized as bytes, colours are divided by their alpha again. Multiplied means composited on black. Other references
    have no such resize; here they do the same with their own passes. A border around the image is opaque.
    Source: Pillow 13.0.0, src/PIL/Image.py, Image.resize.
    """
    if pixels.alpha is None:
        return view, pixels
    if view.method == "fixed_taps":
        raise OptionError(f"{view.name} is interpolated after normalization: transparency cannot be composited then")
    first, end = (min(max(row - view.place[0], 0), view.crop.height) for row in (start, stop))
    band = Box(view.crop.top + first, view.crop.left, end - first, view.crop.width)
    weighted = view.filter != "nearest" and view.resized != (view.window.height, view.window.width)
    colors, alpha = np.empty((2, band.height, band.width, 3), np.uint8)
    if band.height:
        drawn = {"crop": band, "canvas": Size(band.height, band.width), "place": (0, 0), "pack": Pack("pixels")}
        plain = msgspec.structs.replace(view, **drawn, offset=0)
        draw(plain, dataclasses.replace(pixels, **({"backdrop": _BLACK} if weighted else {"alpha": None})), colors)
        shares = dataclasses.replace(pixels, channels=(pixels.alpha,) * 3, alpha=None)
        draw(msgspec.structs.replace(plain, border=_OPAQUE), shares, alpha)
        backdrop, board = pixels.backdrop, board_of(pixels.backdrop, band.left, band.width)
        composite_resized(alpha, board, backdrop.square, band.top, weighted, backdrop.rounds_down, colors)
    return _placing(view), _rows_of(colors, first, view.crop.height)


def _placing(view: View) -> View:
    """Return the view that puts the part of the window that is kept on the canvas."""
    whole = Box(0, 0, view.crop.height, view.crop.width)
    size = Size(whole.height, whole.width)
    return msgspec.structs.replace(view, window=whole, resized=size, crop=whole, method="antialias")


def _rows_of(picture: npt.NDArray[np.uint8], first: int, height: int) -> Pixels:
    """Return a picture of ``height`` rows, of which those from ``first`` on are there."""
    pixels = array_pixels(picture)
    rows = np.zeros(height, np.uint64)
    rows[first : first + len(picture)] = pixels.rows
    return dataclasses.replace(pixels, height=height, rows=rows)
