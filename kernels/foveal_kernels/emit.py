"""Canvas rows -> normalized values in any layout and dtype.

Every layout is separable: the place of (channel, row, column) is ``A[channel] + R[row] + C[column]``, where ``C``
comes in runs (a patch, a tile or a whole row wide). Patches in merge blocks, tiles, padded canvases and planar images
differ in three small tables and a run length, so one function writes them all, and no other kernel knows a layout.

Rows of a patch, and patches of a merge block, follow one another in the output. They are therefore emitted together,
one after the other and one copy after the other, so that memory is written from front to back. Measured on Zen 4:
144 MB take 5.3 ms as one stream of stores and 17.5 ms as two that alternate; 12 MP as patches of 14 in blocks of 2x2,
290 MB, take 12 ms in memory order and 27 ms one row of patches after the other. Rows that are shorter than a vector are
written too long, and what is too much is overwritten by the row that follows. To put the rows together first, so that
all vectors are whole, takes 19 ms, and twice as long without copies: its stores wait in line behind those to memory.

Where the channels of a pixel are neighbours, the layout is interleaved: a run is then three times as many values, all
of them in memory order, with the constants of the channels in turn.

The function is compiled once for each (form, dtype, interleaved) and called through its C address: kernels that
resample then need no variant of their own for each, so the number of compiled kernels is a sum and not a product.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.core.extending import overload

from .compile import OPTIONS, callback, helper
from .simd import (
    U8x16,
    U8x64,
    f32_pair_to_bf16,
    f32_to_bf16,
    f32_to_f16,
    f32_to_f16_portable,
    fused_multiply_add,
    join_lanes,
    load_f32x16,
    load_u8,
    load_u8x16,
    load_u8x64,
    load_u16,
    load_u32,
    load_word,
    multiply_f32,
    pair_shuffler,
    round_to_bf16,
    spread_f32x16,
    store,
    store_u8,
    store_u16,
    store_u32,
    subtract_f32,
    u8_to_f32,
)
from .static import static

# Output dtypes.
FLOAT32, BFLOAT16, UINT8, FLOAT16 = range(4)

# Arithmetic forms. Constants of a channel are (a, r, s, k) in float32; r + s is a divisor's reciprocal in two parts.
COPY = 0
"""The byte itself."""
MULTIPLY_ADD = 1
"""x * r + a, rounded once."""
SUBTRACT_DIVIDE = 2
"""(x - a) * (r + s)."""
SCALE_SUBTRACT_DIVIDE = 3
"""(x / 255 - a) * (r + s)."""
BFLOAT16_STEPS = 4
"""(x * k - a) * (r + s), rounded to bfloat16 after each step."""
TABLE = 5
"""The value is read from a table of 256: for what no arithmetic form reproduces."""

UNIT = np.float32(1 / 255)
REST = np.float32(1 / 255 - float(UNIT))

PAIRED = 224
"""Columns of a run from which bfloat16 is written as pairs: 17 % faster for planar images, slower for runs of 196."""

Emit = static("Emit", "form", "dtype", "interleaved", "f16c")
"""Compile-time constants: `f16c` says whether float16 is converted in hardware."""

# Words of a layout, read by `emit_rows`: see `layout_words`.
PLANE, SIDE, STEP, RUN, RUNS, GROUP, COLUMNS, CHANNELS, COPIES, GAP, CONSTANTS, VALUES = range(12)


def layout_words(plane, side, step, run, group, columns, channels, copies, gap, constants, values):
    """Return the tables of a layout as machine words; whoever keeps the words must keep the arrays too.

    Parameters
    ----------
    plane : int
        Bytes from a channel of a canvas row to the next.
    side : int
        Rows whose runs follow one another in the output: those of a patch, or 1.
    step : int
        Bytes from the rows of one patch to those of the patch below it, inside a band.
    run : int
        Columns in a run.
    group : int
        Neighbouring runs that are emitted before the rows below: those of a merge block, or 1.
    columns : int64[runs]
        Byte offset of the first column of each run, ``C``.
    channels : int64[3]
        Byte offset of each channel, ``A``; not read where the layout is interleaved.
    copies, gap : int
        How often a value is written, and the bytes between; not read where the layout is interleaved.
    constants : float32[3, 4] or float32[4, 18]
        Of the arithmetic form, see above; those of `interleaved_constants` where the layout is interleaved.
    values : dtype[3, 256]
        The value of every byte of every channel.

    Returns
    -------
    int64[12]
    """
    tables = [array.ctypes.data for array in (columns, channels)]
    numbers = [plane, side, step, run, len(columns), group, *tables, copies, gap]
    return np.array([*numbers, constants.ctypes.data, values.ctypes.data], np.int64)


def interleaved_constants(constants):
    """Return float32[3, 4] as float32[4, 18]: each constant of the channels in turn, from which any 16 are a vector."""
    return np.ascontiguousarray(np.tile(constants.T, 6))


def band_bytes(plane, band):
    """Return the bytes of a band of canvas rows; up to 15 bytes of a plane behind the row's width are read."""
    return 3 * plane * band


