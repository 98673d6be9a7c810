import ml_dtypes
import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.plan.plan import Normalization, Pack, Plan, View
from foveal.show import draw_panels, packing_text, panels, view_pixels
from foveal.types import Box, Size

CANVAS = Size(24, 36)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
NORMALIZATION = Normalization(True, 1 / 255, True, MEAN, STD)
PACKS = {
    "planar": Pack("planar"),
    "tiles": Pack("tiles", 12),
    "patches": Pack("patches", 6),
    "merge_patches": Pack("merge_patches", 3, 2, 2),
}


def bytes_of(canvas, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (*canvas, 3), np.uint8)


def packed(pixels, pack):
    """Return a canvas as the encoder gets it, one patch at a time."""
    planes = pixels.transpose(2, 0, 1)
    if pack.kind == "planar":
        return planes.reshape(-1)
    block, merge = pack.block, pack.merge
    rows, columns = pixels.shape[0] // (block * merge), pixels.shape[1] // (block * merge)
    order = [
        (row * merge + down, column * merge + right)
        for row in range(rows)
        for column in range(columns)
        for down in range(merge)
        for right in range(merge)
    ]
    patches = [planes[:, y * block : (y + 1) * block, x * block : (x + 1) * block] for y, x in order]
    return np.concatenate([np.repeat(patch[:, np.newaxis], pack.temporal, 1).reshape(-1) for patch in patches])


def plan_of(*views):
    elements = sum(3 * view.canvas.height * view.canvas.width * view.pack.temporal for view in views)
    return Plan("spec", "torchvision", 48, 72, views, (elements,), "float32", 1, ())


def view_of(pack, canvas=CANVAS, offset=0, name="image"):
    return View(name, canvas, "bicubic", False, Box(0, 0, *canvas), canvas, (0, 0), (0, 0, 0), pack, offset)


def normalized(pixels):
    return (pixels / 255 - MEAN) / STD


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_the_canvas_is_rebuilt(pack):
    pixels = bytes_of(CANVAS)
    plan = plan_of(view_of(pack))
    for values in (packed(pixels, pack), packed(normalized(pixels).astype(np.float32), pack)):
        (found,) = view_pixels(plan, values, NORMALIZATION)
        np.testing.assert_array_equal(found, pixels)


def test_values_that_were_only_rescaled_or_only_normalized_or_neither():
    pixels = bytes_of(CANVAS)
    plan = plan_of(view_of(PACKS["planar"]))
    for rescale, normalize, values in (
        (True, False, pixels / 255),
        (False, True, (pixels - np.array(MEAN)) / STD),
        (False, False, pixels),
    ):
        normalization = Normalization(rescale, 1 / 255, normalize, MEAN, STD)
        (found,) = view_pixels(plan, packed(values.astype(np.float32), PACKS["planar"]), normalization)
        np.testing.assert_array_equal(found, pixels)


def test_bfloat16_is_close():
    pixels = bytes_of(CANVAS)
    values = packed(normalized(pixels).astype(ml_dtypes.bfloat16), PACKS["tiles"])
    (found,) = view_pixels(plan_of(view_of(PACKS["tiles"])), values, NORMALIZATION)
    assert np.abs(found.astype(int) - pixels).max() <= 1


def test_views_are_found_at_their_offsets():
    tiles, last = PACKS["tiles"], Size(12, 12)
    first_pixels, last_pixels = bytes_of(CANVAS), bytes_of(last, 1)
    plan = plan_of(view_of(tiles), view_of(tiles, last, 3 * 24 * 36, "global"))
    values = np.concatenate([packed(first_pixels, tiles), packed(last_pixels, tiles)]).reshape(-1, 3, 12, 12)
    found = view_pixels(plan, values, NORMALIZATION)
    np.testing.assert_array_equal(found[0], first_pixels)
    np.testing.assert_array_equal(found[1], last_pixels)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("planar", "not cut"),
        ("tiles", "2x3 tiles of 12x12"),
        ("patches", "4x6 patches of 6x6"),
        ("merge_patches", "8x12 patches of 3x3, merged 2x2"),
    ],
)
def test_packing_in_words(kind, text):
    assert packing_text(view_of(PACKS[kind])) == text
    assert packing_text(view_of(PACKS["tiles"], Size(12, 12))) == "one tile of 12x12"


def test_panels_show_tiles_apart_and_lines_on_merge_blocks():
    canvas = Size(240, 360)
    original = Image.new("RGBA", (720, 480), (1, 2, 3, 255))
    pixels = np.zeros((*canvas, 3), np.uint8)
    packs = {"tiles": Pack("tiles", 120), "merge_patches": Pack("merge_patches", 30, 2, 2), "planar": Pack("planar")}
    for kind, size in (("tiles", (360 + 2 * 8, 240 + 8)), ("merge_patches", (360, 240)), ("planar", (360, 240))):
        plan = plan_of(view_of(packs[kind], canvas))
        first, second = panels(plan, packed(pixels, packs[kind]), NORMALIZATION, original)
        assert first.picture.size == (720, 480)
        assert first.picture.getpixel((0, 0)) == (1, 2, 3)
        assert second.picture.size == size
        lit = np.asarray(second.picture).any(axis=2)
        assert lit.any() == (kind != "planar")
        if kind == "merge_patches":
            assert lit[60].all()
            assert lit[:, 60].all()
            assert not lit[:60, :60].any()


