"""Plans: geometry of views, counts, defaults and the texts of refusals."""

import json
import math
import random
from pathlib import Path

import msgspec
import pytest

from foveal.errors import ImageSizeError
from foveal.plan import SideTensor, make_batch_plan, make_plan, normalization
from foveal.plan.tensors import batch_tensors
from foveal.plan.views import pass_order
from foveal.spec import load, names, resolve
from foveal.types import Box, Size

CROPS = json.loads(Path(__file__).with_name("crops.json").read_text())


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
    assert made.grid == (78, 138)
    assert made.tensors[0] == SideTensor("image_grid_thw", "int64", (1, 3))
    assert made.stages == ()


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
    assert made.grid == (2, 2)
    assert made.tensors[0] == SideTensor("aspect_ratios", "int64", (1, 2))


def test_llama4_with_one_tile_has_no_global_view():
    made = plan("llama4", 300, 200)
    assert [view.name for view in made.views] == ["tiles"]
    assert (made.shape, made.features, made.grid) == ((1, 3, 336, 336), 144, (1, 1))


@pytest.mark.parametrize("reference", ["torchvision", "pillow"])
def test_center_crop_answers_as_transformers(reference):
    for height, width, crop_height, crop_width, *expected in CROPS[reference]:
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
    assert plan("qwen2_vl", 56, 84, do_resize=False).grid == (4, 6)
    rule = "becomes 56x85, of which both must be multiples of 28"
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


# ---- features, counted again from what a model gets


