import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import foveal
from foveal.plan.boxes import Edges
from foveal.plan.plan import Normalization, Pack, Plan, View
from foveal.show import draw, numbers_text, packing_text, view_pixels
from foveal.show.figures import Figure, Outline, blocks_of, canvas_figure, find_cut, original_figure
from foveal.show.letters import ACCENTS, PAPER, plain, text_width, wrapped
from foveal.show.marks import fit, marked, notes
from foveal.show.page import (
    BLOCK_GAP,
    BLOCK_HEAD,
    HIGHEST,
    LARGEST_BLOCK,
    MARGIN,
    SMALLEST_BLOCK,
    WIDTH,
    _arranged,
    _close_up,
    _patch_number,
)
from foveal.show.pixels import stage_pixels
from foveal.show.words import facts, made_text, padding_text, strip_notes, token_side
from foveal.types import Box, Size

CANVAS = Size(24, 36)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
NORMALIZATION = Normalization(True, 1 / 255, True, MEAN, STD)
PACKS = {
    "planar": Pack("planar"),
    "allotted": Pack("planar", allotted=Size(30, 40)),
    "tiles": Pack("tiles", 12),
    "patches": Pack("patches", 6),
    "channels_last_patches": Pack("channels_last_patches", 6),
    "merge_patches": Pack("merge_patches", 3, 2, 2),
}


def bytes_of(canvas, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (*canvas, 3), np.uint8)


def packed(pixels, pack):
    """Return a canvas as the encoder gets it, one patch at a time."""
    planes = pixels.transpose(2, 0, 1)
    if pack.kind == "planar":
        room = np.zeros((3, *(pack.allotted or pixels.shape[:2])), pixels.dtype)
        room[:, : pixels.shape[0], : pixels.shape[1]] = planes
        return room.reshape(-1)
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
    if pack.kind == "channels_last_patches":
        return np.concatenate([patch.transpose(1, 2, 0).reshape(-1) for patch in patches])
    return np.concatenate([np.repeat(patch[:, np.newaxis], pack.temporal, 1).reshape(-1) for patch in patches])


def plan_of(*views, stages=()):
    elements = sum(3 * view.canvas.height * view.canvas.width * view.pack.temporal for view in views)
    return Plan("spec", "torchvision", 48, 72, stages, views, (1, 1), (elements,), "float32", 1, ())


def view_of(pack, canvas=CANVAS, offset=0, name="image", **others):
    whole = {
        "reads": "image",
        "window": Box(0, 0, 48, 72),
        "border": (0, 0, 0),
        "resized": canvas,
        "filter": "bicubic",
        "method": "antialias",
        "vertical_first": False,
        "crop": Box(0, 0, *canvas),
        "canvas": canvas,
        "place": (0, 0),
        "fill": (0, 0, 0),
    }
    return View(name=name, **(whole | others), pack=pack, offset=offset)


def normalized(pixels):
    return (pixels / 255 - MEAN) / STD


# ---- from a tensor to pictures


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


def test_views_are_found_at_their_offsets_and_padding_behind_them_is_not_read():
    tiles, last = PACKS["tiles"], Size(12, 12)
    first_pixels, last_pixels = bytes_of(CANVAS), bytes_of(last, 1)
    plan = plan_of(view_of(tiles), view_of(tiles, last, 3 * 24 * 36, "global"))
    parts = [packed(first_pixels, tiles), packed(last_pixels, tiles), np.zeros(2 * 3 * 12 * 12, np.uint8)]
    found = view_pixels(plan, np.concatenate(parts).reshape(1, -1, 3, 12, 12), NORMALIZATION)
    np.testing.assert_array_equal(found[0], first_pixels)
    np.testing.assert_array_equal(found[1], last_pixels)


def test_a_stage_is_put_together_from_the_views_that_take_it_as_it_is():
    pixels = bytes_of(CANVAS)
    stage = view_of(Pack("pixels"), name="canvas")
    crops = [
        view_of(PACKS["planar"], Size(24, 20), name=f"crop {left}", reads="canvas", window=Box(0, left, 24, 20))
        for left in (0, 16)
    ]
    small = view_of(PACKS["planar"], Size(24, 20), name="small", reads="canvas", window=Box(0, 0, *CANVAS))
    plan = plan_of(small, *crops, stages=(stage,))
    pictures = [np.zeros((24, 20, 3), np.uint8), pixels[:, :20], pixels[:, 16:]]
    np.testing.assert_array_equal(stage_pixels(plan, stage, pictures), pixels)


