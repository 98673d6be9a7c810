"""Exact uint8 resampling, the two passes, on row addresses.

Both passes are one dot product of bytes with packed weights; the three instruction levels differ only in
`_multiply_add`. Sums are 32-bit and start from half a unit, so that the final shift rounds half up, and each pass clips
to 0..255 before the next, as both references do.

Names used here
    taps      16 source rows, gathered so that a 64-byte vector holds 4 neighbouring pixels of all of them, for one
              channel: taps[group of 4 pixels][channel][row][pixel].
    strip     16 rows after the horizontal pass, as 4 groups of 4 rows: strip[group][channel][x][row], a channel being
              one `plane`. It is what the vertical pass multiplies: 4 source rows side by side for each x.
    canvas    one row of bytes, row[channel][x], a channel again being one `plane`.
Passes may write up to 63 bytes past a row's width; planes are wide enough.

Sources: Pillow 13.0.0, src/libImaging/Resample.c; torch 2.14.1, aten/src/ATen/native/cpu/UpSampleKernelAVXAntialias.h.
"""

from typing import NamedTuple

import numpy as np
from numba.core.extending import overload

from .compile import OPTIONS, helper, inlined
from .simd import (
    U8x64,
    add,
    block_gatherer,
    clip_to_u8,
    dot_i16,
    dot_u8s8,
    even_bytes,
    join_u8x16,
    join_u8x32,
    load_u8,
    load_u8x64,
    odd_bytes,
    pack_avx2,
    pack_avx512,
    pair_shuffler,
    prefetch,
    quarters,
    shift_left_8,
    shift_left_16,
    shift_right,
    shuffler,
    spread_bytes,
    spread_i32,
    spread_pairs,
    store,
    store_u8,
    tap_0,
    tap_1,
    tap_2,
    tap_3,
)
from .static import static
from .target import AVX2, VNNI
from .weights import group_bytes

Dot = static("Dot", "level", "digits")
"""Compile-time constants of a dot product: instruction level and number of weight digits."""


class Weights(NamedTuple):
    """Packed weights of one axis, see `weights.py`."""

    groups: np.ndarray
    packed: np.ndarray
    shift: int


first_quarter, second_quarter, third_quarter, fourth_quarter = quarters

_Q = range(4)
_gather_block_rgb, _gather_block_rgbx = block_gatherer(3), block_gatherer(4)
# 4 results of 16 rows, one for each x -> for each group of 4 rows the 4 x
_by_group = shuffler(U8x64, [x * 16 + group * 4 + row for group in _Q for x in _Q for row in _Q])
_by_row = shuffler(U8x64, [x * 4 + row for row in _Q for x in range(16)])

# 64 bytes that start with 16 pixels, or that end with the last 16 pixels of a row -> 16 bytes of each channel
_split_rgbx = shuffler(U8x64, [pixel * 4 + channel for channel in _Q for pixel in range(16)])
_split_rgb = shuffler(U8x64, [pixel * 3 + min(channel, 2) for channel in _Q for pixel in range(16)])
_split_rgbx_end = shuffler(U8x64, [min(pixel * 4 + channel + 1, 63) for channel in _Q for pixel in range(16)])
_split_rgb_end = shuffler(U8x64, [pixel * 3 + min(channel, 2) + 16 for channel in _Q for pixel in range(16)])


def _channel_of_64(channel):
    """Two shuffles that pick a channel of 64 RGB pixels: from bytes 0..127, then from those and bytes 128..191."""
    places = [3 * pixel + channel for pixel in range(64)]
    first = pair_shuffler(U8x64, [min(place, 127) for place in places])
    return first, pair_shuffler(U8x64, [i if place < 128 else place - 64 for i, place in enumerate(places)])


_red_of_128, _red_of_192 = _channel_of_64(0)
_green_of_128, _green_of_192 = _channel_of_64(1)
_blue_of_128, _blue_of_192 = _channel_of_64(2)


