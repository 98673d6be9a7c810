"""Every layout, dtype, arithmetic form and run length against the plain twin, bit for bit."""

import ml_dtypes
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import CLIP, pixels_of, run, view_of

from foveal.plan.plan import Normalization, Pack
from foveal.run.tables import arithmetic, values_of
from foveal.types import DTYPES
from foveal_kernels import emit

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
LAYOUTS = {
    "planar": (Pack("planar"), naive.planar),
    "tiles": (Pack("tiles", 24), lambda x: naive.tiles(x, 24)),
    "patches": (Pack("patches", 16), lambda x: naive.patches(x, 16)),
    "merge blocks of 14": (Pack("merge_patches", 14, 2, 2), lambda x: naive.merge_patches(x, 14, 2, 2)),
    "merge blocks of 16": (Pack("merge_patches", 16, 2, 2), lambda x: naive.merge_patches(x, 16, 2, 2)),
    "blocks of 3, one copy": (Pack("merge_patches", 16, 3, 1), lambda x: naive.merge_patches(x, 16, 3, 1)),
    "patches of 5, three copies": (Pack("merge_patches", 5, 1, 3), lambda x: naive.merge_patches(x, 5, 1, 3)),
}


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8).ravel()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("reference", ["pillow", "torchvision"])
def test_layouts(layout, dtype, reference):
    pack, twin = LAYOUTS[layout]
    block = max(pack.block * pack.merge, 1)
    size = (2 * block, 3 * block) if block > 1 else (37, 53)
    image = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    got = run(view_of(size, pack=pack), pixels_of(image), reference=reference, dtype=dtype)
    values = arithmetic(CLIP, reference, dtype).values
    want = twin(naive.look_up(image, values))
    np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("reference", ["pillow", "torchvision"])
def test_every_byte_of_every_channel(name, dtype, reference):
    """The kernel's arithmetic and its table path (a run of 7) give the reference's bits for all 768 values."""
    image = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2)
    want = naive.look_up(image, values_of(NORMALIZATIONS[name], reference).astype(DTYPES[dtype]))
    options = {"normalization": NORMALIZATIONS[name], "dtype": dtype, "reference": reference}
    np.testing.assert_array_equal(bits(run(view_of((1, 256)), pixels_of(image), **options)), bits(want))
    narrow = np.concatenate([run(view_of((1, 4)), pixels_of(image[:, x : x + 4]), **options) for x in range(0, 256, 4)])
    want = want.reshape(3, 64, 4).transpose(1, 0, 2)
    np.testing.assert_array_equal(bits(narrow), bits(want))


@given(st.integers(1, 70), st.sampled_from(["float32", "bfloat16", "uint8"]))
@settings(max_examples=80, deadline=None)
def test_any_run_length(width, dtype):
    image = np.random.default_rng(width).integers(0, 256, (3, width, 3), dtype=np.uint8)
    got = run(view_of((3, width)), pixels_of(image), dtype=dtype)
    want = naive.look_up(image, arithmetic(CLIP, "pillow", dtype).values)
    np.testing.assert_array_equal(bits(got), bits(want))


@given(
    st.tuples(*[st.floats(0.01, 0.99)] * 3),
    st.tuples(*[st.floats(0.01, 3.0)] * 3),
    st.sampled_from([1 / 255, 1 / 127.5, 1.0, 0.0123]),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(["pillow", "torchvision"]),
    st.sampled_from(["float32", "bfloat16"]),
)
@settings(max_examples=60, deadline=None)
def test_any_mean_and_std(mean, std, factor, switches, reference, dtype):
    normalization = Normalization(switches[0], factor, switches[1], mean, std)
    image = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2)
    got = run(view_of((1, 256)), pixels_of(image), normalization=normalization, dtype=dtype, reference=reference)
    want = naive.look_up(image, values_of(normalization, reference).astype(DTYPES[dtype]))
    np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize(
    ("normalization", "reference", "dtype", "form"),
    [
        (CLIP, "torchvision", "float32", emit.SUBTRACT_DIVIDE),
        (CLIP, "pillow", "float32", emit.SCALE_SUBTRACT_DIVIDE),
        (CLIP, "torchvision", "bfloat16", emit.MULTIPLY_ADD),
        (CLIP, "pillow", "bfloat16", emit.MULTIPLY_ADD),
        (HALF, "torchvision", "float32", emit.SUBTRACT_DIVIDE),
        (LLAMA4, "torchvision", "bfloat16", emit.BFLOAT16_STEPS),
        (CLIP, "torchvision", "uint8", emit.COPY),
    ],
)
def test_models_do_not_fall_back_to_the_table(normalization, reference, dtype, form):
    """The table is right but 1.5 to 4 times slower."""
    assert arithmetic(normalization, reference, dtype).form == form


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
