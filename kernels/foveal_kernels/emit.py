"""Canvas rows -> normalized values in any layout and dtype.

Every layout is separable: the place of (channel, row, column) is ``A[channel] + R[row] + C[column]``, where ``C``
comes in runs (a patch, a tile or a whole row wide). Patches in merge blocks, tiles, padded canvases and planar images
differ in three small tables and a run length, so one function writes them all, and no other kernel knows a layout.

Rows of a patch, and patches of a merge block, follow one another in the output. They are therefore emitted together,
one after the other and one copy after the other, so that memory is written from front to back. Measured on Zen 4:
144 MB take 5.3 ms as one stream of stores and 17.5 ms as two that alternate; a 12 MP image as patches of 14 in blocks
of 2x2 takes 31 ms in memory order and 40 ms one row of patches after the other.

The function is compiled once for each (form, dtype) and called through its C address: kernels that resample then need
no variant of their own for each, so the number of compiled kernels is a sum and not a product.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.core.extending import overload

from .compile import OPTIONS, callback, helper
from .simd import (
    f32_pair_to_bf16,
    f32_to_bf16,
    fused_multiply_add,
    load_u8,
    load_u8x16,
    load_u16,
    load_u32,
    load_word,
    multiply_f32,
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
FLOAT32, BFLOAT16, UINT8 = range(3)

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
"""Columns of a run from which bfloat16 is written as pairs: 17 % faster for planar images, slower for patches of 14."""

Emit = static("Emit", "form", "dtype")

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
        Byte offset of each channel, ``A``.
    copies, gap : int
        How often a value is written, and the bytes between.
    constants : float32[3, 4]
        Of the arithmetic form, see above.
    values : dtype[3, 256]
        The value of every byte of every channel.

    Returns
    -------
    int64[12]
    """
    tables = [array.ctypes.data for array in (columns, channels)]
    numbers = [plane, side, step, run, len(columns), group, *tables, copies, gap]
    return np.array([*numbers, constants.ctypes.data, values.ctypes.data], np.int64)


def band_bytes(plane, band, side):
    """Return the bytes of a band of canvas rows, and of the room behind it where a patch is put together."""
    return 3 * plane * band + 3 * side * side + 64


class Constants(NamedTuple):
    """Of one channel, each in every lane of a vector: a, r, s and k as above, 1 / 255 in two parts."""

    a: Any
    r: Any
    s: Any
    k: Any
    unit: Any
    rest: Any


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
    return lambda emit, x, constants: _value(emit, x, constants)


@helper
def _item_bytes(emit):
    if emit.dtype == FLOAT32:
        return 4
    return 2 if emit.dtype == BFLOAT16 else 1


# ---- one run


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
def _emit_run(emit, row, count, out, constants):
    """At least 16 columns; the last vector overlaps the one before, so that nothing outside the run is written.

    The first one does too where the run starts in the middle of a vector's length: a store across two cache lines
    takes several times as long as one inside a line.
    """
    item = _item_bytes(emit)
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
def _look_up_run(emit, row, count, out, values):
    """Any number of columns, from the table."""
    for x in range(count):
        byte = np.intp(load_u8(row + x))
        at = out + x * _item_bytes(emit)
        if emit.dtype == FLOAT32:
            store_u32(at, load_u32(values + 4 * byte))
        elif emit.dtype == BFLOAT16:
            store_u16(at, load_u16(values + 2 * byte))
        else:
            store_u8(at, load_u8(values + byte))


@helper
def _join_rows(data, plane, run, count, out):
    """Put the runs of ``count`` rows one after another, for each channel; up to 15 bytes behind are written too."""
    for channel in range(3):
        row = data + channel * plane
        for _ in range(count):
            for x in range(0, run, 16):
                store(out + x, load_u8x16(row + x))
            row += 3 * plane
            out += run


# ---- rows


@helper
def _constants_of(address):
    a, r = _spread(address), _spread(address + 4)
    s, k = _spread(address + 8), _spread(address + 12)
    return Constants(a, r, s, k, spread_f32x16(UNIT), spread_f32x16(REST))


@helper
def _spread(address):
    return spread_f32x16(np.uint32(load_u32(address)).view(np.float32))


@helper
def _emit_block(emit, layout, data, pitch, count, out):
    """Write ``count`` columns of each channel, ``pitch`` bytes apart, and their copies."""
    channels, gap = load_word(layout + 8 * CHANNELS), load_word(layout + 8 * GAP)
    constants, values = load_word(layout + 8 * CONSTANTS), load_word(layout + 8 * VALUES)
    for channel in range(3):
        at = out + load_word(channels + 8 * channel)
        for _ in range(load_word(layout + 8 * COPIES)):
            if emit.form == TABLE or count < 16:
                _look_up_run(emit, data, count, at, values + channel * 256 * _item_bytes(emit))
            else:
                _emit_run(emit, data, count, at, _constants_of(constants + 16 * channel))
            at += gap
        data += pitch


@helper
def emit_rows(emit, layout, canvas, out, count):
    """Write canvas rows.

    Parameters
    ----------
    emit : Emit
    layout : intp
        Address of the words of `layout_words`.
    canvas : intp
        Address of the first canvas row, uint8[count][3][plane], and, behind the rows of a whole band, of the room for
        a patch; see `band_bytes`.
    out : intp
        Address of channel 0, column 0 of the first row: base + R[row].
    count : intp
        Rows: from the first of a band on, or rows of one patch.
    """
    plane, side, step = load_word(layout + 8 * PLANE), load_word(layout + 8 * SIDE), load_word(layout + 8 * STEP)
    run, runs, group = load_word(layout + 8 * RUN), load_word(layout + 8 * RUNS), load_word(layout + 8 * GROUP)
    columns = load_word(layout + 8 * COLUMNS)
    patch = canvas + 3 * plane * side * group
    for first in range(0, runs, group):
        for y in range(0, count, side):
            rows = min(side, count - y)
            for i in range(first, first + group):
                data = canvas + 3 * plane * y + i * run
                start = out + y // side * step + load_word(columns + 8 * i)
                if rows > 1:
                    _join_rows(data, plane, run, rows, patch)
                    _emit_block(emit, layout, patch, run * rows, run * rows, start)
                else:
                    _emit_block(emit, layout, data, plane, run, start)


EMIT_SIGNATURE = types.void(types.intp, types.intp, types.intp, types.intp)


def compile_emit(form, dtype):
    """Compile `emit_rows` for a form and dtype.

    Returns
    -------
    CFunc
        C function ``void (layout, canvas, out, count)``; keep it as long as its ``address`` is used.
    """
    emit = Emit(form=form, dtype=dtype)

    def emit_rows_at(layout, canvas, out, count):
        emit_rows(emit, layout, canvas, out, count)

    return callback(EMIT_SIGNATURE, emit_rows_at)
