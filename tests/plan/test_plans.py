"""Plans: geometry of views, counts, defaults and the texts of refusals."""

import json
import math
import random
from pathlib import Path

import msgspec
import pytest

from foveal.errors import ImageSizeError, OptionError
from foveal.plan import make_batch_plan, make_plan, normalization
from foveal.plan.views import pass_order
from foveal.spec import load, names, resolve
from foveal.types import Box, Size

TABLE = json.loads(Path(__file__).with_name("sizes.json").read_text())


def spec(name, reference=None, **overrides):
    return resolve(load(name), overrides=overrides, reference=reference)


def plan(name, height, width, reference=None, **overrides):
    return make_plan(spec(name, reference, **overrides), height, width)


def test_qwen():
    made = plan("qwen2_5_vl", 1080, 1920)
    (view,) = made.views
    assert view.resized == view.canvas == Size(1092, 1932)
    assert view.crop == Box(0, 0, 1092, 1932)
    assert (view.filter, view.place, view.offset) == ("bicubic", (0, 0), 0)
    assert (view.pack.kind, view.pack.block, view.pack.merge, view.pack.temporal) == ("merge_patches", 14, 2, 2)
    assert made.shape == (78 * 138, 3 * 2 * 14 * 14)
    assert (made.dtype, made.features) == ("float32", 39 * 69)
    assert [(t.name, t.dtype, t.values) for t in made.tensors] == [("image_grid_thw", "int64", ((1, 78, 138),))]


def test_qwen3_has_its_own_patch_and_budget():
    made = plan("qwen3_vl", 100, 100)
    assert made.views[0].resized == Size(256, 256)
    assert made.shape == (256, 1536)


def test_llava():
    made = plan("llava1_5", 480, 640)
    (view,) = made.views
    assert view.resized == Size(336, 448)
    assert view.crop == Box(0, 56, 336, 336)
    assert view.canvas == Size(336, 336)
    assert (made.shape, made.features, made.tensors) == ((1, 3, 336, 336), 576, ())


def test_llava_counts_the_patches_of_its_canvas():
    assert plan("llava1_5", 480, 640, crop_size={"height": 224, "width": 100}).features == 16 * 7


def test_llama4_with_many_tiles():
    made = plan("llama4", 480, 640)
    tiles, whole = made.views
    assert (tiles.name, tiles.canvas, tiles.resized, tiles.fill) == ("tiles", (672, 672), (480, 640), (0, 0, 0))
    assert (whole.name, whole.canvas, whole.resized) == ("global", (336, 336), (336, 336))
    assert whole.offset == 4 * 3 * 336 * 336
    assert made.shape == (5, 3, 336, 336)
    assert (made.dtype, made.features) == ("bfloat16", 5 * 144)
    assert made.tensors[0].values == ((2, 2),)


def test_llama4_with_one_tile_has_no_global_view():
    made = plan("llama4", 300, 200)
    assert [view.name for view in made.views] == ["tiles"]
    assert (made.shape, made.features, made.tensors[0].values) == ((1, 3, 336, 336), 144, ((1, 1),))


@pytest.mark.parametrize("reference", ["torchvision", "pillow"])
def test_center_crop_answers_as_transformers(reference):
    for height, width, crop_height, crop_width, expected in TABLE[f"center_crop_{reference}"]:
        size = {"height": crop_height, "width": crop_width}
        (view,) = plan("llava1_5", height, width, reference, do_resize=False, crop_size=size).views
        assert [*view.place, *view.crop] == expected, (height, width, size)
        assert view.canvas == (crop_height, crop_width)
        assert view.resized == (height, width)


def test_without_resize_and_crop_the_image_is_the_canvas():
    made = plan("llava1_5", 50, 70, do_resize=False, do_center_crop=False)
    assert made.views[0].canvas == made.views[0].resized == (50, 70)
    assert made.shape == (1, 3, 50, 70)


def test_qwen_without_resize_takes_whole_blocks_only():
    assert plan("qwen2_vl", 56, 84, do_resize=False).tensors[0].values == ((1, 4, 6),)
    rule = "height and width must be multiples of 28 where nothing is resized"
    with pytest.raises(ImageSizeError) as caught:
        plan("qwen2_vl", 56, 85, do_resize=False)
    assert str(caught.value) == f"56x85 (height x width): {rule} (qwen2_vl, merge_patches)"


@pytest.mark.parametrize(
    ("name", "height", "width", "text"),
    [
        ("qwen2_5_vl", 12, 4000, "12x4000 (height x width): aspect ratio 333 exceeds 200 (qwen2_5_vl, smart_resize)"),
        ("qwen3_vl", 0, 5, "0x5 (height x width): both must be from 1 to 2147483647 (qwen3_vl)"),
        (
            "llava1_5",
            1,
            3000,
            "1x3000 (height x width): would be resized to 336x1008000, more than 268435456 pixels (llava1_5, resize)",
        ),
        ("llama4", 10**400, 3, "a very large numberx3 (height x width): both must be from 1 to 2147483647 (llama4)"),
        ("llama4", 5, -1, "5x-1 (height x width): both must be from 1 to 2147483647 (llama4)"),
    ],
)
def test_sizes_are_refused_by_name(name, height, width, text):
    with pytest.raises(ImageSizeError) as caught:
        plan(name, height, width)
    assert str(caught.value) == text


