"""Any source row -> the row that resampling reads.

Resampling reads interleaved RGB or RGBX pixels straight from the image's memory. Every other form (grey, mirrored,
planar, strided, with alpha, with a border at the sides) is first gathered, row by row, into an RGBX row in scratch
memory; alpha is composited on the background on the way, so no copy of the whole image is ever made.
"""

from typing import NamedTuple

import numpy as np

from .compile import helper
from .simd import U8x64, load_u8, load_u8x64, shuffler, store, store_u32

_as_rgbx = shuffler(U8x64, [3 * pixel + min(channel, 2) for pixel in range(16) for channel in range(4)])


class Source(NamedTuple):
    """An 8-bit image as row addresses, with a border around it; whoever calls a kernel keeps its owner alive.

    Attributes
    ----------
    rows : uint64[height]
        Address of the first pixel of each row behind the left border; 0, where pixels are not interleaved, for a row
        that is all border. (Where they are, such rows exist in memory.)
    width : int
        Columns, those of the border too.
    step : int
        Bytes from a pixel to its right neighbour, may be negative.
    red, green, blue : int
        Byte offsets from a pixel's address.
    alpha : int
        Byte offset of alpha; not read where the image is opaque.
    opaque : bool
    back_red, back_green, back_blue : int
        Background that transparent pixels are composited on.
    left, right : int
        Columns of border before and behind the pixels.
    border_red, border_green, border_blue : int
        Colour of the border.
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
    left: int
    right: int
    border_red: int
    border_green: int
    border_blue: int


@helper
def is_interleaved(source):
    """Whether resampling can read the pixels where they lie."""
    return source.left == 0 and source.right == 0 and _has_interleaved_pixels(source)


@helper
def _has_interleaved_pixels(source):
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
def _stage_border(source, first, end, out):
    """Write the columns ``first .. end`` of a row as border."""
    color = source.border_red | (source.border_green << 8) | (source.border_blue << 16)
    for x in range(first, end):
        store_u32(out + 4 * x, np.uint32(color))


@helper
def _copy_interleaved(row, step, count, out):
    """Gather RGB or RGBX pixels, 16 at a time, while 64 bytes of them lie in the row; return how many."""
    bytes_left = (count - 1) * step + 3
    x = np.intp(0)
    while x * step + 64 <= bytes_left:
        value = load_u8x64(row + x * step)
        store(out + 4 * x, _as_rgbx(value) if step == 3 else value)
        x += 16
    return x


@helper
def stage_row(source, y, out):
    """Gather row ``y`` as RGBX at address ``out``, ``4 * width`` bytes."""
    row = np.intp(source.rows[y])
    first = np.intp(source.left) if row else np.intp(source.width)
    end = np.intp(source.width - source.right) if row else np.intp(source.width)
    _stage_border(source, np.intp(0), first, out)
    copied = _copy_interleaved(row, source.step, end - first, out + 4 * first) if _has_interleaved_pixels(source) else 0
    for x in range(first + copied, end):
        pixel = row + (x - first) * np.intp(source.step)
        red = np.int32(load_u8(pixel + source.red))
        green = np.int32(load_u8(pixel + source.green))
        blue = np.int32(load_u8(pixel + source.blue))
        if not source.opaque:
            alpha = np.int32(load_u8(pixel + source.alpha))
            red = _composite(red, np.int32(source.back_red), alpha)
            green = _composite(green, np.int32(source.back_green), alpha)
            blue = _composite(blue, np.int32(source.back_blue), alpha)
        store_u32(out + 4 * x, np.uint32(red | (green << 8) | (blue << 16)))
    _stage_border(source, end, np.intp(source.width), out)


@helper
def row_address(source, y, stage):
    """Return where row ``y`` lies as interleaved pixels: in the image, or at ``stage``, gathered as RGBX."""
    if is_interleaved(source):
        return np.intp(source.rows[y])
    stage_row(source, y, stage)
    return stage
