"""One view, from source rows to the output buffer: the kernels that Python calls.

source row -> (stage) -> resample -> canvas row -> emit. Rows are computed just before they are needed and stay in
cache; no resized image and no float canvas exists. Each kernel writes the canvas rows ``start .. stop`` only, so row
bands can run on several threads; neighbouring bands repeat a few rows of the first pass and give the same bits.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from .compile import helper, kernel
from .emit import band_bytes
from .resample import (
    deinterleave,
    gather_taps,
    horizontal_pass,
    move_down,
    unpack_strip_row,
    vertical_pass,
    vertical_pass_on_source,
)
from .rules import LANES, PAIR, blend_rows, gather_pairs, whole_pairs
from .simd import call_at, spread_u8, store
from .source import is_interleaved, row_address, row_bytes, stage_row
from .weights import group_bytes

SIZES_KEPT = 1024
"""Of scratch memory, by what it depends on: to compute one takes longer than to look it up."""
SPARE_GROUPS = 4
"""Groups of 4 rows that the sliding window holds beyond what one output row needs: fewer moves."""
BLOCK = 16
"""Rows of a strip: those that the horizontal pass computes together."""
FAR_BYTES = 16 << 20
"""Of a source that is not in the caches: its next rows are asked for while a block is computed.

That makes 12 megapixels to 336x336 1.3 times as fast, and sources that the caches hold 3 % slower.
"""
VECTOR = 64
"""Bytes that a row must hold for the vertical-first order to read it where it lies."""


class Canvas(NamedTuple):
    """Where the resized window lies on the canvas, and the colour around it."""

    top: int
    left: int
    width: int
    red: int
    green: int
    blue: int


class Emitter(NamedTuple):
    """How canvas rows are written.

    Attributes
    ----------
    address : int
        Of the compiled `emit_rows`.
    words : int64[12]
        Its layout.
    rows : int64[height]
        ``R`` in bytes for each canvas row.
    side : int
        Rows of a patch, or 1.
    band : int
        Rows that are emitted together, from a multiple of it on: those of a merge block, or 1.
    """

    address: int
    words: np.ndarray
    rows: np.ndarray
    side: int
    band: int


class Scratch(NamedTuple):
    """Memory of one thread: bytes, and row addresses."""

    memory: np.ndarray
    addresses: np.ndarray


# ---- how scratch memory is divided; called by kernels and by Python


@register_jitable
def _rounded(count):
    return (count + 63) & ~63


@register_jitable
def _odd_lines(count):
    """Round up to an odd number of cache lines: rows so far apart do not all fall into the same few sets of the L1."""
    return _rounded(count) | 64


@register_jitable
def _taps_bytes(width):
    return _rounded(((width + 3) >> 2) * 192)


@register_jitable
def _row_stride(width):
    """Of a staged row: 4 bytes a pixel, and room for a whole vector behind it."""
    return _odd_lines(width * 4 + 64)


@register_jitable
def _pairs_bytes(resized_width):
    return _rounded(resized_width) * PAIR


@register_jitable
def _strip_plane(width):
    return _odd_lines(_rounded(width) * 4)


@register_jitable
def canvas_plane(width):
    """Return the bytes from a channel of a canvas row to the next: passes may write 63 bytes past a row's width."""
    return _odd_lines(width + 64)