# ---- words


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("planar", "not cut"),
        ("tiles", "2x3 tiles of 12x12"),
        ("patches", "4x6 patches of 6x6"),
        ("channels_last_patches", "4x6 patches of 6x6"),
        ("merge_patches", "8x12 patches of 3x3, merged 2x2"),
    ],
)
def test_packing_in_words(kind, text):
    assert packing_text(view_of(PACKS[kind])) == text
    assert packing_text(view_of(PACKS["tiles"], Size(12, 12))) == "one tile of 12x12"


@pytest.mark.parametrize(
    ("others", "text", "padding"),
    [
        ({}, "resized to 24x36, bicubic", ""),
        ({"resized": Size(48, 72), "crop": Box(12, 18, 24, 36)}, "not resized, the middle 24x36 kept", ""),
        ({"resized": Size(48, 72), "crop": Box(3, 5, 24, 36)}, "not resized, 24x36 at 3,5 kept", ""),
        ({"window": Box(0, 9, 48, 30)}, "a part of 48x30, resized to 24x36, bicubic", ""),
        (
            {"window": Box(0, 0, 49, 72), "border": (1, 2, 3)},
            "padded to 49x72 with rgb(1, 2, 3), resized to 24x36, bicubic",
            "rgb(1, 2, 3)",
        ),
        (
            {"resized": Size(20, 36), "crop": Box(0, 0, 20, 36), "place": (2, 0), "fill": (255, 255, 255)},
            "resized to 20x36, bicubic, at 2,0 on a canvas of 24x36 (white)",
            "white",
        ),
    ],
)
def test_how_a_view_is_made(others, text, padding):
    view = view_of(PACKS["planar"], **others)
    assert made_text(plan_of(view), view) == text
    assert padding_text(plan_of(view), view) == padding


def planned(model, height, width, **overrides):
    preprocess = foveal.Preprocessor.from_spec(model, **overrides)
    return preprocess.spec, preprocess.plan(height, width)


def test_stages_are_told_one_after_the_other():
    _, plan = planned("smolvlm", 500, 1000)
    assert made_text(plan, plan.stages[1]) == "resized to 1024x2048, lanczos"
    _, plan = planned("smolvlm", 500, 700)
    assert made_text(plan, plan.stages[1]) == "resized to 1462x2048, lanczos; then resized to 1536x2048, lanczos"
    assert strip_notes(plan) == [
        "tiles: from 'canvas', as it is",
        "global: from 'canvas', resized to 512x512, lanczos",
    ]


def test_views_that_are_made_alike_are_named_together():
    assert strip_notes(planned("molmo2", 700, 900)[1]) == [
        "image: resized to 378x378, bilinear",
        "crop 0 to crop 5: from 'canvas', a part of 378x378",
    ]
    assert strip_notes(planned("phi4mm", 30, 20)[1]) == ["global and tiles: from 'canvas', as it is"]


@pytest.mark.parametrize(
    ("values", "text"),
    [([[1, 54, 74]], "1x54x74"), ([5], "5"), ([[[1, 1, 0, 0]]], "1, 1, 0, 0"), ([[1] * 5], "(1, 5) int64")],
)
def test_numbers_of_small_tensors(values, text):
    assert numbers_text(np.array(values, np.int64)) == text


def shown(model, height, width, color=(9, 9, 9), **overrides):
    """Return what a sheet is drawn from: spec, batch, tensors and the original."""
    preprocess = foveal.Preprocessor.from_spec(model, **overrides)
    image = Image.new("RGB", (width, height), color)
    features = preprocess(image)
    return preprocess.spec, features.batch, features, image


def test_facts():
    spec, batch, features, _ = shown("llama4", 500, 700)
    assert facts(spec, batch, features, batch.plans[0].views[0]) == [
        ("original, height x width", "500x700"),
        ("resized to", "500x700"),
        ("canvas", "672x1008"),
        ("read as", "2x3 tiles of 336x336 + one tile of 336x336"),
        ("image tokens", "1008 (144 each)"),
        ("reference", "torchvision"),
        ("pixel_values", "(7, 3, 336, 336) bfloat16"),
        ("aspect_ratios", "2x3"),
    ]


