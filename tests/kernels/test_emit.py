"""Every layout, dtype, arithmetic form and run length against the plain twin, bit for bit."""

import ctypes
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import msgspec
import naive
import numpy as np
import pytest
from fences import POISON, fenced
from hypothesis import given, settings
from hypothesis import strategies as st
from views import CLIP, pixels_of, run, view_of

from foveal.plan.plan import Normalization, Pack
from foveal.run import execute
from foveal.run.tables import Arithmetic, arithmetic, computed, values_of
from foveal.types import DTYPES, Size
from foveal_kernels import emit
from foveal_kernels.view import canvas_plane

HALF = Normalization(True, 1 / 255, True, (0.5,) * 3, (0.5,) * 3)
LLAMA4 = Normalization(True, 1 / 255, True, (0.5,) * 3, (0.5,) * 3, "bfloat16")
RESCALED = Normalization(True, 1 / 255, False, (0.0,) * 3, (1.0,) * 3)
NORMALIZED = Normalization(False, 1 / 255, True, (123.0, 117.5, 104.25), (58.5, 57.25, 57.0))
ODD = Normalization(True, 1 / 127.5, True, (1.0, 0.9, 0.7), (0.3, 0.21, 1.7))
NORMALIZATIONS = {
    "clip": CLIP,
    "half": HALF,
    "llama4": LLAMA4,
    "rescaled": RESCALED,
    "normalized": NORMALIZED,
    "odd": ODD,
}
FORMS = {
    emit.MULTIPLY_ADD: (RESCALED, "torchvision"),
    emit.SUBTRACT_DIVIDE: (CLIP, "torchvision"),
    emit.SCALE_SUBTRACT_DIVIDE: (CLIP, "pillow"),
    emit.BFLOAT16_STEPS: (LLAMA4, "torchvision"),
    emit.TABLE: (ODD, "pillow"),
}
"""What is computed in each form in float32, of three channels that differ where the form allows it."""


def merged(side, merge, temporal):
    return Pack("merge_patches", side, merge, temporal), lambda x: naive.merge_patches(x, side, merge, temporal)


def last(side):
    return Pack("channels_last_patches", side), lambda x: naive.channels_last_patches(x, side)


LAYOUTS = {
    "planar": (Pack("planar"), naive.planar),
    "pixels": (Pack("pixels"), naive.pixels),
    "tiles": (Pack("tiles", 24), lambda x: naive.tiles(x, 24)),
    "patches of 16": (Pack("patches", 16), lambda x: naive.patches(x, 16)),
    "patches of 8": (Pack("patches", 8), lambda x: naive.patches(x, 8)),
    "merge blocks of 14": merged(14, 2, 2),
    "merge blocks of 16": merged(16, 2, 2),
    "blocks of 3, one copy": merged(16, 3, 1),
    "patches of 5, three copies": merged(5, 1, 3),
    "patches of 28": merged(28, 1, 1),
    "channels last, 16": last(16),
    "channels last, 14": last(14),
    "channels last, 3": last(3),
    "channels last, 9": last(9),
    "channels last, 30": last(30),
    "channels last, 70": last(70),
}
DTYPE_NAMES = ["float32", "bfloat16", "float16", "uint8"]


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8).ravel()


def image_of(*size):
    return np.random.default_rng(sum(size)).integers(0, 256, (*size, 3), dtype=np.uint8)


def size_of(pack, down=2, across=3):
    block = max(pack.block * pack.merge, 1)
    return (block * down, block * across) if block > 1 else (37, 53)


def emitted(pack, image, normalization, reference, dtype, at_end=True, offset=0):
    """Emit an image band by band, as kernels that resample do, between pages that cannot be touched."""
    height, width, _ = image.shape
    view = msgspec.structs.replace(view_of((height, width), pack=pack, window=(0, 0, height, width)), offset=offset)
    emitter = execute.prepare(view, reference, normalization, dtype).emitter
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 4)(emitter.address)
    plane, (high, wide) = canvas_plane(width), pack.allotted or (height, width)
    band = fenced(emit.band_bytes(plane, emitter.band), at_end)
    out = fenced((offset + 3 * high * wide * pack.temporal) * DTYPES[dtype].itemsize, at_end)
    for y in range(0, height, emitter.band):
        rows = image[y : y + emitter.band].transpose(0, 2, 1)
        band.reshape(emitter.band, 3, plane)[:, :, :width] = rows
        function(emitter.words.ctypes.data, band.ctypes.data, out.ctypes.data + int(emitter.rows[y]), emitter.band)
    before, values = np.split(out.view(DTYPES[dtype]), [offset])
    assert (bits(before) == POISON).all()
    return values


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_layouts(level, layout, dtype, form):
    (pack, twin), (normalization, reference) = LAYOUTS[layout], FORMS[form]
    image = image_of(*size_of(pack))
    chosen = arithmetic(normalization, reference, dtype)
    assert dtype != "float32" or chosen.form == form
    want = twin(naive.look_up(image, chosen.values))
    for at_end in (False, True):
        got = emitted(pack, image, normalization, reference, dtype, at_end)
        np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_one_patch(layout, dtype):
    pack, twin = LAYOUTS[layout]
    image = image_of(*size_of(pack, 1, 1)) if pack.block else image_of(1, 1)
    values = arithmetic(CLIP, "pillow", dtype).values
    got = emitted(pack, image, CLIP, "pillow", dtype)
    np.testing.assert_array_equal(bits(got), bits(twin(naive.look_up(image, values))))