# ---- the dot product


def _multiply_add(dot, a, b, c, pixels, weights):
    """Add the products of one group of four taps to the sums of the digits, lowest first."""
    raise NotImplementedError("compiled code only")


@helper
def _vnni_2(dot, a, b, c, pixels, weights):
    return dot_u8s8(a, pixels, spread_bytes(weights)), dot_u8s8(b, pixels, spread_bytes(weights + 4)), c


@helper
def _vnni_3(dot, a, b, c, pixels, weights):
    a, b, c = _vnni_2(dot, a, b, c, pixels, weights)
    return a, b, dot_u8s8(c, pixels, spread_bytes(weights + 8))


@helper
def _pairs(pixels, weights):
    even = dot_i16(even_bytes(pixels), spread_pairs(weights))
    return add(even, dot_i16(odd_bytes(pixels), spread_pairs(weights + 4)))


@helper
def _avx2_1(dot, a, b, c, pixels, weights):
    return add(a, _pairs(pixels, weights)), b, c


@helper
def _avx2_2(dot, a, b, c, pixels, weights):
    return add(a, _pairs(pixels, weights)), b, add(c, _pairs(pixels, weights + 8))


@helper
def _generic(dot, a, b, c, pixels, weights):
    low = add(tap_0(pixels, weights), tap_1(pixels, weights + 4))
    return add(a, add(low, add(tap_2(pixels, weights + 8), tap_3(pixels, weights + 12)))), b, c


@overload(_multiply_add, jit_options=OPTIONS)
def _compile_multiply_add(dot, a, b, c, pixels, weights):
    if dot.level == VNNI:
        chosen = _vnni_2 if dot.digits == 2 else _vnni_3
    elif dot.level == AVX2:
        chosen = _avx2_1 if dot.digits == 1 else _avx2_2
    else:
        chosen = _generic
    return lambda dot, a, b, c, pixels, weights: chosen(dot, a, b, c, pixels, weights)


def _pack(dot, a, b, c, d):
    """Clip 4 vectors of sums to 0..255 and join them."""
    raise NotImplementedError("compiled code only")


@helper
def _pack_generic(a, b, c, d):
    return join_u8x32(join_u8x16(clip_to_u8(a), clip_to_u8(b)), join_u8x16(clip_to_u8(c), clip_to_u8(d)))


@overload(_pack, jit_options=OPTIONS)
def _compile_pack(dot, a, b, c, d):
    chosen = {VNNI: pack_avx512, AVX2: pack_avx2}.get(dot.level, _pack_generic)
    return lambda dot, a, b, c, d: chosen(a, b, c, d)


@helper
def _finish(a, b, c, shift):
    """Combine the sums of the digits and shift; not yet clipped."""
    return shift_right(add(add(a, shift_left_8(b)), shift_left_16(c)), shift)


@helper
def _dot_pair(dot, data, second, step, weights, count, half, shift):
    """Multiply ``count`` groups at ``data``, and at ``data + second``, with the same weights.

    No wrap-around test belongs in this loop: one compare here made the vertical pass 1.8 times slower, so its caller
    keeps a sliding window instead of a ring.
    """
    zero = spread_i32(np.int32(0))
    a, b, c = half, zero, zero
    d, e, f = half, zero, zero
    for _ in range(count):
        a, b, c = _multiply_add(dot, a, b, c, load_u8x64(data), weights)
        d, e, f = _multiply_add(dot, d, e, f, load_u8x64(data + second), weights)
        data += step
        weights += group_bytes(dot.level, dot.digits)
    return _finish(a, b, c, shift), _finish(d, e, f, shift)


