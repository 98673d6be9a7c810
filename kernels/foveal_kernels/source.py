"""Any source row -> the row that resampling reads.

Resampling reads interleaved RGB or RGBX pixels straight from the image's memory. Every other form (grey, mirrored,
planar, strided, with alpha, with a border at the sides) is first gathered, row by row, into an RGBX row in scratch
memory; alpha is composited on a backdrop on the way, so no copy of the whole image is ever made.
"""

from typing import NamedTuple

import numpy as np

from .alpha import blend, blend_down, board_row
from .compile import helper, inlined
from .simd import U8x64, blend_bytes, load_u8, load_u8x64, shuffler, store, store_u32

_as_rgbx = shuffler(U8x64, [3 * pixel + min(channel, 2) for pixel in range(16) for channel in range(4)])
_grey_as_rgbx = shuffler(U8x64, [4 * pixel for pixel in range(16) for _ in range(4)])
_alphas = shuffler(U8x64, [4 * pixel + 3 for pixel in range(16) for _ in range(4)])


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
    board : uint8[2, at least 4 * columns of pixels]
        RGBX rows that transparent pixels are composited on, from the first column of pixels on.
    square : int
        Rows of pixels for which the first of them is used, then the second, and so on.
    top : int
        Row of the image that row 0 is, from which ``square`` is counted.
    rounds_down : bool
        Whether the fraction of a composited value is cut off.
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
    board: np.ndarray
    square: int
    top: int
    rounds_down: bool
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
def _composite_vectors(source, row, board, count, out):
    """Composite RGBA or LLLA pixels, 16 at a time, the last of them twice; return how many."""
    if source.rounds_down or source.step != 4 or source.alpha != 3 or source.red != 0 or count < 16:
        return np.intp(0)
    is_grey = source.green == 0 and source.blue == 0
    if not is_grey and (source.green != 1 or source.blue != 2):
        return np.intp(0)
    x = np.intp(0)
    while x < count:
        x = min(x, count - 16)
        value = load_u8x64(row + 4 * x)
        color = _grey_as_rgbx(value) if is_grey else value
        store(out + 4 * x, blend_bytes(color, load_u8x64(board + 4 * x), _alphas(value)))
        x += 16
    return count


@helper
def _composite_row(source, y, row, count, out):
    """Gather transparent pixels over the backdrop."""
    board = board_row(source.board, source.square, source.top + y)
    for x in range(_composite_vectors(source, row, board, count, out), count):
        pixel = row + x * np.intp(source.step)
        red, green, blue = load_u8(pixel + source.red), load_u8(pixel + source.green), load_u8(pixel + source.blue)
        alpha = load_u8(pixel + source.alpha)
        back = board + 4 * x
        back_red, back_green, back_blue = load_u8(back), load_u8(back + 1), load_u8(back + 2)
        if source.rounds_down:
            red, green = blend_down(red, back_red, alpha), blend_down(green, back_green, alpha)
            blue = blend_down(blue, back_blue, alpha)
        else:
            red, green = blend(red, back_red, alpha), blend(green, back_green, alpha)
            blue = blend(blue, back_blue, alpha)
        store_u32(out + 4 * x, np.uint32(red) | (np.uint32(green) << 8) | (np.uint32(blue) << 16))


@helper
def _gather_row(source, row, count, out):
    """Gather opaque pixels."""
    copied = _copy_interleaved(row, source.step, count, out) if _has_interleaved_pixels(source) else np.intp(0)
    for x in range(copied, count):
        pixel = row + x * np.intp(source.step)
        red, green = np.uint32(load_u8(pixel + source.red)), np.uint32(load_u8(pixel + source.green))
        blue = np.uint32(load_u8(pixel + source.blue))
        store_u32(out + 4 * x, red | (green << 8) | (blue << 16))


@helper
def stage_row(source, y, out):
    """Gather row ``y`` as RGBX at address ``out``, ``4 * width`` bytes."""
    row = np.intp(source.rows[y])
    first = np.intp(source.left) if row else np.intp(source.width)
    end = np.intp(source.width - source.right) if row else np.intp(source.width)
    _stage_border(source, np.intp(0), first, out)
    if source.opaque:
        _gather_row(source, row, end - first, out + 4 * first)
    else:
        _composite_row(source, y, row, end - first, out + 4 * first)
    _stage_border(source, end, np.intp(source.width), out)


@inlined
def row_address(source, interleaved, y, stage):
    """Return where row ``y`` lies as interleaved pixels: in the image, or at ``stage``, gathered as RGBX.

    ``interleaved`` is `is_interleaved`, asked once an image: a call for each row passes all the source's 29 words and
    costs 50 ns, a sixth of what a row of 1280 pixels takes.
    """
    if interleaved:
        return np.intp(source.rows[y])
    stage_row(source, y, stage)
    return stage
