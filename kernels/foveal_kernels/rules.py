"""Resizes other than the antialiased one of bytes: torch's float32 interpolation, as some models use it.

linear
    Two taps an axis, however much an image shrinks, rounded back to bytes. `view.resample_linear` composes what is here
    to canvas rows.
fixed taps
    A cubic without antialiasing of *normalized* values. Its ratios are whole numbers, so that every output sample has
    the same weights: a single tap where the ratio is odd, four where it is even. No canvas of bytes can hold its
    result, so it writes the output itself.

Both name the order of the float32 operations, which is torch's on a CPU with fused multiply-add.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from .compile import helper, kernel
from .emit import BFLOAT16, FLOAT32
from .resample import deinterleave
from .simd import (
    U8x64,
    Vector,
    call_at,
    f32_to_f16_portable,
    fused_multiply_add,
    load_f32x16,
    load_u8,
    load_u8x64,
    load_u16,
    load_u32,
    loader,
    multiply_f32,
    pair_shuffler,
    shuffler,
    spread_f32x16,
    store,
    store_u8,
    store_u16,
    store_u32,
    u8_to_f32,
)
from .source import is_interleaved, row_address

LANES = 16
"""Columns of a vector; rows of floats are read and written in whole vectors."""

# ---- linear

PAIR = 8
"""Bytes for each output column's two source pixels, 3 bytes each."""
ROUNDER = np.float32(3 << 22)
"""Added to a float32 of 0 to 255 it leaves the nearest whole number, half to even, in the lowest byte."""

_load_pair = loader(Vector("i", 8, PAIR))
_lowest_bytes = shuffler(U8x64, range(0, 64, 4))
_red_0, _green_0, _blue_0, _red_1, _green_1, _blue_1 = (
    pair_shuffler(U8x64, range(place, 128, PAIR)) for place in range(6)
)


class Taps(NamedTuple):
    """Two source samples for each output sample of an axis.

    Attributes
    ----------
    first, second : int32[count]
        The same one twice at the end of the axis.
    weights : float32[2, at least count]
        Of the first ones and of the second ones, up to a multiple of 16.
    """

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray


@helper
def whole_pairs(across, width, step):
    """Return the number of output columns whose 8 bytes, from the first pixel on, lie inside a row of pixels."""
    end = np.intp((width - 1) * step + 3)
    count = across.first.shape[0]
    while count and np.intp(across.first[count - 1]) * step + PAIR > end:
        count -= 1
    return count


@helper
def gather_pairs(row, step, across, whole, pairs):
    """Put both source pixels of each output column side by side at ``pairs``."""
    if step == 3:
        for x in range(whole):
            store(pairs + PAIR * x, _load_pair(row + np.intp(across.first[x]) * 3))
    else:
        for x in range(whole):
            pixel = row + np.intp(across.first[x]) * 4
            store_u32(pairs + PAIR * x, load_u32(pixel))
            store_u32(pairs + PAIR * x + 3, load_u32(pixel + 4))
    for x in range(whole, across.first.shape[0]):
        first, second = row + np.intp(across.first[x]) * step, row + np.intp(across.second[x]) * step
        for channel in range(3):
            store_u8(pairs + PAIR * x + channel, load_u8(first + channel))
            store_u8(pairs + PAIR * x + 3 + channel, load_u8(second + channel))


@helper
def _blend(upper_0, upper_1, lower_0, lower_1, weights, room):
    """Interpolate one channel of 16 columns; ``room`` is 64 bytes through which the lanes' bits become bytes."""
    value = multiply_f32(u8_to_f32(upper_1), weights[1])
    value = fused_multiply_add(u8_to_f32(upper_0), weights[0], value)
    value = fused_multiply_add(u8_to_f32(lower_0), weights[2], value)
    value = fused_multiply_add(u8_to_f32(lower_1), weights[3], value)
    store(room, fused_multiply_add(value, spread_f32x16(np.float32(1)), spread_f32x16(ROUNDER)))
    return _lowest_bytes(load_u8x64(room))