class Constants(NamedTuple):
    """Of one channel, each in every lane of a vector: a, r, s and k as above, 1 / 255 in two parts."""

    a: Any
    r: Any
    s: Any
    k: Any
    unit: Any
    rest: Any


class Turns(NamedTuple):
    """The constants of three vectors that follow one another, channels in turn."""

    first: Constants
    second: Constants
    third: Constants


@helper
def _divide(x, high, low):
    """Divide by a constant given as its reciprocal in two parts, high + low: correctly rounded but for rare values.

    One operation less than correcting the product with the reciprocal; `foveal.run.tables` accepts a form only where
    all 256 bytes of every channel come out right.
    """
    return fused_multiply_add(x, high, multiply_f32(x, low))


# ---- one vector: bytes -> values, by form


def _value(emit, x, constants):
    """Turn bytes into float32 lanes, in the reference's order of operations."""
    raise NotImplementedError("compiled code only")


@helper
def _multiply_add(x, constants):
    return fused_multiply_add(x, constants.r, constants.a)


@helper
def _subtract_divide(x, constants):
    return _divide(subtract_f32(x, constants.a), constants.r, constants.s)


@helper
def _scale_subtract_divide(x, constants):
    scaled = _divide(x, constants.unit, constants.rest)
    return _divide(subtract_f32(scaled, constants.a), constants.r, constants.s)


@helper
def _bfloat16_steps(x, constants):
    scaled = round_to_bf16(multiply_f32(x, constants.k))
    centered = round_to_bf16(subtract_f32(scaled, constants.a))
    return round_to_bf16(_divide(centered, constants.r, constants.s))


@helper
def _plain(x, constants):
    return x


_FORMS = {
    MULTIPLY_ADD: _multiply_add,
    SUBTRACT_DIVIDE: _subtract_divide,
    SCALE_SUBTRACT_DIVIDE: _scale_subtract_divide,
    BFLOAT16_STEPS: _bfloat16_steps,
}


@overload(_value, jit_options=OPTIONS)
def _compile_value(emit, x, constants):
    chosen = _FORMS.get(emit.form, _plain)
    return lambda emit, x, constants: chosen(u8_to_f32(x), constants)


def _as_dtype(emit, x, constants):
    """Bytes -> lanes of the output dtype."""
    raise NotImplementedError("compiled code only")


@overload(_as_dtype, jit_options=OPTIONS)
def _compile_as_dtype(emit, x, constants):
    if emit.dtype == UINT8:
        return lambda emit, x, constants: x
    if emit.dtype == BFLOAT16:
        return lambda emit, x, constants: f32_to_bf16(_value(emit, x, constants))
    if emit.dtype == FLOAT16:
        chosen = f32_to_f16 if emit.f16c else f32_to_f16_portable
        return lambda emit, x, constants: chosen(_value(emit, x, constants))
    return lambda emit, x, constants: _value(emit, x, constants)


@helper
def _item_bytes(emit):
    if emit.dtype == FLOAT32:
        return 4
    return 1 if emit.dtype == UINT8 else 2


# ---- constants


@helper
def _spread(address):
    return spread_f32x16(np.uint32(load_u32(address)).view(np.float32))