@helper
def _dot_four(dot, data, step, weights, count, half, shift):
    """Multiply ``count`` groups of 4 neighbouring vectors with the same weights."""
    zero = spread_i32(np.int32(0))
    a, b, c = half, zero, zero
    d, e, f = half, zero, zero
    g, h, i = half, zero, zero
    j, k, m = half, zero, zero
    for _ in range(count):
        a, b, c = _multiply_add(dot, a, b, c, load_u8x64(data), weights)
        d, e, f = _multiply_add(dot, d, e, f, load_u8x64(data + 64), weights)
        g, h, i = _multiply_add(dot, g, h, i, load_u8x64(data + 128), weights)
        j, k, m = _multiply_add(dot, j, k, m, load_u8x64(data + 192), weights)
        data += step
        weights += group_bytes(dot.level, dot.digits)
    left, right = _finish(a, b, c, shift), _finish(d, e, f, shift)
    return _pack(dot, left, right, _finish(g, h, i, shift), _finish(j, k, m, shift))


@inlined
def _dot_three(dot, data, weights, count, half, shift):
    """Multiply ``count`` groups of the 3 channels' vectors with the same weights."""
    zero = spread_i32(np.int32(0))
    a, b, c = half, zero, zero
    d, e, f = half, zero, zero
    g, h, i = half, zero, zero
    for _ in range(count):
        a, b, c = _multiply_add(dot, a, b, c, load_u8x64(data), weights)
        d, e, f = _multiply_add(dot, d, e, f, load_u8x64(data + 64), weights)
        g, h, i = _multiply_add(dot, g, h, i, load_u8x64(data + 128), weights)
        data += 192
        weights += group_bytes(dot.level, dot.digits)
    return _finish(a, b, c, shift), _finish(d, e, f, shift), _finish(g, h, i, shift)


# ---- horizontal pass


@helper
def gather_taps(rows, y, last, width, step, lines, taps):
    """Gather the 16 rows from ``y`` on, clamped to ``last``, from interleaved pixels; pixels beyond the width are 0.

    ``lines`` is room for 16 addresses.
    """
    for i in range(16):
        lines[i] = rows[min(y + i, last)]
    table = np.intp(lines.ctypes.data)
    last_block = ((width - 1) * step + 3 - 64) // step & ~3  # the last 16 pixels whose 64-byte load stays in the row
    x, ahead = np.intp(0), _to_whole_lines(lines[0], step)
    while x <= last_block:
        if step == 4:
            _gather_block_rgbx(table, x * 4, taps + x * 48)
        else:
            _gather_block_rgb(table, x * 3, taps + x * 48)
        x = x + 16 if x == last_block else min(x + ahead, last_block)  # the last block overlaps the one before
        ahead = np.intp(16)
    for column in range(x, (width + 3) & ~3):
        for i in range(16):
            pixel = np.intp(lines[i]) + column * step
            out = taps + (column >> 2) * 192 + i * 4 + (column & 3)
            for channel in range(3):
                store_u8(out + channel * 64, load_u8(pixel + channel) if column < width else np.uint8(0))


@helper
def _to_whole_lines(row, step):
    """Return by how many pixels the second block follows the first, so that blocks from there on are cache lines.

    Loads of parts of two lines made an image of 1024 columns, all of whose rows meet in the same set of the L1, take
    1.2 times as long. Other rows than the first are as far from a line's start wherever a row has whole lines.
    """
    past = np.intp(row) & np.intp(63)
    return (np.intp(64) - past) >> 2 if step == 4 and past & 15 == 0 else np.intp(16)


@inlined
def _dot_taps(dot, taps, weights, x, half, shift):
    data = taps + np.intp(weights.groups[x, 0]) * 192
    packed = np.intp(weights.packed.ctypes.data) + x * np.intp(weights.packed.strides[0])
    return _dot_three(dot, data, packed, np.intp(weights.groups[x, 1]), half, shift)


@helper
def _put_strip(strip, group, value):
    """Write 4 x of 4 rows to each group of a strip."""
    store(strip, first_quarter(value))
    store(strip + group, second_quarter(value))
    store(strip + 2 * group, third_quarter(value))
    store(strip + 3 * group, fourth_quarter(value))


