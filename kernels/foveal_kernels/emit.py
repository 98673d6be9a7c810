"""Canvas row -> normalized values in any layout and dtype.

Every layout is separable: the place of (channel, row, column) is ``A[channel] + R[row] + C[column]``, where ``C``
comes in runs (a patch, a tile or a whole row wide). Patches in merge blocks, tiles, padded canvases and planar images
differ in three small tables and a run length, so one function writes them all, and no other kernel knows a layout.

The function is compiled once for each (form, dtype, copies) and called through its C address: kernels that resample
then need no variant of their own for each, so the number of compiled kernels is a sum and not a product.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.core.extending import overload

from .compile import OPTIONS, callback, helper
from .simd import (
    f32_to_bf16,
    fused_multiply_add,
    load_u8,
    load_u8x8,
    load_u8x16,
    load_u16,
    load_u32,
    load_word,
    multiply_f32,
    prefetch_for_write,
    round_to_bf16,
    spread_f32x8,
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
ITEM_BYTES = (4, 2, 1)

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

Emit = static("Emit", "form", "dtype", "copies")

# Words of a layout, read by `emit_row`: see `layout_words`.
PLANE, RUN, RUNS, COLUMNS, CHANNELS, GAP, CONSTANTS, VALUES = range(8)


def layout_words(plane, run, columns, channels, gap, constants, values):
    """Return the tables of a layout as machine words; whoever keeps the words must keep the arrays too.

    Parameters
    ----------
    plane : int
        Bytes from a channel of the canvas row to the next.
    run : int
        Columns in a run.
    columns : int64[runs]
        Byte offset of the first column of each run, ``C``.
    channels : int64[3]
        Byte offset of each channel, ``A``.
    gap : int
        Bytes between the copies of a value.
    constants : float32[3, 4]
        Of the arithmetic form, see above.
    values : dtype[3, 256]
        The value of every byte of every channel.

    Returns
    -------
    int64[8]
    """
    arrays = (columns, channels, constants, values)
    addresses = [array.ctypes.data for array in arrays]
    return np.array([plane, run, len(columns), *addresses[:2], gap, *addresses[2:]], np.int64)


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
def _put(emit, out, gap, ahead, value):
    """Write a vector, and its copies; ask for the same place of the next row where copies make stores the bottleneck.

    Measured: 6 to 9 % faster for patches with two copies; 0 to 4 % slower for planar images and tiles.
    """
    for copy in range(emit.copies):
        if emit.copies > 1:
            prefetch_for_write(out + copy * gap + ahead)
        store(out + copy * gap, value)


@helper
def _run_of_16(emit, row, count, out, gap, ahead, constants):
    """At least 16 columns; the last vector overlaps the one before, so that nothing outside the run is written."""
    item = _item_bytes(emit)
    x = np.intp(0)
    while x + 64 <= count:
        _put(emit, out + x * item, gap, ahead, _as_dtype(emit, load_u8x16(row + x), constants))
        _put(emit, out + (x + 16) * item, gap, ahead, _as_dtype(emit, load_u8x16(row + x + 16), constants))
        _put(emit, out + (x + 32) * item, gap, ahead, _as_dtype(emit, load_u8x16(row + x + 32), constants))
        _put(emit, out + (x + 48) * item, gap, ahead, _as_dtype(emit, load_u8x16(row + x + 48), constants))
        x += 64
    while x < count:
        x = min(x, count - 16)
        _put(emit, out + x * item, gap, ahead, _as_dtype(emit, load_u8x16(row + x), constants))
        x += 16


@helper
def _run_of_8(emit, row, count, out, gap, ahead, constants):
    """8 to 16 columns as two overlapping vectors: a patch of 14."""
    for x in (np.intp(0), count - 8):
        _put(emit, out + x * _item_bytes(emit), gap, ahead, _as_dtype(emit, load_u8x8(row + x), constants))


@helper
def _run_of_any(emit, row, count, out, gap, values):
    """Any number of columns, from the table."""
    for x in range(count):
        byte = np.intp(load_u8(row + x))
        for copy in range(emit.copies):
            at = out + copy * gap + x * _item_bytes(emit)
            if emit.dtype == FLOAT32:
                store_u32(at, load_u32(values + 4 * byte))
            elif emit.dtype == BFLOAT16:
                store_u16(at, load_u16(values + 2 * byte))
            else:
                store_u8(at, load_u8(values + byte))


# ---- one row


@helper
def _constant(table, index):
    return np.uint32(load_u32(table + 4 * index)).view(np.float32)


@helper
def _constants_16(table):
    a, r = spread_f32x16(_constant(table, 0)), spread_f32x16(_constant(table, 1))
    s, k = spread_f32x16(_constant(table, 2)), spread_f32x16(_constant(table, 3))
    return Constants(a, r, s, k, spread_f32x16(UNIT), spread_f32x16(REST))


@helper
def _constants_8(table):
    a, r = spread_f32x8(_constant(table, 0)), spread_f32x8(_constant(table, 1))
    s, k = spread_f32x8(_constant(table, 2)), spread_f32x8(_constant(table, 3))
    return Constants(a, r, s, k, spread_f32x8(UNIT), spread_f32x8(REST))


@helper
def emit_row(emit, layout, row, out, ahead):
    """Write one canvas row.

    Parameters
    ----------
    emit : Emit
    layout : intp
        Address of the words of `layout_words`.
    row : intp
        Address of the canvas row, uint8[3][plane].
    out : intp
        Address of channel 0, column 0 of this row: base + R[row].
    ahead : intp
        Bytes from there to the next row's.
    """
    plane, run, runs = load_word(layout + 8 * PLANE), load_word(layout + 8 * RUN), load_word(layout + 8 * RUNS)
    columns, channels = load_word(layout + 8 * COLUMNS), load_word(layout + 8 * CHANNELS)
    gap, values = load_word(layout + 8 * GAP), load_word(layout + 8 * VALUES)
    for channel in range(3):
        data = row + channel * plane
        start = out + load_word(channels + 8 * channel)
        constants = load_word(layout + 8 * CONSTANTS) + 16 * channel
        if emit.form == TABLE or run < 8:
            table = values + channel * 256 * _item_bytes(emit)
            for i in range(runs):
                _run_of_any(emit, data + i * run, run, start + load_word(columns + 8 * i), gap, table)
        elif run < 16:
            vectors = _constants_8(constants)
            for i in range(runs):
                _run_of_8(emit, data + i * run, run, start + load_word(columns + 8 * i), gap, ahead, vectors)
        else:
            wide = _constants_16(constants)
            for i in range(runs):
                _run_of_16(emit, data + i * run, run, start + load_word(columns + 8 * i), gap, ahead, wide)


EMIT_SIGNATURE = types.void(types.intp, types.intp, types.intp, types.intp)


def compile_emit(form, dtype, copies):
    """Compile `emit_row` for a form, dtype and number of copies.

    Returns
    -------
    CFunc
        C function ``void (layout, row, out, ahead)``; keep it as long as its ``address`` is used.
    """
    emit = Emit(form=form, dtype=dtype, copies=copies)

    def emit_row_at(layout, row, out, ahead):
        emit_row(emit, layout, row, out, ahead)

    return callback(EMIT_SIGNATURE, emit_row_at)