@helper
def _constants_of(address):
    """Read the constants of one channel."""
    a, r = _spread(address), _spread(address + 4)
    s, k = _spread(address + 8), _spread(address + 12)
    return Constants(a, r, s, k, spread_f32x16(UNIT), spread_f32x16(REST))


@helper
def _constants_from(address):
    """Read those of 16 values, channels in turn, from the first value's on."""
    a, r = load_f32x16(address), load_f32x16(address + 72)
    s, k = load_f32x16(address + 144), load_f32x16(address + 216)
    return Constants(a, r, s, k, spread_f32x16(UNIT), spread_f32x16(REST))


@helper
def _turns_of(address):
    """Read those of 16 pixels: after 16 values the channels have moved on by one."""
    return Turns(_constants_from(address), _constants_from(address + 4), _constants_from(address + 8))


# ---- one run of one channel


@helper
def _put(emit, row, x, out, constants):
    """Write 16 columns."""
    store(out + x * _item_bytes(emit), _as_dtype(emit, load_u8x16(row + x), constants))


@helper
def _put_pair(emit, row, x, out, constants):
    """Write 32 columns as bfloat16 with one store."""
    first, second = _value(emit, load_u8x16(row + x), constants), _value(emit, load_u8x16(row + x + 16), constants)
    store(out + 2 * x, f32_pair_to_bf16(first, second))


@helper
def _emit_run(emit, row, count, out, address):
    """At least 16 columns; the last vector overlaps the one before, so that nothing outside the run is written.

    The first one does too where the run starts in the middle of a vector's length: a store across two cache lines
    takes several times as long as one inside a line.
    """
    item, constants = _item_bytes(emit), _constants_of(address)
    x = np.intp(-out & (16 * item - 1)) // item
    if x:
        _put(emit, row, np.intp(0), out, constants)
    if emit.dtype == BFLOAT16 and count >= PAIRED:
        if (out + 2 * x) & 32:
            _put(emit, row, x, out, constants)
            x += 16
        while x + 32 <= count:
            _put_pair(emit, row, x, out, constants)
            x += 32
    while x + 64 <= count:
        _put(emit, row, x, out, constants)
        _put(emit, row, x + 16, out, constants)
        _put(emit, row, x + 32, out, constants)
        _put(emit, row, x + 48, out, constants)
        x += 64
    while x < count:
        x = min(x, count - 16)
        _put(emit, row, x, out, constants)
        x += 16


@helper
def _end_of_rows(row, pitch, run):
    """Read the last 16 columns of two rows that follow one another in the output, ``run`` columns each, 8 to 16."""
    return join_lanes(load_u8x16(row - pitch + 2 * run - 16), load_u8x16(row + run - 16), 16 - run)


@helper
def _emit_short_rows(emit, row, pitch, run, rows, out, address):
    """Two or more rows of 8 to 16 columns, ``pitch`` bytes apart, that follow one another in the output.

    One vector each; what is behind a row's end is overwritten by the row below, and the last vector ends with its row.
    """
    item, constants = _item_bytes(emit), _constants_of(address)
    for _ in range(rows - 1):
        _put(emit, row, np.intp(0), out, constants)
        row += pitch
        out += run * item
    store(out + (run - 16) * item, _as_dtype(emit, _end_of_rows(row, pitch, run), constants))


@helper
def _look_up(emit, address, out, values):
    """Write the value of one byte, from the table."""
    byte = np.intp(load_u8(address))
    if emit.dtype == FLOAT32:
        store_u32(out, load_u32(values + 4 * byte))
    elif emit.dtype == UINT8:
        store_u8(out, load_u8(values + byte))
    else:
        store_u16(out, load_u16(values + 2 * byte))


@helper
def _look_up_run(emit, row, count, out, values):
    """Any number of columns, from the table."""
    for x in range(count):
        _look_up(emit, row + x, out + x * _item_bytes(emit), values)


# ---- one run of interleaved channels