def test_facts_of_padded_tensors_and_of_several_pictures():
    spec, batch, features, _ = shown("siglip2", 500, 700)
    found = dict(facts(spec, batch, features, None))
    assert found["zero padding"] == "9 of 256 rows"
    assert found["pixel_attention_mask"] == "(1, 256) int32"
    assert "image tokens" not in found
    spec, batch, features, _ = shown("mllama", 500, 700)
    assert dict(facts(spec, batch, features, None))["zero padding"] == "2 of 4 tiles"
    spec, batch, features, _ = shown("gemma3", 500, 1000, do_pan_and_scan=True)
    assert dict(facts(spec, batch, features, None))["read as"] == "3 pictures of 896x896"
    spec, batch, features, _ = shown("molmo2", 30, 20)
    assert dict(facts(spec, batch, features, None))["read as"] == "2 pictures, each 27x27 patches of 14x14"


# ---- figures


def figures(model, height, width, **overrides):
    """Return the original's figure, what is cut and its figure, and the blocks."""
    spec, plan = planned(model, height, width, **overrides)
    canvases = [Image.new("RGB", (view.canvas.width, view.canvas.height)) for view in plan.views]
    blocks = blocks_of(plan, canvases)
    cut = find_cut(spec, plan)
    picture = Image.new("RGB", (cut.canvas.width, cut.canvas.height)) if cut else canvases[0]
    original = original_figure(plan, Image.new("RGB", (width, height)), blocks)
    return original, cut, canvas_figure(spec, plan, cut or plan.views[0], picture, blocks), blocks


def test_tiles_are_outlined_where_they_come_from():
    original, cut, canvas, blocks = figures("llama4", 400, 672)
    assert cut.name == "tiles"
    assert [(block.number, block.name) for block in blocks] == [
        (0, "row 0, column 0"),
        (1, "row 0, column 1"),
        (2, "row 1, column 0"),
        (3, "row 1, column 1"),
        (4, "global"),
    ]
    assert original.outlines[3] == Outline(Edges(336, 336, 400, 672), "3")
    assert canvas.outlines[3] == Outline(Edges(336, 336, 672, 672), "3")
    assert len(original.outlines) == len(canvas.outlines) == 4
    assert (original.seen, canvas.filled, canvas.cell) == ((), (0, 0, 400, 672), 0)
    assert canvas.title == "cut into 2x2 tiles of 336x336"
    assert canvas.notes[-1] == "hatched: padding, black"


def test_tiles_of_padding_alone_come_from_nowhere():
    view = view_of(PACKS["tiles"], resized=Size(12, 36), crop=Box(0, 0, 12, 36))
    blocks = blocks_of(plan_of(view), [Image.new("RGB", (36, 24))])
    found = original_figure(plan_of(view), Image.new("RGB", (72, 48)), blocks).outlines
    assert [outline.label for outline in found] == ["0", "1", "2"]
    assert found[1].edges == (0, 24, 48, 48)


def test_a_kept_part_is_outlined_and_the_rest_faded():
    original, cut, canvas, _ = figures("clip", 224, 448)
    assert cut is None
    assert original.outlines == (Outline(Edges(0, 112, 224, 336), ""),)
    assert original.seen == (Edges(0, 112, 224, 336),)
    assert original.notes[-1] == "faded: what the model does not see"
    assert (canvas.title, canvas.outlines, canvas.filled) == ("what the encoder reads", (), None)


def test_overlapping_crops_have_colours_of_their_own():
    original, cut, canvas, blocks = figures("molmo2", 700, 900)
    assert (cut.name, canvas.title) == ("canvas", "canvas, cut into 6 overlapping crops of 378x378")
    assert [outline.group for outline in canvas.outlines] == [1, 2, 3, 4, 5, 6]
    assert [outline.label for outline in original.outlines] == ["1", "2", "3", "4", "5", "6"]
    assert canvas.outlines[1].edges == (0, 266, 378, 644)
    assert blocks[0].group == 0


@pytest.mark.parametrize("model", ["molmo2", "phi4mm"])
def test_a_stage_of_one_part_is_not_cut(model):
    original, cut, _, blocks = figures(model, 30, 20)
    assert cut is None
    assert [block.group for block in blocks] == [0, 0]
    assert original.outlines == ()


@pytest.mark.parametrize(
    ("model", "cell", "unit", "title"),
    [
        ("qwen2_5_vl", 28, "token", "cut into 36x50 patches of 14x14, merged 2x2"),
        ("gemma4", 48, "token", "cut into 42x57 patches of 16x16"),
        ("siglip2", 16, "patch", "cut into 13x19 patches of 16x16"),
        ("pixtral", 16, "token", "what the encoder reads"),
        ("clip", 0, "patch", "what the encoder reads"),
    ],
)
def test_cells_are_what_becomes_a_token(model, cell, unit, title):
    _, _, canvas, _ = figures(model, 500, 700)
    assert (canvas.cell, canvas.unit, canvas.title) == (cell, unit, title)