@helper
def horizontal_pass(dot, taps, weights, strip, plane, ahead, ahead_bytes):
    """Gathered taps -> the 4 groups of a strip, 3 planes apart; up to 3 columns behind the last repeat it.

    Meanwhile the first ``ahead_bytes`` of the 16 rows at the addresses in ``ahead`` are brought into the L2.
    """
    half, shift = spread_i32(np.int32(1) << np.int32(weights.shift - 1)), spread_i32(np.int32(weights.shift))
    last = weights.groups.shape[0] - 1
    share, asked, ask = ahead_bytes * 4 // (last + 1) + 1, np.intp(0), np.intp(0)
    for x in range(0, last + 1, 4):
        ask = min(ask + share, ahead_bytes)
        while asked < ask:
            for i in range(16):
                prefetch(np.intp(ahead[i]) + asked)
            asked += 64
        red_0, green_0, blue_0 = _dot_taps(dot, taps, weights, x, half, shift)
        red_1, green_1, blue_1 = _dot_taps(dot, taps, weights, min(x + 1, last), half, shift)
        red_2, green_2, blue_2 = _dot_taps(dot, taps, weights, min(x + 2, last), half, shift)
        red_3, green_3, blue_3 = _dot_taps(dot, taps, weights, min(x + 3, last), half, shift)
        out = strip + 4 * x
        _put_strip(out, 3 * plane, _by_group(_pack(dot, red_0, red_1, red_2, red_3)))
        _put_strip(out + plane, 3 * plane, _by_group(_pack(dot, green_0, green_1, green_2, green_3)))
        _put_strip(out + 2 * plane, 3 * plane, _by_group(_pack(dot, blue_0, blue_1, blue_2, blue_3)))


# ---- vertical pass


@helper
def vertical_pass(dot, strips, plane, weights, y, width, row, row_plane):
    """Output row ``y`` from the groups of 4 rows at ``strips`` -> one canvas row."""
    half, shift = spread_i32(np.int32(1) << np.int32(weights.shift - 1)), spread_i32(np.int32(weights.shift))
    packed = np.intp(weights.packed.ctypes.data) + y * np.intp(weights.packed.strides[0])
    count = np.intp(weights.groups[y, 1])
    for channel in range(3):
        data = strips + channel * plane
        out = row + channel * row_plane
        x = 0
        while x + 32 < width:
            store(out + x, _dot_four(dot, data, 3 * plane, packed, count, half, shift))
            data += 256
            x += 64
        if x < width:
            left, right = _dot_pair(dot, data, 64, 3 * plane, packed, count, half, shift)
            store(out + x, _pack(dot, left, right, left, right))


@helper
def move_down(out, data, count):
    """Copy ``count`` bytes, a multiple of 64, towards lower addresses; the ranges may overlap."""
    for i in range(0, count, 64):
        store(out + i, load_u8x64(data + i))


# Interleave 4 rows so that every 4 bytes are one column; 4 vectors of 16 columns, in an order that `_columns` undoes.
_low_pairs, _high_pairs = (
    pair_shuffler(U8x64, [16 * q + start + (i >> 1) + 64 * (i & 1) for q in _Q for i in range(16)]) for start in (0, 8)
)
_low_words, _high_words = (
    pair_shuffler(U8x64, [16 * q + start + 2 * (i >> 2) + (i & 1) + 64 * ((i >> 1) & 1) for q in _Q for i in range(16)])
    for start in (0, 8)
)
_columns = shuffler(U8x64, [16 * j + 4 * q + i for q in _Q for j in _Q for i in _Q])