def implied_features(name, made, found):
    """Count features from the tensors by the model's own arithmetic."""
    tiles, *rest = made.shape
    match name:
        case "clip" | "siglip" | "siglip2" | "mllama":
            return 0
        case "qwen2_vl" | "qwen2_5_vl" | "qwen3_vl" | "glm4v":
            return int(found["image_grid_thw"].prod()) // 4
        case "kimi_k25" | "kimi_vl":
            return tiles // 4
        case "llava1_5":
            return rest[1] // 14 * (rest[2] // 14)
        case "deepseek_vl" | "janus":
            return tiles * 576
        case "gemma3" | "gemma3n" | "internvl" | "internvl_chat" | "ovis2":
            return tiles * 256
        case "llama4" | "idefics3" | "smolvlm" | "aya_vision" | "cohere2_vision":
            patch, pool = {"llama4": (14, 2), "smolvlm": (16, 4), "cohere2_vision": (16, 2)}.get(name, (14, 2))
            return tiles * ((rest[1] // patch) ** 2 // pool**2)
        case "gemma4":
            return int(found["num_soft_tokens_per_image"][0])
        case "pixtral" | "mistral3":
            side = 16 if name == "pixtral" else 28
            return math.prod(int(length) // side for length in found["image_sizes"][0])
        case "molmo2":
            return len(found["image_token_pooling"])
        case "phi3_v":
            rows, columns = found["image_sizes"][0] // 336
            return int((rows * columns + 1) * 144 + 1 + (rows + 1) * 12)
        case "phi4mm":
            mask = found["image_attention_mask"][0][1:, ::2, ::2].reshape(*made.grid, 16, 16)
            mask = mask.swapaxes(1, 2).reshape(made.grid[0] * 16, -1)
            return int(256 + 1 + mask.sum() + mask[:, 0].sum() + 16)
        case "llava_next" | "llava_onevision":
            return implied_by_unpadding(name, made)


def implied_by_unpadding(name, made):
    """Follow the reference's processor: cut the padding off a grid of features, and add one at each row's end."""
    side = 24 if name == "llava_next" else 27
    rows, columns = made.grid[0] * side, made.grid[1] * side
    if made.width / made.height > columns / rows:
        kept = int(round(made.height * (columns / made.width), 7))
        rows -= (rows - kept) // 2 * 2
    else:
        kept = int(round(made.width * (rows / made.height), 7))
        columns -= (columns - kept) // 2 * 2
    if name == "llava_onevision":
        ratio = math.sqrt(rows * columns / (9 * side**2))
        if ratio > 1.1:
            rows, columns = int(rows // ratio), int(columns // ratio)
    return side * side + rows * columns + rows


@pytest.mark.parametrize("name", names())
def test_features_equal_what_the_tensors_imply(name):
    resolved = spec(name)
    draw = random.Random(1)
    count = 100 if {tensor.value for tensor in resolved.tensors} & {"pixel_mask", "pooling"} else 2000
    for _ in range(count):
        height = draw.randint(1, 3000)
        width = draw.randint(max(1, height // 40), min(3000, height * 40))
        made = make_plan(resolved, height, width)
        found = batch_tensors(resolved, make_batch_plan(resolved, [made]))
        assert made.features == implied_features(name, made, found), (height, width)
        assert made.elements == sum(elements(view) for view in made.views), (height, width)


def elements(view):
    return 3 * math.prod(view.canvas) * view.pack.temporal


# ---- views that read stages, and views that some images alone have


def test_stages_are_pictures_that_views_read():
    made = plan("idefics3", 480, 640)
    assert [(stage.name, stage.reads, stage.canvas) for stage in made.stages] == [
        ("resized", "image", (1092, 1456)),
        ("canvas", "resized", (1092, 1456)),
    ]
    assert {stage.pack.kind for stage in made.stages} == {"pixels"}
    tiles, whole = made.views
    assert (tiles.reads, tiles.window, tiles.resized) == ("canvas", (0, 0, 1092, 1456), (1092, 1456))
    assert (whole.reads, whole.window, whole.resized) == ("canvas", (0, 0, 1092, 1456), (364, 364))
    assert (made.grid, made.shape) == ((3, 4), (13, 3, 364, 364))


def test_windows_of_a_stage():
    made = plan("molmo2", 378, 644)
    assert made.stages[0].canvas == (378, 644)
    assert [(view.name, view.reads, view.window) for view in made.views] == [
        ("image", "image", (0, 0, 378, 644)),
        ("crop 0", "canvas", (0, 0, 378, 378)),
        ("crop 1", "canvas", (0, 266, 378, 378)),
    ]
    assert (made.grid, made.shape) == ((27, 46), (3, 729, 588))
    assert [view.offset for view in made.views] == [0, 729 * 588, 2 * 729 * 588]
    assert {view.method for view in (*made.stages, *made.views[:1])} == {"linear"}


def test_windows_of_the_image():
    made = plan("gemma3", 300, 1000, do_pan_and_scan=True)
    assert [(view.name, view.window, view.resized) for view in made.views] == [
        ("image", (0, 0, 300, 1000), (896, 896)),
        ("crop 0", (0, 0, 300, 334), (896, 896)),
        ("crop 1", (0, 334, 300, 334), (896, 896)),
        ("crop 2", (0, 668, 300, 332), (896, 896)),
    ]
    assert made.features == 4 * 256
    assert len(plan("gemma3", 300, 1000).views) == len(plan("gemma3", 300, 310, do_pan_and_scan=True).views) == 1


def test_fixed_taps_read_a_whole_canvas():
    made = plan("phi3_v", 480, 640, num_crops=4)
    (canvas,) = made.stages
    assert (canvas.canvas, canvas.resized, canvas.place, canvas.fill) == ((672, 672), (504, 672), (84, 0), (255,) * 3)
    whole, tiles = made.views
    assert (whole.method, whole.filter, whole.resized, whole.vertical_first) == (
        "fixed_taps",
        "bicubic",
        (336, 336),
        False,
    )
    assert (tiles.canvas, tiles.resized, tiles.offset) == ((672, 672), (672, 672), 3 * 336**2)


def test_an_upright_image_is_resized_in_the_passes_of_one_that_lies():
    """Laid on its side, 1400x90 becomes 345x5376 of 90x1400; no pass is shrunk there, so its columns come first."""
    made = plan("phi3_v", 1400, 90)
    assert made.stages[0].vertical_first
    assert not plan("phi3_v", 90, 1400).stages[0].vertical_first
    lying, upright = plan("phi3_v", 3000, 8000).stages[0], plan("phi3_v", 8000, 3000).stages[0]
    assert lying.vertical_first is not upright.vertical_first


def test_an_image_alone_in_its_sample_is_read_in_another_way():
    one = plan("llava_onevision", 480, 640)
    assert [view.name for view in one.views] == ["base", "tiles"]
    many = make_plan(spec("llava_onevision"), 480, 640, "many_images")
    (square,) = many.views
    assert (square.name, square.window, square.border) == ("square", (-80, 0, 640, 640), (127, 127, 127))
    assert (square.resized, many.shape, many.grid) == ((384, 384), (1, 3, 384, 384), (1, 1))
    assert (one.shape, one.grid) == ((5, 3, 384, 384), (2, 2))


def test_a_view_that_is_padded_before_it_is_resized():
    (view,) = plan("llava1_5", 100, 301, do_pad=True).views
    assert (view.window, view.border) == ((-100, 0, 301, 301), (122, 116, 104))
    assert (view.resized, view.crop, view.canvas) == ((336, 336), (0, 0, 336, 336), (336, 336))


@pytest.mark.parametrize("name", names())
def test_offsets_follow_one_another(name):
    for size in ((480, 640), (900, 900), (300, 2000)):
        made = make_plan(spec(name), *size)
        ends = [0, *(view.offset + elements(view) for view in made.views)]
        assert [view.offset for view in made.views] == ends[:-1]
        assert made.elements == ends[-1]
        known = {"image", *(stage.name for stage in made.stages)}
        assert {view.reads for view in (*made.stages, *made.views)} <= known
        assert len({view.name for view in made.views}) == len(made.views)