def _interleaver(vector, part):
    """Two shuffles that interleave channels: red and green, then those and blue; a third of the pixels' bytes."""
    lanes = vector.lanes
    places = [divmod(part * lanes + i, 3) for i in range(lanes)]
    first = pair_shuffler(vector, [pixel + lanes * (channel == 1) for pixel, channel in places])
    return first, pair_shuffler(vector, [lanes + p[0] if p[1] == 2 else i for i, p in enumerate(places)])


_pair_0, _third_0 = _interleaver(U8x16, 0)
_pair_1, _third_1 = _interleaver(U8x16, 1)
_pair_2, _third_2 = _interleaver(U8x16, 2)
_long_pair_0, _long_third_0 = _interleaver(U8x64, 0)
_long_pair_1, _long_third_1 = _interleaver(U8x64, 1)
_long_pair_2, _long_third_2 = _interleaver(U8x64, 2)


@helper
def _store_pixels(emit, red, green, blue, out, turns):
    """Write 16 pixels, 3 vectors."""
    size = 16 * _item_bytes(emit)
    store(out, _as_dtype(emit, _third_0(_pair_0(red, green), blue), turns.first))
    store(out + size, _as_dtype(emit, _third_1(_pair_1(red, green), blue), turns.second))
    store(out + 2 * size, _as_dtype(emit, _third_2(_pair_2(red, green), blue), turns.third))


@helper
def _put_pixels(emit, data, plane, x, out, turns):
    """Write 16 pixels of a row whose channels are ``plane`` bytes apart."""
    red, green, blue = load_u8x16(data + x), load_u8x16(data + plane + x), load_u8x16(data + 2 * plane + x)
    _store_pixels(emit, red, green, blue, out + 3 * x * _item_bytes(emit), turns)


@helper
def _copy_pixels(data, plane, x, out):
    """Write 64 pixels as bytes."""
    red, green, blue = load_u8x64(data + x), load_u8x64(data + plane + x), load_u8x64(data + 2 * plane + x)
    at = out + 3 * x
    store(at, _long_third_0(_long_pair_0(red, green), blue))
    store(at + 64, _long_third_1(_long_pair_1(red, green), blue))
    store(at + 128, _long_third_2(_long_pair_2(red, green), blue))