@helper
def blend_rows(upper, lower, across, top, bottom, out, plane, room):
    """Gathered pairs of two source rows -> one canvas row; up to 15 bytes past its width are written.

    Parameters
    ----------
    upper, lower : intp
        Addresses of the pairs of the two rows.
    across : Taps
    top, bottom : float32
        Weights of the two rows.
    out : intp
        Address of the canvas row.
    plane : intp
        Bytes from a channel to the next.
    room : intp
        Address of 64 bytes.

    Notes
    -----
    The products of the weights are rounded first, then the four pixels are added: the second of the upper row, its
    first, the first of the lower row, its second.
    Source: torch 2.14.1, aten/src/ATen/native/cpu/UpSampleKernel.cpp, for contiguous float32 images on one thread (and,
    on several, for results of height + width up to 128; larger ones are there interpolated along the rows first, which
    moves about one byte in 14000 by one).
    """
    top, bottom = spread_f32x16(top), spread_f32x16(bottom)
    first = np.intp(across.weights.ctypes.data)
    second = first + np.intp(across.weights.strides[0])
    for x in range(0, across.first.shape[0], LANES):
        left, right = load_f32x16(first + 4 * x), load_f32x16(second + 4 * x)
        above = (multiply_f32(top, left), multiply_f32(top, right))
        weights = (above[0], above[1], multiply_f32(bottom, left), multiply_f32(bottom, right))
        a, b = load_u8x64(upper + PAIR * x), load_u8x64(upper + PAIR * x + 64)
        c, d = load_u8x64(lower + PAIR * x), load_u8x64(lower + PAIR * x + 64)
        red = _blend(_red_0(a, b), _red_1(a, b), _red_0(c, d), _red_1(c, d), weights, room)
        green = _blend(_green_0(a, b), _green_1(a, b), _green_0(c, d), _green_1(c, d), weights, room)
        blue = _blend(_blue_0(a, b), _blue_1(a, b), _blue_0(c, d), _blue_1(c, d), weights, room)
        store(out + x, red)
        store(out + plane + x, green)
        store(out + 2 * plane + x, blue)


# ---- fixed taps

OUTER, INNER = np.float32(-0.09375), np.float32(0.59375)
"""Weights of the four taps: torch's cubic (a = -0.75) half way between two samples."""
LINES = 4
"""Rows that the vertical pass reads, kept until they are needed no more."""


@register_jitable
def tap_count(ratio):
    """Return the number of taps of an axis: an odd ratio has a sample in the middle."""
    return 1 if ratio & 1 else 4


@register_jitable
def line_pitch(width):
    """Return the bytes of a row of floats, in whole vectors."""
    return ((width + LANES - 1) & -LANES) * 4


@register_jitable
def _gathered_bytes(count):
    """Of pixels side by side."""
    return (3 * count + 63) & -64


def fixed_taps_scratch(width, resized_width, plane):
    """Return the bytes of scratch memory that `fixed_taps` needs."""
    count = 4 * resized_width
    rows = ((4 * width + 63) & -64) + _gathered_bytes(count) + 3 * plane
    return 64 + rows + 3 * (line_pitch(count) + (LINES + 1) * line_pitch(resized_width))


