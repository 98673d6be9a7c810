"""Any source row -> the row that resampling reads.

Resampling reads interleaved RGB or RGBX pixels straight from the image's memory. Every other form (grey, mirrored,
planar, strided, with alpha) is first gathered, row by row, into an RGBX row in scratch memory; alpha is composited on
the background on the way, so no copy of the whole image is ever made.
"""

from typing import NamedTuple

import numpy as np

from .compile import helper
from .simd import load_u8, store_u32


class Source(NamedTuple):
    """An 8-bit image as row addresses; whoever calls a kernel keeps its owner alive.

    Attributes
    ----------
    rows : uint64[height]
        Address of the first pixel of each row.
    width : int
    step : int
        Bytes from a pixel to its right neighbour, may be negative.
    red, green, blue : int
        Byte offsets from a pixel's address.
    alpha : int
        Byte offset of alpha; not read where the image is opaque.
    opaque : bool
    back_red, back_green, back_blue : int
        Background that transparent pixels are composited on.
    """

    rows: np.ndarray
    width: int
    step: int
    red: int
    green: int
    blue: int
    alpha: int
    opaque: bool
    back_red: int
    back_green: int
    back_blue: int


@helper
def is_interleaved(source):
    """Whether resampling can read the pixels where they lie."""
    order = source.red == 0 and source.green == 1 and source.blue == 2
    return source.opaque and order and (source.step == 3 or source.step == 4)


@helper
def row_bytes(source):
    """Bytes of a row of interleaved pixels that may be read: an RGBX row's very last byte may not exist."""
    return np.intp((source.width - 1) * source.step + 3)


@helper
def _composite(value, background, alpha):
    """One channel of a pixel over an opaque background.

    Notes
    -----
    Source: Pillow 13.0.0, src/libImaging/AlphaComposite.c, with a destination alpha of 255: 7 fractional bits, division
    by 255 as two shifts.
    """
    mixed = (value * alpha + background * (255 - alpha) + 128) << 7
    return (((mixed >> 8) + mixed) >> 8) >> 7


@helper
def stage_row(source, y, out):
    """Gather row ``y`` as RGBX at address ``out``, ``4 * width`` bytes."""
    row = np.intp(source.rows[y])
    for x in range(source.width):
        pixel = row + np.intp(x * source.step)
        red = np.int32(load_u8(pixel + source.red))
        green = np.int32(load_u8(pixel + source.green))
        blue = np.int32(load_u8(pixel + source.blue))
        if not source.opaque:
            alpha = np.int32(load_u8(pixel + source.alpha))
            red = _composite(red, np.int32(source.back_red), alpha)
            green = _composite(green, np.int32(source.back_green), alpha)
            blue = _composite(blue, np.int32(source.back_blue), alpha)
        store_u32(out + 4 * x, np.uint32(red | (green << 8) | (blue << 16)))