@given(
    name=st.sampled_from(list(LAYOUTS)),
    dtype=st.sampled_from(DTYPE_NAMES),
    cuts=st.tuples(st.integers(0, 150), st.integers(0, 150)),
)
@settings(max_examples=150, deadline=None)
def test_only_the_elements_of_the_rows_are_written(name, dtype, cuts):
    """Rows from anywhere inside a patch to anywhere inside another."""
    pack, twin = LAYOUTS[name]
    image = image_of(*size_of(pack))
    height, width, _ = image.shape
    start, stop = sorted(min(cut, height) for cut in cuts)
    got = run(view_of((height, width), pack=pack), pixels_of(image), dtype=dtype, bands=[(start, stop)])
    whole = twin(naive.look_up(image, arithmetic(CLIP, "pillow", dtype).values))
    rows = twin(np.broadcast_to(np.arange(height)[:, None], (3, height, width)))
    poison = np.full(1, POISON, np.uint8).repeat(whole.dtype.itemsize).view(whole.dtype)
    np.testing.assert_array_equal(bits(got), bits(np.where((start <= rows) & (rows < stop), whole, poison)))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("size", [(5, 40), (7, 9), (1, 1)])
def test_the_corner_of_a_larger_array(dtype, size):
    """Of which nothing else is written."""
    image, allotted = image_of(*size), Size(9, 43)
    values = arithmetic(CLIP, "pillow", dtype).values
    got = emitted(Pack("planar", allotted=allotted), image, CLIP, "pillow", dtype)
    around = np.full(1, POISON, np.uint8).repeat(values.dtype.itemsize).view(values.dtype)
    np.testing.assert_array_equal(bits(got), bits(naive.allotted(naive.look_up(image, values), allotted, around)))


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("reference", ["pillow", "torchvision"])
@pytest.mark.parametrize("kind", ["planar", "pixels"])
def test_every_byte_of_every_channel(name, dtype, reference, kind):
    """The kernel's arithmetic and its table path (a run of 4) give the reference's bits for all 768 values."""
    image = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2)
    want = naive.look_up(image, values_of(NORMALIZATIONS[name], reference).astype(DTYPES[dtype]))
    options = {"normalization": NORMALIZATIONS[name], "dtype": dtype, "reference": reference}
    parts = [image[:, x : x + 4] for x in range(0, 256, 4)]
    got = run(view_of((1, 256), pack=Pack(kind)), pixels_of(image), **options)
    narrow = np.concatenate([run(view_of((1, 4), pack=Pack(kind)), pixels_of(part), **options) for part in parts])
    if kind == "pixels":
        want = naive.pixels(want)
        np.testing.assert_array_equal(bits(narrow), bits(want))
    else:
        np.testing.assert_array_equal(bits(narrow), bits(want.reshape(3, 64, 4).transpose(1, 0, 2)))
    np.testing.assert_array_equal(bits(got), bits(want))


@given(st.integers(1, 200), st.sampled_from(DTYPE_NAMES), st.sampled_from(["planar", "pixels"]), st.integers(0, 64))
@settings(max_examples=150, deadline=None)
def test_any_run_length_at_any_address(width, dtype, kind, offset):
    image = image_of(3, width)
    got = emitted(Pack(kind), image, CLIP, "pillow", dtype, offset=offset)
    twin = naive.pixels if kind == "pixels" else naive.planar
    np.testing.assert_array_equal(bits(got), bits(twin(naive.look_up(image, arithmetic(CLIP, "pillow", dtype).values))))


@given(
    st.tuples(*[st.floats(0.01, 0.99)] * 3),
    st.tuples(*[st.floats(0.01, 3.0)] * 3),
    st.sampled_from([1 / 255, 1 / 127.5, 1.0, 0.0123]),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(["pillow", "torchvision"]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
)
@settings(max_examples=60, deadline=None)
def test_any_mean_and_std(mean, std, factor, switches, reference, dtype):
    normalization = Normalization(switches[0], factor, switches[1], mean, std)
    image = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2)
    got = run(view_of((1, 256)), pixels_of(image), normalization=normalization, dtype=dtype, reference=reference)
    want = naive.look_up(image, values_of(normalization, reference).astype(DTYPES[dtype]))
    np.testing.assert_array_equal(bits(got), bits(want))