@helper
def _emit_pixels(emit, data, plane, count, out, address):
    """At least 16 pixels; as in `_emit_run`, the first and the last ones overlap their neighbours.

    Stores are aligned from pixel x on if 3 x elements lead to a multiple of the vector's length. Modulo 16, a product
    with 11 is a division by 3; modulo 64, one with 43.
    """
    item = _item_bytes(emit)
    if emit.dtype == UINT8 and count >= 64:
        x = 43 * np.intp(-out & 63) & 63
        if x:
            _copy_pixels(data, plane, np.intp(0), out)
        while x < count:
            x = min(x, count - 64)
            _copy_pixels(data, plane, x, out)
            x += 64
        return
    turns = _turns_of(address)
    x = 11 * (np.intp(-out & (16 * item - 1)) // item) & 15
    if x:
        _put_pixels(emit, data, plane, np.intp(0), out, turns)
    while x < count:
        x = min(x, count - 16)
        _put_pixels(emit, data, plane, x, out, turns)
        x += 16


@helper
def _emit_short_pixels(emit, data, plane, run, rows, out, address):
    """Two or more rows of a patch, as in `_emit_short_rows`."""
    turns = _turns_of(address)
    step, pitch = 3 * run * _item_bytes(emit), 3 * plane
    for _ in range(rows - 1):
        _put_pixels(emit, data, plane, np.intp(0), out, turns)
        data += pitch
        out += step
    red, green = _end_of_rows(data, pitch, run), _end_of_rows(data + plane, pitch, run)
    blue = _end_of_rows(data + 2 * plane, pitch, run)
    _store_pixels(emit, red, green, blue, out + step - 48 * _item_bytes(emit), turns)


@helper
def _look_up_pixels(emit, data, plane, count, out, values):
    """Any number of pixels, from the table."""
    item = _item_bytes(emit)
    for x in range(count):
        for channel in range(3):
            at = out + (3 * x + channel) * item
            _look_up(emit, data + channel * plane + x, at, values + channel * 256 * item)


# ---- rows


@helper
def _is_looked_up(emit, run, rows):
    """Whether values come from the table because no vector can be written."""
    return emit.form == TABLE or run < 8 or (run < 16 and rows == 1)


def _emit_block(emit, layout, data, plane, run, rows, out):
    """Write ``run`` columns of canvas rows, a patch's or only one, which follow one another in the output."""
    raise NotImplementedError("compiled code only")


@helper
def _emit_planes(emit, layout, data, plane, run, rows, out):
    """Channel after channel, and their copies."""
    channels, gap = load_word(layout + 8 * CHANNELS), load_word(layout + 8 * GAP)
    constants, values = load_word(layout + 8 * CONSTANTS), load_word(layout + 8 * VALUES)
    pitch, step = 3 * plane, run * _item_bytes(emit)
    for channel in range(3):
        at = out + load_word(channels + 8 * channel)
        for _ in range(load_word(layout + 8 * COPIES)):
            if _is_looked_up(emit, run, rows):
                table = values + channel * 256 * _item_bytes(emit)
                for y in range(rows):
                    _look_up_run(emit, data + y * pitch, run, at + y * step, table)
            elif rows > 1 and run <= 16:
                _emit_short_rows(emit, data, pitch, run, rows, at, constants + 16 * channel)
            else:
                for y in range(rows):
                    _emit_run(emit, data + y * pitch, run, at + y * step, constants + 16 * channel)
            at += gap
        data += plane


@helper
def _emit_interleaved(emit, layout, data, plane, run, rows, out):
    """Pixel after pixel."""
    constants, values = load_word(layout + 8 * CONSTANTS), load_word(layout + 8 * VALUES)
    pitch, step = 3 * plane, 3 * run * _item_bytes(emit)
    if _is_looked_up(emit, run, rows):
        for y in range(rows):
            _look_up_pixels(emit, data + y * pitch, plane, run, out + y * step, values)
    elif rows > 1 and run <= 16:
        _emit_short_pixels(emit, data, plane, run, rows, out, constants)
    else:
        for y in range(rows):
            _emit_pixels(emit, data + y * pitch, plane, run, out + y * step, constants)


@overload(_emit_block, jit_options=OPTIONS)
def _compile_emit_block(emit, layout, data, plane, run, rows, out):
    chosen = _emit_interleaved if emit.interleaved else _emit_planes
    return lambda emit, layout, data, plane, run, rows, out: chosen(emit, layout, data, plane, run, rows, out)


@helper
def emit_rows(emit, layout, canvas, out, count):
    """Write canvas rows.

    Parameters
    ----------
    emit : Emit
    layout : intp
        Address of the words of `layout_words`.
    canvas : intp
        Address of the first canvas row, uint8[count][3][plane].
    out : intp
        Address of channel 0, column 0 of the first row: base + R[row].
    count : intp
        Rows: from the first of a band on, or rows of one patch.
    """
    plane, side, step = load_word(layout + 8 * PLANE), load_word(layout + 8 * SIDE), load_word(layout + 8 * STEP)
    run, runs, group = load_word(layout + 8 * RUN), load_word(layout + 8 * RUNS), load_word(layout + 8 * GROUP)
    columns = load_word(layout + 8 * COLUMNS)
    for first in range(0, runs, group):
        for y in range(0, count, side):
            rows = min(side, count - y)
            for i in range(first, first + group):
                data = canvas + 3 * plane * y + i * run
                start = out + y // side * step + load_word(columns + 8 * i)
                _emit_block(emit, layout, data, plane, run, rows, start)


EMIT_SIGNATURE = types.void(types.intp, types.intp, types.intp, types.intp)


def compile_emit(form, dtype, interleaved=False, f16c=False):
    """Compile `emit_rows` for a form, a dtype and a kind of layout.

    Returns
    -------
    CFunc
        C function ``void (layout, canvas, out, count)``; keep it as long as its ``address`` is used.
    """
    emit = Emit(form=form, dtype=dtype, interleaved=interleaved, f16c=f16c)

    def emit_rows_at(layout, canvas, out, count):
        emit_rows(emit, layout, canvas, out, count)

    return callback(EMIT_SIGNATURE, emit_rows_at)