def test_tiles_of_a_stage():
    _, cut, canvas, _ = figures("smolvlm", 500, 700)
    assert (cut.name, canvas.title) == ("canvas", "canvas, cut into 3x4 tiles of 512x512")
    _, _, canvas, _ = figures("phi4mm", 500, 600)
    assert canvas.notes[-1] == "hatched: padding, white"


# ---- marks

GREY = (128, 128, 128)


def grey(width, height):
    return Image.new("RGB", (width, height), GREY)


def test_scales():
    assert fit(grey(400, 100), 200, 200) == 0.5
    assert fit(grey(400, 100), 900, 900) == 1
    assert fit(grey(20, 30), 900, 900) == 10
    assert fit(grey(20, 30), 50, 900) == 2


def test_outlines_lie_on_the_edges():
    figure = Figure("", (), grey(100, 60), (Outline(Edges(20, 30, 40, 70), ""),), "a part")
    drawn = np.asarray(marked(figure, 2))
    blue = (drawn == ACCENTS[0]).all(axis=2)
    rows, columns = np.flatnonzero(blue.any(axis=1)), np.flatnonzero(blue.any(axis=0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (39, 80, 59, 140)
    assert not blue[45:75, 65:135].any()
    assert (drawn[38, 80] == PAPER).all()
    assert notes(figure, 2) == ["outlined: a part", "drawn 2 times as large"]


def test_neighbours_share_a_line_and_carry_their_numbers():
    halves = (Outline(Edges(0, 0, 60, 50), "0"), Outline(Edges(0, 50, 60, 100), "1"))
    blue = (np.asarray(marked(Figure("", (), grey(100, 60), halves), 1)) == ACCENTS[0]).all(axis=2)
    assert blue[55].sum() == 6
    assert blue[10:25, 8:20].any()
    assert blue[10:25, 60:70].any()


def test_outlines_on_a_thin_strip_would_hide_it():
    figure = Figure("", (), grey(1000, 20), (Outline(Edges(0, 0, 20, 500), "0"),), "parts")
    assert (np.asarray(marked(figure, 0.5)) == GREY).all()
    assert notes(figure, 0.5) == ["drawn at 50 %"]


def test_cells_are_drawn_unless_they_are_too_small():
    figure = Figure("", (), grey(60, 40), cell=20, unit="token")
    lit = (np.asarray(marked(figure, 1)) != GREY).any(axis=2)
    assert (lit[20].all(), lit[:, 20].all(), lit[:, 40].all()) == (True, True, True)
    assert lit.sum() == 60 + 2 * 40 - 2
    assert notes(figure, 1) == ["a cell of 20x20 is one token"]
    assert (np.asarray(marked(figure, 0.2)) == GREY).all()
    assert notes(figure, 0.2)[0] == "a cell of 20x20 is one token, too small to be drawn"


@pytest.mark.parametrize("color", [(0, 0, 0), (122, 116, 104), (255, 255, 255)])
def test_padding_is_hatched_on_any_colour(color):
    figure = Figure("", (), Image.new("RGB", (60, 40), color), filled=Edges(0, 0, 40, 30))
    drawn = np.asarray(marked(figure, 1)).astype(int)
    assert (drawn[:, :30] == color).all()
    assert 0.1 < (np.abs(drawn[:, 30:] - color).max(axis=2) > 25).mean() < 0.3


def test_what_is_not_seen_is_faded():
    drawn = np.asarray(marked(Figure("", (), grey(60, 40), seen=(Edges(0, 0, 40, 30),)), 1))
    assert (drawn[:, :30] == GREY).all()
    assert (drawn[:, 30:] > 200).all()


# ---- the sheet


def test_names_are_written_in_the_letters_that_the_font_has():
    assert plain("photo.jpg") == "photo.jpg"
    assert plain("caf\u00e9\n.jpg") == "caf??.jpg"
    assert plain("a" * 100 + ".png") == "a" * 40 + "..." + "a" * 13 + ".png"


def test_lines_are_wrapped():
    lines = wrapped("one two three four five six", 16, 100)
    assert " ".join(lines) == "one two three four five six"
    assert all(text_width(line, 16) <= 100 for line in lines)
    assert wrapped("", 16, 100) == []
    assert wrapped("w" * 100, 16, 100) == ["w" * 100]


@given(st.integers(1, 1024), st.integers(460, 1400))
def test_pictures_in_order_fit(count, width):
    side, across = _arranged(count, width)
    rows = -(-count // across)
    assert SMALLEST_BLOCK <= side <= LARGEST_BLOCK
    assert across * (side + BLOCK_GAP) - BLOCK_GAP <= width
    assert side == SMALLEST_BLOCK or rows * (side + BLOCK_HEAD + BLOCK_GAP) <= HIGHEST


def test_many_tiles_and_a_long_name():
    sheet = draw(*shown("internvl", 40, 900, max_patches=40), "x" * 500)
    assert sheet.width == WIDTH + 2 * MARGIN


@pytest.mark.parametrize(
    ("pack", "size"),
    [
        (Pack("patches", 300), Size(300, 600)),
        (Pack("merge_patches", 4, 40, 2), Size(320, 320)),
        (Pack("patches", 1), Size(5, 900)),
    ],
)
def test_a_close_up_of_any_patches_fits(pack, size):
    spec, _ = planned("clip", 9, 9)
    canvas = Image.new("RGB", (size.width, size.height))
    drawn = _close_up(spec, view_of(pack, size), canvas, 700)
    assert 300 <= drawn.width <= 700
    assert drawn.height <= HIGHEST + 100


@pytest.mark.parametrize(("pack", "rows"), [("patches", [0, 1, 2, 3]), ("merge_patches", [0, 1, 4, 5])])
def test_patches_are_numbered_as_in_the_tensor(pack, rows):
    view = view_of(PACKS[pack])
    assert [_patch_number(view, 0, column) for column in range(4)] == rows
    block = view.pack.block
    pixels = np.zeros((*CANVAS, 3), np.uint8)
    pixels[2 * block : 3 * block, 3 * block : 4 * block] = 1
    tensor = packed(pixels, view.pack).reshape(-1, 3 * view.pack.temporal * block**2)
    assert np.flatnonzero(tensor.all(axis=1)).tolist() == [_patch_number(view, 2, 3)]


MODELS = {
    "clip": {},
    "gemma3": {"do_pan_and_scan": True},
    "gemma4": {},
    "internvl": {},
    "llama4": {},
    "llava1_5": {"do_pad": True},
    "llava_next": {},
    "mllama": {},
    "molmo2": {},
    "phi4mm": {},
    "pixtral": {},
    "qwen2_5_vl": {},
    "siglip2": {},
    "smolvlm": {},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [(300, 1000), (1000, 300), (30, 20), (3, 100), (768, 1024)])
def test_every_sheet_fits_a_screen(model, size):
    sheet = draw(*shown(model, *size, **MODELS[model]), "photo.jpg")
    assert sheet.width == WIDTH + 2 * MARGIN
    assert 300 < sheet.height <= 2600
    pixels = np.asarray(sheet)
    for edge in (pixels[:MARGIN], pixels[-MARGIN:], pixels[:, :MARGIN], pixels[:, -MARGIN:]):
        assert (edge == PAPER).all()


def test_all_tiles_are_on_the_sheet():
    spec, batch, features, image = shown("llama4", 1300, 1300, (20, 200, 90))
    assert batch.shape[0] == 17
    found = (np.asarray(draw(spec, batch, features, image, "photo.jpg")) == (20, 200, 90)).all(axis=2)
    side, _ = _arranged(17, WIDTH)
    assert found.sum() > 14 * side**2 + 2 * 500**2


def test_a_sheet_shows_the_tensor_and_not_the_image():
    spec, batch, features, image = shown("clip", 224, 224, (0, 0, 255))
    features["pixel_values"][:] = 1e6
    sheet = np.asarray(draw(spec, batch, features, image, "photo.jpg"))
    column = 2 * MARGIN + WIDTH // 2
    assert (sheet[-MARGIN - 10, MARGIN + 10] == (0, 0, 255)).all()
    assert not (sheet[:, column:] == (0, 0, 255)).all(axis=2).any()


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_of_the_original_are_white(mode):
    spec, batch, features, image = shown("clip", 224, 224, (9, 9, 9))
    clear = Image.new(mode, image.size, (9,) * (len(mode) - 1) + (0,))
    left = np.asarray(draw(spec, batch, features, clear, "photo.jpg"))[-MARGIN - 100 :, : MARGIN + 400]
    assert not (left == 9).all(axis=2).any()


def test_token_side():
    assert token_side(planned("qwen2_5_vl", 100, 100)[0]) == 28
    assert token_side(planned("llama4", 100, 100)[0]) == 0
    assert token_side(planned("clip", 100, 100)[0]) == 0