@kernel
def fixed_taps(source, down, across, emitter, plane, channels, dtype, memory, out, start, stop):
    """Resize normalized values by whole ratios, and write the output rows ``start .. stop``.

    Parameters
    ----------
    source : Source
        ``down`` times as many rows and ``across`` times as many columns as the output.
    down, across : int
        Source samples for each output sample.
    emitter : Emitter
        Of float32: writes a canvas row of all taps' pixels as floats, the channels a `line_pitch` apart. Its ``rows``
        are the byte offsets of the output's.
    plane : int
        Bytes from a channel of that canvas row to the next.
    channels : int64[3]
        Byte offset of each channel of the output, whose columns follow one another.
    dtype : int
        Of the output: FLOAT32, BFLOAT16 or FLOAT16 of `emit.py`.
    memory : uint8[`fixed_taps_scratch`]
    out : int
        Address of the view's first element.
    start, stop : int
        Output rows.

    Notes
    -----
    Along the rows first. The second tap is multiplied, then the first, third and fourth are added, each fused.
    Source: torch 2.14.1, aten/src/ATen/native/cpu/UpSampleKernel.cpp, bicubic without antialias and align_corners.
    """
    width = source.width // across
    count, pitch = tap_count(across) * width, line_pitch(width)
    stage = (np.intp(memory.ctypes.data) + 63) & ~np.intp(63)
    pixels = stage + ((4 * np.intp(source.width) + 63) & -64)
    canvas = pixels + _gathered_bytes(count)
    values = canvas + 3 * np.intp(plane)
    lines = values + 3 * line_pitch(count)
    result = lines + LINES * 3 * pitch
    done = np.intp(0)  # source rows before are no more needed, or their lines are there
    for y in range(start, stop):
        first, middle, end = _rows_read(y, down, source.rows.shape[0])
        for row in range(max(first, done), end):
            line = lines + row % LINES * 3 * pitch
            _gather_taps(source, row, across, stage, width, pixels)
            deinterleave(pixels, count, 3, canvas, np.intp(plane))
            floats = line if count == width else values
            call_at(emitter.address, np.intp(emitter.words.ctypes.data), canvas, floats, np.intp(1))
            if count > width:
                for channel in range(3):
                    at = values + channel * line_pitch(count)
                    _interpolate(at, at + 4 * width, at + 8 * width, at + 12 * width, width, line + channel * pitch)
        done = end
        for channel in range(3):
            line = lines + channel * pitch
            floats = line + middle % LINES * 3 * pitch
            if tap_count(down) > 1:
                above, below = line + first % LINES * 3 * pitch, line + (middle + 1) % LINES * 3 * pitch
                _interpolate(above, floats, below, line + (end - 1) % LINES * 3 * pitch, width, result)
                floats = result
            _write_row(floats, width, dtype, out + emitter.rows[y] + channels[channel], result)


@helper
def _rows_read(y, down, height):
    """Return the first, the middle and the end of the source rows of an output row, kept inside the image."""
    middle = y * down + (down - 1) // 2
    if tap_count(down) == 1:
        return middle, middle, middle + 1
    return max(middle - 1, 0), middle, min(middle + 3, height)


@helper
def _gather_taps(source, y, across, stage, width, pixels):
    """Put the pixels of each tap's columns side by side, kept inside the row, one tap after the other."""
    interleaved = is_interleaved(source)
    step = np.intp(source.step) if interleaved else np.intp(4)
    row, last = row_address(source, interleaved, y, stage), np.intp(source.width - 1)
    first = (across - 1) // 2 - (tap_count(across) > 1)
    for column in range(first, first + tap_count(across)):
        _put_pixel(row + min(max(column, 0), last) * step, pixels)
        for x in range(1, width - 1):
            store_u32(pixels + 3 * x, load_u32(row + (column + x * across) * step))
        column_at_end = min(max(column + (width - 1) * across, 0), last)
        _put_pixel(row + column_at_end * step, pixels + 3 * (width - 1))
        pixels += 3 * width


@helper
def _put_pixel(pixel, out):
    """Copy 3 bytes and read no more: no byte may be behind them."""
    store_u16(out, load_u16(pixel))
    store_u8(out + 2, load_u8(pixel + 2))


@helper
def _interpolate(first, second, third, fourth, width, out):
    """Four rows of floats -> one."""
    outer, inner = spread_f32x16(OUTER), spread_f32x16(INNER)
    for x in range(0, 4 * width, 4 * LANES):
        value = multiply_f32(load_f32x16(second + x), inner)
        value = fused_multiply_add(load_f32x16(first + x), outer, value)
        value = fused_multiply_add(load_f32x16(third + x), inner, value)
        store(out + x, fused_multiply_add(load_f32x16(fourth + x), outer, value))


@helper
def _write_row(row, width, dtype, out, room):
    """Write floats as a dtype, rounded half to even; ``room``, a row for float16, may be the row itself."""
    if dtype == FLOAT32:
        for x in range(width):
            store_u32(out + 4 * x, load_u32(row + 4 * x))
    elif dtype == BFLOAT16:
        for x in range(width):
            bits = load_u32(row + 4 * x)
            store_u16(out + 2 * x, np.uint16((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16))
    else:
        for x in range(0, width, LANES):
            store(room + 2 * x, f32_to_f16_portable(load_f32x16(row + 4 * x)))
        for x in range(width):
            store_u16(out + 2 * x, load_u16(room + 2 * x))