@pytest.mark.parametrize("number", [3.0, "3", None])
def test_sizes_are_whole_numbers(number):
    with pytest.raises(TypeError):
        plan("llama4", number, 5)


@pytest.mark.parametrize(
    ("name", "reference", "on", "off", "only"),
    [
        ("qwen2_vl", "torchvision", "float32", "uint8", "float32"),
        ("qwen2_vl", "pillow", "float32", "float32", "float32"),
        ("llava1_5", "torchvision", "float32", "uint8", "float32"),
        ("llava1_5", "pillow", "float32", "uint8", "float32"),
        ("llama4", "torchvision", "bfloat16", "uint8", "float32"),
    ],
)
def test_dtype_is_the_references(name, reference, on, off, only):
    assert plan(name, 336, 336, reference).dtype == on
    assert plan(name, 336, 336, reference, do_rescale=False, do_normalize=False).dtype == off
    rescaled = spec(name, reference, do_normalize=False)
    assert make_plan(rescaled, 336, 336).dtype == only
    assert normalization(rescaled).compute == "float32"


def test_normalization():
    made = normalization(spec("llama4", rescale_factor=0.5, image_mean=[1, 2, 3]))
    assert (made.factor, made.mean, made.std) == (0.5, (1.0, 2.0, 3.0), (0.5, 0.5, 0.5))
    assert (made.rescale, made.normalize, made.compute) == (True, True, "bfloat16")


@pytest.mark.parametrize(
    ("reference", "source", "result", "expected"),
    [
        ("pillow", (480, 640), (476, 644), True),
        ("pillow<13", (480, 640), (476, 644), False),
        ("torchvision", (480, 640), (476, 644), False),
        ("pillow", (100, 100), (80, 90), False),
        ("pillow", (100, 100), (79, 90), True),
        ("pillow", (100, 100), (100, 200), False),
        ("pillow", (100, 100), (50, 100), False),
    ],
)
def test_pass_order(reference, source, result, expected):
    assert pass_order(reference, Size(*source), Size(*result)) is expected


def test_the_plan_takes_the_pass_order_of_its_reference():
    assert plan("qwen2_vl", 480, 640, "pillow").views[0].vertical_first
    assert not plan("qwen2_vl", 480, 640, "pillow<13").views[0].vertical_first
    assert not plan("qwen2_vl", 480, 640, "torchvision").views[0].vertical_first


@pytest.mark.parametrize("name", names())
def test_plans_are_values(name):
    first, second = plan(name, 321, 654), plan(name, 321, 654)
    assert first == second
    assert first is not second
    assert hash(first) == hash(second)
    assert first != plan(name, 654, 321)
    with pytest.raises(AttributeError):
        first.features = 0
    assert msgspec.json.decode(msgspec.json.encode(first), type=type(first)) == first


@pytest.mark.parametrize("name", names())
def test_features_equal_what_the_tensors_imply(name):
    resolved = spec(name)
    draw = random.Random(1)
    for _ in range(10_000):
        height = draw.randint(1, 3000)
        width = draw.randint(max(1, height // 150), min(3000, height * 150))
        made = make_plan(resolved, height, width)
        assert made.features == implied_features(name, made), (height, width)
        assert made.elements == sum(elements(view) for view in made.views), (height, width)


def implied_features(name, made):
    """Count features from the shapes that a model gets, by the model's own arithmetic."""
    if name.startswith("qwen"):
        ((frames, rows, columns),) = made.tensors[0].values
        assert frames * rows * columns == made.shape[0]
        return frames * rows * columns // 4
    if name == "llama4":
        ((rows, columns),) = made.tensors[0].values
        assert made.shape[0] == rows * columns + (rows * columns > 1)
        return made.shape[0] * (336 // 14) ** 2 // 4
    return made.shape[2] // 14 * (made.shape[3] // 14)


def elements(view):
    return 3 * math.prod(view.canvas) * view.pack.temporal


def test_batch():
    qwen = spec("qwen2_vl")
    plans = [make_plan(qwen, 100, 100), make_plan(qwen, 300, 200)]
    batch = make_batch_plan(qwen, plans)
    assert batch.primary == "pixel_values"
    assert batch.plans == tuple(plans)
    assert batch.shape == (plans[0].shape[0] + plans[1].shape[0], 1176)
    assert batch.dtype == "float32"
    assert batch.features == plans[0].features + plans[1].features
    assert hash(batch) == hash(make_batch_plan(qwen, plans))


def test_images_of_a_batch_must_fit_together():
    llava = spec("llava1_5", do_center_crop=False)
    plans = [make_plan(llava, 336, 336), make_plan(llava, 336, 672)]
    text = (
        "image 1 is 336x672 (height x width): it becomes 3x336x672, and image 0 becomes 3x336x336, "
        "which do not fit into one tensor (llava1_5)"
    )
    with pytest.raises(ImageSizeError) as caught:
        make_batch_plan(llava, plans)
    assert str(caught.value) == text


def test_a_batch_has_images():
    with pytest.raises(OptionError, match=r"^there are no images$"):
        make_batch_plan(spec("llama4"), [])