@register_jitable
def window_groups(packed_bytes, bytes_a_group):
    """Return the length of the sliding window of the horizontal-first order, in groups of 4 rows."""
    return (packed_bytes // bytes_a_group + 4 + SPARE_GROUPS) & ~3


@lru_cache(SIZES_KEPT)
def horizontal_first_scratch(width, resized_width, window, canvas_width, band):
    """Return the bytes of scratch memory that `resample_horizontal_first` needs."""
    strips = window * 3 * _strip_plane(resized_width) + 64
    rows = BLOCK * _row_stride(width) + band_bytes(canvas_plane(canvas_width), band)
    return 64 + _taps_bytes(width) + rows + strips


@lru_cache(SIZES_KEPT)
def vertical_first_scratch(width, resized_width, staged_rows, canvas_width, band):
    """Return the bytes of scratch memory that `resample_vertical_first` needs."""
    strip = 12 * _strip_plane(resized_width) + 64
    rows = (BLOCK + staged_rows) * _row_stride(width) + band_bytes(canvas_plane(canvas_width), band)
    return 64 + _taps_bytes(width) + rows + strip


@lru_cache(SIZES_KEPT)
def linear_scratch(width, resized_width, canvas_width, band):
    """Return the bytes of scratch memory that `resample_linear` needs."""
    pairs = 2 * _pairs_bytes(resized_width) + LANES * 4
    return 64 + _row_stride(width) + pairs + band_bytes(canvas_plane(canvas_width), band)


@lru_cache(SIZES_KEPT)
def place_scratch(width, canvas_width, band):
    """Return the bytes of scratch memory that `place` needs."""
    return 64 + _row_stride(width) + band_bytes(canvas_plane(canvas_width), band)


# ---- canvas rows


@helper
def _fill(row, plane, first, last, canvas):
    """Set the columns ``first .. last`` of a canvas row to the canvas colour, and up to 63 behind them."""
    if first < last:
        red, green = spread_u8(np.uint8(canvas.red)), spread_u8(np.uint8(canvas.green))
        blue = spread_u8(np.uint8(canvas.blue))
        for x in range(first, last, 64):
            store(row + x, red)
            store(row + plane + x, green)
            store(row + 2 * plane + x, blue)


@helper
def _emit_full_band(emitter, band, rows, out, y, stop):
    """Emit the rows that wait, if canvas row ``y`` completes them; return the number of rows that wait then.

    A band that is not begun with its first row is emitted one row of patches at a time.
    """
    first, end = y + 1 - rows, y + 1
    if end < stop and end % emitter.band and (first % emitter.band == 0 or end % emitter.side):
        return rows
    address = out + emitter.rows[first]
    call_at(emitter.address, np.intp(emitter.words.ctypes.data), band, address, np.intp(rows))
    return np.intp(0)


@helper
def _aligned(memory):
    return (np.intp(memory.ctypes.data) + 63) & ~np.intp(63)


# ---- kernels


@kernel
def resample_horizontal_first(dot, source, horizontal, vertical, canvas, emitter, scratch, out, start, stop):
    """Resize, horizontal pass first, and write the canvas rows ``start .. stop``.

    Parameters
    ----------
    dot : Dot
        Instruction level and digits of both axes' weights.
    source : Source
    horizontal, vertical : Weights
        Of the output columns and rows inside the window: a crop is a slice of them.
    canvas : Canvas
    emitter : Emitter
    scratch : Scratch
        At least `horizontal_first_scratch` bytes and 32 addresses.
    out : int
        Address of the view's first element.
    start, stop : int
        Canvas rows.
    """
    last = source.rows.shape[0] - 1
    width, height = horizontal.groups.shape[0], vertical.groups.shape[0]
    plane, row_plane = _strip_plane(width), canvas_plane(canvas.width)
    group = 3 * plane
    window = window_groups(vertical.packed.shape[1], group_bytes(dot.level, dot.digits))
    taps = _aligned(scratch.memory)
    stage = taps + _taps_bytes(source.width)
    strips = stage + BLOCK * _row_stride(source.width)
    band = strips + window * group + 64
    waiting = np.intp(0)
    done = np.intp(vertical.groups[min(max(start - canvas.top, 0), height - 1), 0]) & ~3
    first = done  # group at the start of the window; groups first .. done are there
    for y in range(start, stop):
        v = y - canvas.top
        row = band + waiting * 3 * row_plane
        if 0 <= v < height:
            needed = np.intp(vertical.groups[v, 0])
            while done < needed + vertical.groups[v, 1]:
                if done + 4 - first > window:
                    kept = min(needed, done)
                    move_down(strips, strips + (kept - first) * group, (done - kept) * group)
                    first = kept
                _gather(source, done * 4, last, stage, scratch.addresses, taps)
                ahead = _rows_ahead(source, done * 4 + BLOCK, last, scratch.addresses)
                horizontal_pass(dot, taps, horizontal, strips + (done - first) * group, plane, scratch.addresses, ahead)
                done += 4
            data = strips + (needed - first) * group
            _fill(row, row_plane, 0, canvas.left, canvas)
            vertical_pass(dot, data, plane, vertical, v, width, row + canvas.left, row_plane)
            _fill(row, row_plane, canvas.left + width, canvas.width, canvas)
        else:
            _fill(row, row_plane, 0, canvas.width, canvas)
        waiting = _emit_full_band(emitter, band, waiting + 1, out, y, stop)


@helper
def _gather(source, y, last, stage, addresses, taps):
    """Taps of the 16 source rows from ``y`` on."""
    if is_interleaved(source):
        gather_taps(source.rows, y, last, source.width, source.step, addresses[BLOCK:], taps)
    else:
        count = min(BLOCK, last + 1 - y)
        for i in range(count):
            stage_row(source, y + i, stage + i * _row_stride(source.width))
            addresses[i] = np.uint64(stage + i * _row_stride(source.width))
        gather_taps(addresses, 0, count - 1, source.width, 4, addresses[BLOCK:], taps)


@helper
def _rows_ahead(source, y, last, addresses):
    """Note the addresses of the 16 source rows from ``y`` on; return their bytes, 0 where they are not far."""
    if not is_interleaved(source) or source.rows.shape[0] * row_bytes(source) < FAR_BYTES:
        return np.intp(0)
    for i in range(BLOCK):
        addresses[i] = source.rows[min(y + i, last)]
    return row_bytes(source)


@kernel
def resample_vertical_first(dot, source, horizontal, vertical, canvas, emitter, scratch, staged_rows, out, start, stop):
    """Resize, vertical pass first, and write the canvas rows ``start .. stop``.

    Parameters
    ----------
    dot, source, horizontal, vertical, canvas, emitter, out, start, stop
        As for `resample_horizontal_first`.
    scratch : Scratch
        At least `vertical_first_scratch` bytes and 32 + source height addresses.
    staged_rows : int
        0 where the vertical pass can read the source's memory; else as many rows as a block of 16 output rows spans.
    """
    last = source.rows.shape[0] - 1
    width, height = horizontal.groups.shape[0], vertical.groups.shape[0]
    plane, row_plane = _strip_plane(width), canvas_plane(canvas.width)
    stride = _row_stride(source.width)
    taps = _aligned(scratch.memory)
    block = taps + _taps_bytes(source.width)
    stage = block + BLOCK * stride
    strip = stage + staged_rows * stride
    band = strip + 12 * plane + 64
    waiting = np.intp(0)
    block_rows, lines = scratch.addresses[:BLOCK], scratch.addresses[BLOCK : 2 * BLOCK]
    staged = scratch.addresses[2 * BLOCK :]
    for i in range(BLOCK):
        block_rows[i] = np.uint64(block + i * stride)
    step = 4 if staged_rows else source.step
    count = max(np.intp(VECTOR), np.intp(4 * source.width)) if staged_rows else row_bytes(source)
    ready = np.intp(-1)  # source rows below are staged
    base = -BLOCK  # first output row of the block
    for y in range(start, stop):
        v = y - canvas.top
        row = band + waiting * 3 * row_plane
        if 0 <= v < height:
            if base < 0 or v >= base + BLOCK:
                base = v
                end = min(base + BLOCK, height)
                if staged_rows:
                    ready = _stage_ring(source, vertical, base, end, ready, stage, stride, staged_rows, staged)
                for i in range(base, end):
                    rows = staged if staged_rows else source.rows
                    vertical_pass_on_source(dot, rows, last, vertical, i, count, block + (i - base) * stride)
                gather_taps(block_rows, 0, end - base - 1, source.width, step, lines, taps)
                horizontal_pass(dot, taps, horizontal, strip, plane, block_rows, np.intp(0))
            group = strip + ((v - base) >> 2) * 3 * plane
            _fill(row, row_plane, 0, canvas.left, canvas)
            unpack_strip_row(group, plane, (v - base) & 3, width, row + canvas.left, row_plane)
            _fill(row, row_plane, canvas.left + width, canvas.width, canvas)
        else:
            _fill(row, row_plane, 0, canvas.width, canvas)
        waiting = _emit_full_band(emitter, band, waiting + 1, out, y, stop)


@helper
def _stage_ring(source, vertical, base, end, ready, stage, stride, slots, staged):
    """Stage the source rows that output rows ``base .. end`` read, in a ring of ``slots``; return the end of them."""
    bottom = min((vertical.groups[end - 1, 0] + vertical.groups[end - 1, 1]) * 4, source.rows.shape[0])
    for y in range(max(ready, np.intp(vertical.groups[base, 0]) * 4), bottom):
        out = stage + (y % slots) * stride
        stage_row(source, y, out)
        staged[y] = np.uint64(out)
    return np.intp(bottom)


@kernel
def resample_linear(source, across, down, canvas, emitter, scratch, out, start, stop):
    """Resize with two taps an axis, and write the canvas rows ``start .. stop``.

    Parameters
    ----------
    source : Source
    across, down : Taps
        Of the output columns and rows inside the window: a crop is a slice of them.
    canvas, emitter, out, start, stop
        As for `resample_horizontal_first`.
    scratch : Scratch
        At least `linear_scratch` bytes.
    """
    width, height = across.first.shape[0], down.first.shape[0]
    row_plane = canvas_plane(canvas.width)
    stage = _aligned(scratch.memory)
    upper = stage + _row_stride(source.width)
    lower = upper + _pairs_bytes(width)
    room = lower + _pairs_bytes(width)
    band = room + LANES * 4
    interleaved = is_interleaved(source)
    step = source.step if interleaved else 4
    whole = whole_pairs(across, source.width, step)
    above = below = np.int32(-1)  # source rows whose pairs are there
    waiting = np.intp(0)
    for y in range(start, stop):
        v = y - canvas.top
        row = band + waiting * 3 * row_plane
        if 0 <= v < height:
            if down.first[v] == below:
                upper, lower, above, below = lower, upper, below, above
            if down.first[v] != above:
                above = down.first[v]
                gather_pairs(row_address(source, interleaved, above, stage), step, across, whole, upper)
            if down.second[v] != below:
                below = down.second[v]
                gather_pairs(row_address(source, interleaved, below, stage), step, across, whole, lower)
            top, bottom = down.weights[0, v], down.weights[1, v]
            _fill(row, row_plane, 0, canvas.left, canvas)
            blend_rows(upper, lower, across, top, bottom, row + canvas.left, row_plane, room)
            _fill(row, row_plane, canvas.left + width, canvas.width, canvas)
        else:
            _fill(row, row_plane, 0, canvas.width, canvas)
        waiting = _emit_full_band(emitter, band, waiting + 1, out, y, stop)


@kernel
def place(source, canvas, emitter, scratch, out, start, stop):
    """Write the canvas rows ``start .. stop`` of an image that is not resized.

    Parameters
    ----------
    source : Source
        The window that is kept: a crop is a slice of its rows and an offset of their addresses.
    canvas, emitter, out, start, stop
        As for `resample_horizontal_first`.
    scratch : Scratch
        At least `place_scratch` bytes.
    """
    height = source.rows.shape[0]
    row_plane = canvas_plane(canvas.width)
    stage = _aligned(scratch.memory)
    band = stage + _row_stride(source.width)
    interleaved = is_interleaved(source)
    step = source.step if interleaved else 4
    waiting = np.intp(0)
    for y in range(start, stop):
        v = y - canvas.top
        row = band + waiting * 3 * row_plane
        if 0 <= v < height:
            _fill(row, row_plane, 0, canvas.left, canvas)
            deinterleave(row_address(source, interleaved, v, stage), source.width, step, row + canvas.left, row_plane)
            _fill(row, row_plane, canvas.left + source.width, canvas.width, canvas)
        else:
            _fill(row, row_plane, 0, canvas.width, canvas)
        waiting = _emit_full_band(emitter, band, waiting + 1, out, y, stop)
