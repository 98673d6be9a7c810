"""Boxes: exact maps between canvases and the original, and whether pixels really go there."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import foveal
from foveal.errors import ImageSizeError, OptionError
from foveal.plan.boxes import Edges, filled_part, shown_part
from foveal.show import view_pixels
from foveal.spec import names

WITH = {"gemma3": {"do_pan_and_scan": True}, "llava1_5": {"do_pad": True}}
"""Options that bring in what a model does not do by default."""


def plan(model, height, width, **overrides):
    return foveal.Preprocessor.from_spec(model, **overrides).plan(height, width)


# ---- known answers


def test_a_box_on_a_resized_image():
    made = plan("qwen2_5_vl", 1080, 1920)
    assert made.views[0].canvas == (1092, 1932)
    found = made.to_original("image", (109.2, 193.2, 546, 966))
    assert found == pytest.approx((108, 192, 540, 960))
    assert (found.top, found.left, found.bottom, found.right) == found
    assert made.to_original(0, (0, 0, 1092, 1932)) == (0, 0, 1080, 1920)
    assert made.from_original((0, 0, 1080, 1920)) == ((0, 0, 1092, 1932),)


def test_the_order_of_most_models():
    assert Edges.from_xyxy((1, 2, 3, 4)) == Edges(top=2, left=1, bottom=4, right=3)
    assert Edges.from_xyxy((1, 2, 3, 4)).xyxy == (1, 2, 3, 4)
    made = plan("qwen2_5_vl", 56, 84)
    assert made.to_original(0, Edges.from_xyxy((14, 28, 42, 56))).xyxy == (14, 28, 42, 56)


@pytest.mark.parametrize("scale", [1, 100, 1000])
def test_coordinates_that_run_over_the_whole_picture(scale):
    made = plan("internvl", 600, 800)
    box = (0.1 * scale, 0.2 * scale, 0.5 * scale, 0.75 * scale)
    for view in ("tiles", "thumbnail"):
        assert made.to_original(view, box, scale=scale) == pytest.approx((60, 160, 300, 600))
    for found in made.from_original((60, 160, 300, 600), scale=scale):
        assert found == pytest.approx(box)


def test_a_crop_shows_a_part():
    made = plan("llava1_5", 336, 436)
    assert made.from_original((0, 0, 336, 436)) == ((0, 0, 336, 336),)
    assert made.from_original((10, 0, 20, 60)) == ((10, 0, 20, 10),)
    assert made.from_original((10, 0, 20, 50)) == (None,)
    assert made.from_original((10, 40, 20, 50)) == (None,)
    assert made.to_original(0, (0, 0, 336, 336)) == (0, 50, 336, 386)


def test_points_are_boxes_without_extent():
    made = plan("llava1_5", 336, 436)
    assert made.from_original((10, 60, 10, 60)) == ((10, 10, 10, 10),)
    assert made.from_original((10, 50, 10, 50)) == ((10, 0, 10, 0),)
    assert made.from_original((10, 49, 10, 49)) == (None,)
    assert made.to_original(0, (5, 7, 5, 7)) == (5, 57, 5, 57)


def test_a_box_on_padding_reaches_over_the_edges():
    made = plan("llava1_5", 100, 200, do_pad=True)
    assert made.to_original(0, (0, 0, 336, 336)) == (-50, 0, 150, 200)
    assert made.from_original((-50, 0, 150, 200)) == ((84, 0, 252, 336),)
    assert made.from_original((-40, 0, -10, 200)) == (None,)


def test_crops_each_show_their_part():
    made = plan("gemma3", 500, 1000, do_pan_and_scan=True)
    assert [view.name for view in made.views] == ["image", "crop 0", "crop 1"]
    assert made.to_original("crop 1", (0, 0, 896, 896)) == (0, 500, 500, 1000)
    whole, first, second = made.from_original((250, 600, 500, 800))
    assert whole == pytest.approx((448, 537.6, 896, 716.8))
    assert first is None
    assert second == pytest.approx((448, 179.2, 896, 537.6))


def test_maps_go_through_stages():
    made = plan("phi4mm", 500, 600)
    (canvas,) = made.stages
    overview, tiles = made.views
    assert canvas.canvas == tiles.canvas
    scale = canvas.resized.height / 500, canvas.resized.width / 600
    whole, cut = made.from_original((0, 0, 500, 600))
    assert cut == (0, 0, *canvas.resized)
    assert whole == pytest.approx((0, 0, *(448 * a / b for a, b in zip(canvas.resized, canvas.canvas, strict=True))))
    assert made.to_original(tiles.name, (0, 0, 448, 448)) == pytest.approx((0, 0, 448 / scale[0], 448 / scale[1]))
    assert made.to_original(overview.name, whole) == pytest.approx((0, 0, 500, 600))


def test_what_is_shown_and_what_is_filled():
    made = plan("llava1_5", 336, 436)
    assert shown_part(made, made.views[0]) == (0, 50, 336, 386)
    assert filled_part(made, made.views[0]) == (0, 0, 336, 336)
    padded = plan("llava1_5", 100, 200, do_pad=True)
    assert shown_part(padded, padded.views[0]) == (0, 0, 100, 200)
    assert filled_part(padded, padded.views[0]) == (84, 0, 252, 336)


# ---- any size, any box


@st.composite
def planned_boxes(draw):
    """A plan of any model for any size, and a box of the original."""
    model = draw(st.sampled_from(names()))
    height, width = draw(st.integers(40, 3000)), draw(st.integers(40, 3000))
    tops = sorted(draw(st.tuples(st.floats(0, height), st.floats(0, height))))
    lefts = sorted(draw(st.tuples(st.floats(0, width), st.floats(0, width))))
    try:
        made = plan(model, height, width, **WITH.get(model, {}))
    except ImageSizeError:
        assume(False)
    return made, Edges(tops[0], lefts[0], tops[1], lefts[1])


@settings(deadline=None)
@given(planned_boxes())
def test_there_and_back(case):
    made, box = case
    for view, found in zip(made.views, made.from_original(box), strict=True):
        part = shown_part(made, view)
        expected = Edges(*map(max, box[:2], part[:2]), *map(min, box[2:], part[2:]))
        if found is None:
            assert expected.top >= expected.bottom or expected.left >= expected.right
            continue
        assert made.to_original(view.name, found) == pytest.approx(expected, abs=1e-9)
        filled = filled_part(made, view)
        assert all(a >= b for a, b in zip(found[:2], filled[:2], strict=True))
        assert all(a <= b for a, b in zip(found[2:], filled[2:], strict=True))


@settings(deadline=None)
@given(planned_boxes())
def test_the_whole_canvas_covers_what_it_shows(case):
    made, _ = case
    for number, view in enumerate(made.views):
        top, left, bottom, right = made.to_original(number, (0, 0, *view.canvas))
        part = shown_part(made, view)
        assert top <= part.top <= part.bottom <= bottom
        assert left <= part.left <= part.right <= right
        assert made.to_original(number, (0, 0, 7, 7), scale=7) == (top, left, bottom, right)


# ---- where pixels go

MARK, AROUND = (0, 255, 0), (220, 0, 220)


@pytest.mark.parametrize("model", names())
@pytest.mark.parametrize(("size", "box"), [((300, 420), (100, 210, 170, 330)), ((900, 310), (500, 90, 720, 200))])
def test_pixels_go_where_boxes_say(model, size, box):
    preprocess = foveal.Preprocessor.from_spec(model, **WITH.get(model, {}))
    image = np.empty((*size, 3), np.uint8)
    image[:] = AROUND
    top, left, bottom, right = box
    image[top:bottom, left:right] = MARK
    features = preprocess(image)
    (made,) = features.plans
    pictures = view_pixels(made, features[features.batch.primary], preprocess.normalization)
    for view, picture, found in zip(made.views, pictures, made.from_original(box), strict=True):
        marked = (picture[..., 1] > 127) & (picture[..., 0] < 110)
        if found is None:
            assert not marked.any(), view.name
            continue
        rows, columns = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
        seen = (rows[0], columns[0], rows[-1] + 1, columns[-1] + 1)
        assert seen == pytest.approx(found, abs=1), view.name


# ---- errors


@pytest.mark.parametrize(
    ("view", "box", "text"),
    [
        ("tile", (0, 0, 1, 1), "no view has this name; the views of llama4 are tiles, global"),
        (2, (0, 0, 1, 1), "view 2: llama4 has views 0 to 1 of this image"),
        (-1, (0, 0, 1, 1), "view -1: llama4 has views 0 to 1 of this image"),
        (0, (0, 0, 1), "a box is four numbers: top, left, bottom, right"),
        (0, 5, "a box is four numbers: top, left, bottom, right"),
        (0, (0, 0, 1, "one"), "a box is four numbers: top, left, bottom, right"),
        (0, (0, 0, 1, math.nan), "a box is four finite numbers"),
        (0, (0, 0, math.inf, 1), "a box is four finite numbers"),
        (
            0,
            (9, 0, 3, 4),
            "box (9, 0, 3, 4): expected (top, left, bottom, right), where bottom is not above top and right not left "
            "of left; Edges.from_xyxy takes x1, y1, x2, y2",
        ),
    ],
)
def test_errors_say_what_is_wrong(view, box, text):
    with pytest.raises(OptionError) as caught:
        plan("llama4", 480, 640).to_original(view, box)
    assert str(caught.value) == text


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf])
def test_a_scale_is_above_zero(scale):
    made = plan("llama4", 480, 640)
    with pytest.raises(OptionError, match=r"^scale=.*: must be a finite number above 0$"):
        made.to_original(0, (0, 0, 1, 1), scale=scale)
    with pytest.raises(OptionError, match=r"^scale="):
        made.from_original((0, 0, 1, 1), scale=scale)