def shown(model, width, height, color=(9, 9, 9)):
    preprocess = foveal.Preprocessor.from_spec(model)
    image = Image.new("RGB", (width, height), color)
    features = preprocess(image, dtype="uint8")
    return panels(features.plans[0], features["pixel_values"], preprocess.normalization, image)


def captions(model, width, height):
    return [list(panel.caption) for panel in shown(model, width, height)]


def test_captions_say_what_was_done():
    assert captions("llava1_5", 1024, 768) == [
        ["original, 768x1024 (height x width)", "yellow: the part that is kept"],
        ["view 'image', 336x336: not cut", "resized to 336x448, middle 336x336 kept"],
    ]
    assert captions("qwen2_5_vl", 1024, 768) == [
        ["original, 768x1024 (height x width)"],
        [
            "view 'image', 756x1036: 54x74 patches of 14x14, merged 2x2",
            "resized to 756x1036",
            "each yellow cell (28x28) is one token",
        ],
    ]
    assert captions("llama4", 640, 480) == [
        ["original, 480x640 (height x width)"],
        [
            "view 'tiles', 672x672: 2x2 tiles of 336x336",
            "not resized",
            "black = padding; white gaps only separate tiles",
        ],
        ["view 'global', 336x336: one tile of 336x336", "resized to 336x336"],
    ]


def test_a_window_elsewhere_and_padding_in_a_colour():
    view = View(
        "image", Size(48, 72), "bicubic", False, Box(3, 5, 24, 30), CANVAS, (0, 0), (1, 2, 3), Pack("planar"), 0
    )
    _, panel = panels(plan_of(view), np.zeros(3 * 24 * 36, np.uint8), NORMALIZATION, Image.new("RGB", (72, 48)))
    assert panel.caption[1].startswith("not resized, 24x30 at 3,5 kept; drawn 6 times")
    assert panel.caption[2] == "colour (1, 2, 3) = padding"


def test_the_kept_window_is_outlined_on_the_original():
    original, _ = shown("llava1_5", 1024, 768)
    yellow = (np.asarray(original.picture) == (255, 214, 10)).all(axis=2)
    assert [int(edge) for edge in (yellow.any(axis=0).argmax(), yellow.any(axis=1).argmax())] == [128, 0]
    assert yellow[:, 128].all()
    assert yellow[:, 895].all()
    assert not yellow[:, :128].any()
    assert not yellow[:, 896:].any()
    assert not yellow[100:600, 200:800].any()


@pytest.mark.parametrize("model", ["qwen2_5_vl", "llava1_5", "llama4"])
@pytest.mark.parametrize("size", [(1024, 768), (2000, 300), (300, 2000), (5, 5), (3, 500), (2400, 1800), (4000, 21)])
def test_pictures_fit_a_screen_and_captions_say_the_scale(model, size):
    sheet = shown(model, *size)
    assert ("drawn" in sheet[0].caption[0]) == (sheet[0].picture.size != size)
    for panel in sheet:
        assert panel.picture.width <= 1100 + 15 * 8
        assert panel.picture.height <= 800 + 15 * 8
        assert max(panel.picture.size) >= 120
    drawn = draw_panels(sheet, "title")
    assert drawn.width <= 2200
    assert drawn.height <= 2800


def test_all_panels_have_one_scale_where_none_is_too_small():
    first, second = captions("qwen2_5_vl", 2000, 300)
    assert first == ["original, 300x2000 (height x width); drawn at 55 % of its size"]
    assert second[1] == "resized to 308x1988; drawn at 55 % of its size"
    assert captions("llava1_5", 2000, 300)[1][1] == "resized to 336x2240, middle 336x336 kept"
    assert captions("qwen2_5_vl", 5, 5)[0][0].endswith("; drawn 48 times as large")


def test_cells_that_are_too_small_are_not_drawn():
    _, view = shown("qwen2_5_vl", 12000, 100, (0, 0, 0))
    assert view.caption[-1] == "28x28 pixels are one token: cells too small to be drawn"
    assert not np.asarray(view.picture).any()


def test_transparent_pixels_of_the_original_are_white():
    plan = plan_of(view_of(PACKS["planar"]))
    for original in (Image.new("RGBA", (72, 48), (1, 2, 3, 0)), Image.new("LA", (72, 48), (1, 0))):
        first, _ = panels(plan, np.zeros(plan.elements, np.uint8), NORMALIZATION, original)
        assert first.picture.getpixel((0, 0)) == (255, 255, 255)


def test_wide_panels_are_below_each_other():
    qwen, llava = shown("qwen2_5_vl", 1024, 768), shown("llava1_5", 1024, 768)
    stacked, beside = draw_panels(qwen, "title"), draw_panels(llava, "title")
    assert stacked.height > sum(panel.picture.height for panel in qwen)
    assert stacked.width < sum(panel.picture.width for panel in qwen)
    assert beside.width > sum(panel.picture.width for panel in llava)
    assert beside.height < sum(panel.picture.height for panel in llava)


def test_a_sheet_holds_its_title():
    panel = shown("qwen2_5_vl", 5, 5)[0]
    assert draw_panels([panel], "a title " * 20).width > draw_panels([panel], "a title").width
