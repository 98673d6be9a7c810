import ml_dtypes
import numpy as np
import pytest
from PIL import Image

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
    original = Image.new("RGBA", (72, 48), (1, 2, 3, 255))
    pixels = np.zeros((*CANVAS, 3), np.uint8)
    for kind, size in (("tiles", (36 + 2 * 8, 24 + 8)), ("merge_patches", (36, 24)), ("planar", (36, 24))):
        plan = plan_of(view_of(PACKS[kind]))
        first, second = panels(plan, packed(pixels, PACKS[kind]), NORMALIZATION, original)
        assert first.caption == ("original", "48x72 (height x width)")
        assert first.picture.size == (720, 480)
        assert second.picture.size == size
        lit = np.asarray(second.picture).any(axis=2)
        assert lit.any() == (kind != "planar")
        if kind == "merge_patches":
            assert lit[6].all()
            assert lit[:, 6].all()
            assert not lit[:6, :6].any()


def test_a_sheet_holds_all_panels_and_its_title():
    plan = plan_of(view_of(PACKS["tiles"]), view_of(PACKS["tiles"], Size(12, 12), 3 * 24 * 36, "global"))
    values = np.zeros(plan.elements, np.uint8)
    shown = panels(plan, values, NORMALIZATION, Image.new("RGB", (72, 48)))
    sheet = draw_panels(shown, "a title that is not short")
    assert sheet.width > sum(panel.picture.width for panel in shown)
    assert sheet.height > max(panel.picture.height for panel in shown)
