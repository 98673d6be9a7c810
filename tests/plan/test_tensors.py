"""Small tensors beside the pixels: every value worked out by hand, of images alone and of batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.plan import make_batch_plan, make_plan
from foveal.plan.tensors import batch_tensors
from foveal.spec import load, names, resolve
from foveal.spec.schema import Value
from foveal.types import DTYPES

unhurried = settings(deadline=None, max_examples=30)


def tensors(name, *images, count=None, hf=True, **overrides):
    """Return the small tensors of images, and their batch."""
    spec = resolve(load(name), overrides=overrides)
    batch = make_batch_plan(spec, [make_plan(spec, *size) for size in images], count)
    return batch_tensors(spec, batch, hf), batch


def check(found, name, expected, dtype="int64"):
    assert found[name].dtype == dtype
    assert found[name].tolist() == expected


def test_every_value_stands_in_a_spec():
    values = {tensor.value for name in names() for tensor in resolve(load(name)).tensors}
    assert values == set(Value.__args__)


# ---- rows of numbers


def test_grids_of_patches():
    found, _ = tensors("qwen2_vl", (56, 84), (28, 56))
    check(found, "image_grid_thw", [[1, 4, 6], [1, 4, 6]])
    found, _ = tensors("kimi_vl", (30, 60))
    check(found, "image_grid_hws", [[4, 6]])
    found, _ = tensors("siglip2", (100, 200), (200, 100))
    check(found, "spatial_shapes", [[11, 22], [22, 11]])


def test_grids_of_tiles():
    found, _ = tensors("llama4", (480, 640), (300, 200))
    check(found, "aspect_ratios", [[2, 2], [1, 1]])
    found, _ = tensors("ovis2", (600, 600))
    check(found, "grids", [[2, 2]])


def test_sizes():
    found, _ = tensors("llava_next", (480, 640), (10, 20))
    check(found, "image_sizes", [[480, 640], [10, 20]])
    found, _ = tensors("pixtral", (160, 321))
    check(found, "image_sizes", [[160, 336]])
    found, _ = tensors("phi4mm", (480, 640))
    check(found, "image_sizes", [[896, 896]])
    found, _ = tensors("phi3_v", (480, 640), num_crops=4)
    check(found, "image_sizes", [[672, 672]])


def test_numbers():
    found, _ = tensors("internvl", (900, 900), (100, 100))
    check(found, "num_patches", [5, 1])
    found, _ = tensors("gemma3", (300, 1000), (300, 300), do_pan_and_scan=True)
    check(found, "num_crops", [3, 0])
    assert "num_patches" not in found
    found, _ = tensors("gemma3", (300, 1000), (300, 300), do_pan_and_scan=True, hf=False)
    check(found, "num_patches", [4, 1])
    found, _ = tensors("gemma4", (500, 500), max_soft_tokens=70)
    check(found, "num_soft_tokens_per_image", [64])
    found, batch = tensors("phi3_v", (480, 640), num_crops=4)
    check(found, "num_img_tokens", [5 * 144 + 1 + 3 * 12])
    assert batch.features == 757


@pytest.mark.parametrize(
    ("count", "images_of_sample"), [(None, [1, 1, 1]), ((2, 1), [2, 1]), ((0, 3), [3])]
)  # fmt: skip
def test_images_of_a_sample(count, images_of_sample):
    found, _ = tensors("llava_onevision", (100, 100), (50, 60), (60, 50), count=count)
    check(found, "batch_num_images", images_of_sample)


# ---- of images in samples


def test_tiles_of_images_in_samples():
    found, batch = tensors("mllama", (560, 560), (560, 1120), (1120, 1120), count=(1, 2))
    assert batch.shape == (2, 2, 4, 3, 560, 560)
    check(found, "num_tiles", [[1, 0], [2, 4]])
    check(found, "aspect_ratio_ids", [[1, 0], [2, 6]])
    check(found, "aspect_ratio_mask", [[[1, 0, 0, 0], [1, 0, 0, 0]], [[1, 1, 0, 0], [1, 1, 1, 1]]])


def test_ids_count_the_grids_by_rows_then_columns():
    grids = [(rows, columns) for rows in range(1, 7) for columns in range(1, 6 // rows + 1)]
    for number, (rows, columns) in enumerate(grids, 1):
        found, batch = tensors(
            "mllama", (rows * 112, columns * 112), size={"height": 112, "width": 112}, max_image_tiles=6
        )
        assert batch.plans[0].grid == (rows, columns)
        check(found, "aspect_ratio_ids", [[number]])


# ---- masks


def test_masks_of_patches_that_are_there():
    found, _ = tensors("siglip2", (100, 100), (100, 200), max_num_patches=10)
    check(found, "pixel_attention_mask", [[1] * 9 + [0], [1] * 8 + [0] * 2], "int32")
    check(found, "spatial_shapes", [[3, 3], [2, 4]])


def test_masks_of_pixels_that_are_there():
    size = {"size": {"longest_edge": 28}, "max_image_size": {"longest_edge": 14}}
    found, batch = tensors("idefics3", (28, 28), (14, 28), (7, 28), count=(2, 1), **size)
    assert [plan.shape[0] for plan in batch.plans] == [5, 3, 3]
    mask = found["pixel_attention_mask"]
    assert mask.shape == (2, 8, 14, 14)
    assert mask.dtype == np.int64
    assert mask.reshape(2, 8, 196).sum(2).tolist() == [[196] * 8, [196] * 3 + [0] * 5]


def test_masks_of_patches_that_hold_the_image():
    """A canvas of 2x2 tiles of 56, each 4x4 patches; the image is 80 high: 32 pixels of padding are 2 rows."""
    found, batch = tensors("phi4mm", (100, 140), (30, 50), size={"height": 56, "width": 56}, dynamic_hd=4)
    first, second = batch.plans
    assert (first.stages[0].canvas, first.stages[0].resized) == ((112, 112), (80, 112))
    assert (second.stages[0].canvas, second.stages[0].resized) == ((56, 56), (33, 56))
    mask = found["image_attention_mask"]
    assert (mask.shape, mask.dtype) == ((2, 5, 4, 4), np.float32)
    half = [[1] * 4, [1] * 4, [0] * 4, [0] * 4]
    whole = [[1] * 4] * 4
    assert mask[0].tolist() == [whole, whole, whole, half, half]
    assert mask[1].tolist() == [whole, [[1] * 4] * 3 + [[0] * 4], whole, whole, whole]  # what is not there is 1


def test_padding_beside_the_image_is_masked_too():
    found, _ = tensors("phi4mm", (112, 60), size={"height": 56, "width": 56}, dynamic_hd=4)
    mask = found["image_attention_mask"][0]
    assert mask[1:].reshape(2, 2, 4, 4).swapaxes(1, 2).reshape(8, 8).tolist() == [[1] * 5 + [0] * 3] * 8


# ---- places and pools


def test_places_of_patches():
    found, batch = tensors("gemma4", (48, 96), max_soft_tokens=70, pooling_kernel_size=1)
    rows, columns = batch.plans[0].grid
    assert (rows, columns) == (5, 11)
    positions = found["image_position_ids"]
    assert positions.shape == (1, 70, 2)
    expected = [[column, row] for row in range(rows) for column in range(columns)]
    assert positions[0].tolist() == expected + [[-1, -1]] * 15


SMALL = {"size": {"height": 6, "width": 6}, "patch_size": 1, "overlap_margins": [1, 1]}


def test_pools_of_one_crop():
    """Crops of 6 patches that share 2: one crop, whose 36 patches come after those of the whole image."""
    found, batch = tensors("molmo2", (6, 6), **SMALL)
    assert batch.plans[0].shape == (2, 36, 3)
    check(found, "image_grids", [[3, 3, 3, 3]])
    check(found, "image_num_crops", [2])
    pools = found["image_token_pooling"]
    assert pools.dtype == np.int32
    whole = [[row * 6 + column + place for place in (0, 1, 6, 7)] for row in (0, 2, 4) for column in (0, 2, 4)]
    assert pools.tolist() == [*whole, *([patch + 36 for patch in pool] for pool in whole)]


def test_pools_across_two_crops():
    """Two crops side by side: ten columns, the first five from one, the last five from the other."""
    found, batch = tensors("molmo2", (6, 10), **SMALL, max_crops=2)
    assert batch.plans[0].grid == (6, 10)
    check(found, "image_grids", [[3, 3, 3, 5]])
    pools = found["image_token_pooling"][9:]
    row = [36, 37, 38, 39, 40, 73, 74, 75, 76, 77]  # of the second crop, the first column is left out
    assert pools[:5].tolist() == [[*row[k : k + 2], *(patch + 6 for patch in row[k : k + 2])] for k in (0, 2, 4, 6, 8)]


def test_pools_are_padded_on_both_sides_and_shifted_by_image():
    found, batch = tensors("molmo2", (6, 6), (6, 6), **SMALL, pooling_size=[4, 4])
    check(found, "image_grids", [[2, 2, 2, 2]] * 2)
    pools = found["image_token_pooling"].reshape(2, 8, 4, 4)
    assert pools[0, 0].tolist() == [[-1, -1, -1, -1], [-1, 0, 1, 2], [-1, 6, 7, 8], [-1, 12, 13, 14]]
    assert pools[0, 3].tolist() == [[21, 22, 23, -1], [27, 28, 29, -1], [33, 34, 35, -1], [-1] * 4]
    second = np.where(pools[0] < 0, -1, pools[0] + batch.plans[0].shape[0] * 36)
    np.testing.assert_array_equal(pools[1], second)


@unhurried
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 3), st.integers(0, 2), st.integers(1, 9))
def test_every_patch_of_a_canvas_is_pooled_once(height, width, before, after, crops):
    """Each patch of the canvas comes from a crop that holds it, and none of them twice."""
    options = {"size": {"height": 6, "width": 6}, "patch_size": 1, "pooling_size": [2, 3]}
    options |= {"overlap_margins": [before, after], "max_crops": crops}
    found, batch = tensors("molmo2", (height, width), **options)
    plan = batch.plans[0]
    pools = found["image_token_pooling"]
    indices = pools[pools >= 0]
    assert len(np.unique(indices)) == indices.size
    assert sorted(indices[:36].tolist()) == list(range(36))
    rows, columns = plan.grid
    assert indices.size == 36 + rows * columns
    canvas = np.full((rows, columns), 0)
    for index in indices[36:]:
        crop, patch = divmod(int(index) - 36, 36)
        view = plan.views[crop + 1]
        canvas[view.window.top + patch // 6, view.window.left + patch % 6] += 1
    assert (canvas == 1).all()
    assert pools.shape == (plan.features, 6)


# ---- all of them


@pytest.mark.parametrize("name", names())
def test_shapes_and_dtypes_are_those_of_the_plan(name):
    spec = resolve(load(name))
    plans = [make_plan(spec, *size) for size in ((90, 130), (700, 300))]
    for plan in plans:
        found = batch_tensors(spec, make_batch_plan(spec, [plan]), hf=False)
        told = {tensor.name: tensor for tensor in spec.tensors}
        assert [*found] == [tensor.name for tensor in spec.tensors if tensor.value != "primary"]
        for side in plan.tensors:
            array = found[side.name]
            assert array.dtype == DTYPES[side.dtype]
            if told[side.name].join == "rows":
                assert array.shape == side.shape
            else:
                assert array.shape[-len(side.shape) + 1 :] == side.shape[1:] or len(side.shape) == 1
    batch = make_batch_plan(spec, plans)
    together = batch_tensors(spec, batch)
    assert [*together] == [tensor.name for tensor in spec.tensors if tensor.value != "primary" and tensor.hf]
    assert all(array.flags.c_contiguous and array.flags.owndata for array in together.values())