@helper
def vertical_pass_on_source(dot, rows, last, weights, y, count, out):
    """Output row ``y`` straight from interleaved source rows of ``count`` bytes (at least 64) -> the same form."""
    half, shift = spread_i32(np.int32(1) << np.int32(weights.shift - 1)), spread_i32(np.int32(weights.shift))
    zero = spread_i32(np.int32(0))
    base = np.intp(weights.packed.ctypes.data) + y * np.intp(weights.packed.strides[0])
    x = np.intp(0)
    while x < count:
        x = min(x, count - 64)  # the last vector overlaps the one before; nothing beyond the row is read
        packed = base
        a, b, c = half, zero, zero
        d, e, f = half, zero, zero
        g, h, i = half, zero, zero
        j, k, m = half, zero, zero
        for group in range(weights.groups[y, 1]):
            sample = (np.intp(weights.groups[y, 0]) + group) * 4
            first, second = load_u8x64(np.intp(rows[sample]) + x), load_u8x64(np.intp(rows[min(sample + 1, last)]) + x)
            third = load_u8x64(np.intp(rows[min(sample + 2, last)]) + x)
            fourth = load_u8x64(np.intp(rows[min(sample + 3, last)]) + x)
            upper, lower = _low_pairs(first, second), _low_pairs(third, fourth)
            a, b, c = _multiply_add(dot, a, b, c, _low_words(upper, lower), packed)
            d, e, f = _multiply_add(dot, d, e, f, _high_words(upper, lower), packed)
            upper, lower = _high_pairs(first, second), _high_pairs(third, fourth)
            g, h, i = _multiply_add(dot, g, h, i, _low_words(upper, lower), packed)
            j, k, m = _multiply_add(dot, j, k, m, _high_words(upper, lower), packed)
            packed += group_bytes(dot.level, dot.digits)
        left, right = _finish(a, b, c, shift), _finish(d, e, f, shift)
        store(out + x, _columns(_pack(dot, left, right, _finish(g, h, i, shift), _finish(j, k, m, shift))))
        x += 64


# ---- without a pass


@helper
def unpack_strip_row(group, plane, row, width, out, out_plane):
    """Row 0..3 of a strip's group -> one canvas row."""
    for channel in range(3):
        for x in range(0, width, 16):
            value = _by_row(load_u8x64(group + channel * plane + 4 * x))
            at = out + channel * out_plane + x
            if row == 0:
                store(at, first_quarter(value))
            elif row == 1:
                store(at, second_quarter(value))
            elif row == 2:
                store(at, third_quarter(value))
            else:
                store(at, fourth_quarter(value))


@helper
def deinterleave(pixels, width, step, out, out_plane):
    """One row of interleaved pixels -> one canvas row, without reading or writing past its width."""
    count = (width - 1) * step + 3
    x = np.intp(0)
    if step == 3:
        while x + 64 <= width:
            at = pixels + 3 * x
            first, second, third = load_u8x64(at), load_u8x64(at + 64), load_u8x64(at + 128)
            store(out + x, _red_of_192(_red_of_128(first, second), third))
            store(out + out_plane + x, _green_of_192(_green_of_128(first, second), third))
            store(out + 2 * out_plane + x, _blue_of_192(_blue_of_128(first, second), third))
            x += 64
    while x * step + 64 <= count:
        value = load_u8x64(pixels + x * step)
        _put_canvas(out + x, out_plane, _split_rgbx(value) if step == 4 else _split_rgb(value))
        x += 16
    end = np.intp(width - 16 if x < width and count >= 64 else width)
    for i in range(x, end):
        for channel in range(3):
            store_u8(out + channel * out_plane + i, load_u8(pixels + i * step + channel))
    if end < width:
        value = load_u8x64(pixels + count - 64)
        _put_canvas(out + end, out_plane, _split_rgbx_end(value) if step == 4 else _split_rgb_end(value))


@helper
def _put_canvas(out, plane, value):
    """Write 16 columns of each channel."""
    store(out, first_quarter(value))
    store(out + plane, second_quarter(value))
    store(out + 2 * plane, third_quarter(value))