TINY, TIE = 2.0**-24, 2.0**-11
STEPS = {
    "subnormal": (0.0, TINY / 3),
    "ties of subnormal values": (0.0, TINY / 2),
    "below half of the smallest": (TINY / 4, TINY / 1024),
    "the smallest normal value": (2.0**-14 - 128 * TINY / 4, TINY / 4),
    "ties": (1.0, TIE),
    "ties above and below 0": (-0.0625, TIE),
    "odd steps": (-3.0, 6 / 255),
    "the largest value": (65504.0 - 512, 4.0),
    "beyond the largest value": (-60000.0, 800.0),
    "infinity": (1e38, 1e38),
    "minus infinity": (-1e38, -1e38),
    "not a number": (0.0, np.nan),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("interleaved", [False, True])
def test_float16_is_rounded_to_the_nearest_even(level, name, interleaved):
    start, step = STEPS[name]
    constants = np.array([(start, step, 0, 0), (-start, -step, 0, 0), (start + step / 7, step, 0, 0)], np.float32)
    chosen = Arithmetic(emit.MULTIPLY_ADD, emit.FLOAT16, constants, np.zeros((3, 256), np.float16))
    x = np.tile(np.arange(256), (3, 1)).astype(np.float64)
    with np.errstate(all="ignore"):
        want = (x * constants[:, 1:2] + constants[:, 0:1]).astype(np.float32).astype(np.float16)
        got = computed(chosen, interleaved)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(
    ("normalization", "reference", "dtype", "form"),
    [
        (CLIP, "torchvision", "float32", emit.SUBTRACT_DIVIDE),
        (CLIP, "pillow", "float32", emit.SCALE_SUBTRACT_DIVIDE),
        (CLIP, "torchvision", "bfloat16", emit.MULTIPLY_ADD),
        (CLIP, "pillow", "bfloat16", emit.MULTIPLY_ADD),
        (CLIP, "torchvision", "float16", emit.MULTIPLY_ADD),
        (CLIP, "pillow", "float16", emit.MULTIPLY_ADD),
        (HALF, "torchvision", "float32", emit.SUBTRACT_DIVIDE),
        (LLAMA4, "torchvision", "bfloat16", emit.BFLOAT16_STEPS),
        (RESCALED, "torchvision", "float32", emit.MULTIPLY_ADD),
        (RESCALED, "pillow", "float32", emit.SUBTRACT_DIVIDE),
        (RESCALED, "torchvision", "float16", emit.MULTIPLY_ADD),
        (RESCALED, "pillow", "bfloat16", emit.MULTIPLY_ADD),
        (CLIP, "torchvision", "uint8", emit.COPY),
    ],
)
@pytest.mark.parametrize("interleaved", [False, True])
def test_models_do_not_fall_back_to_the_table(normalization, reference, dtype, form, interleaved):
    """The table is right but 1.5 to 4 times slower."""
    assert arithmetic(normalization, reference, dtype, interleaved).form == form


def test_values_follow_the_reference_formulas():
    x = np.arange(256)
    mean, std = (np.array(value, np.float32)[:, None] for value in (CLIP.mean, CLIP.std))
    pillow = ((x.astype(np.float64) * (1 / 255)).astype(np.float32) - mean) / std
    np.testing.assert_array_equal(values_of(CLIP, "pillow"), pillow)
    np.testing.assert_array_equal(values_of(CLIP, "pillow<13"), pillow)
    torchvision = (x.astype(np.float32) - mean * np.float32(255)) / (std * np.float32(255))
    np.testing.assert_array_equal(values_of(CLIP, "torchvision"), torchvision)
    assert (values_of(CLIP, "pillow") != values_of(CLIP, "torchvision")).any()
    assert values_of(LLAMA4, "torchvision").dtype == ml_dtypes.bfloat16


PROGRAM = """
import json, sys
import test_emit
from foveal_kernels.compile import compiled
digests = [test_emit.digest(*case) for case in test_emit.CASES]
print(json.dumps([digests, len(compiled())]))
"""
CASES = [(layout, dtype) for layout in ("merge blocks of 14", "channels last, 14") for dtype in DTYPE_NAMES]


def digest(layout, dtype):
    """What a kernel makes of a random image."""
    pack, _ = LAYOUTS[layout]
    return hashlib.sha256(bits(emitted(pack, image_of(*size_of(pack)), CLIP, "pillow", dtype))).hexdigest()


def test_kernels_read_from_disk_are_those_that_were_compiled(tmp_path):
    """LLVM optimizes what is kept once more than what runs in the process that compiles it."""
    path = os.pathsep.join([*map(str, (Path(__file__).parent, Path(naive.__file__).parent))])
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    want = [digest(*case) for case in CASES]
    for first in (True, False):
        command = [sys.executable, "-c", PROGRAM]
        output = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
        digests, compiled = json.loads(output)
        assert digests == want
        assert bool(compiled) == first
