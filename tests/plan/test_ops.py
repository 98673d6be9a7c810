"""Ops: what a view's steps do, alone and one after the other, beside the same steps done to an array."""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.errors import ImageSizeError
from foveal.plan.ops import OPS, Draft
from foveal.spec import schema, steps
from foveal.spec.schema import AnyOp
from foveal.types import Box, Size

unhurried = settings(deadline=None)
GREY = (9, 8, 7)
OUTSIDE = -1


def step(op, **fields):
    """Return an op of a spec."""
    return msgspec.convert({"op": op, **fields}, AnyOp)


def to(op, **fields):
    """Return an op that resizes."""
    return step(op, filter="box", **fields)


NOTHING = Size(0, 0)


def drafted(height, width, *given, canvas=NOTHING, window=None):
    draft = Draft(window or Box(0, 0, height, width))
    for each in given:
        OPS[type(each)](each, draft, canvas)
    return draft


def crop(height, width, odd="after", enabled=True):
    return step("center_crop", enabled=enabled, size={"height": height, "width": width}, odd_pad=odd)


def square(enabled=True):
    return step("pad_to_square", enabled=enabled, fill=GREY)


def resize(height, width, enabled=True):
    return step("resize", enabled=enabled, size={"height": height, "width": width}, filter="lanczos")


def put(anchor):
    return step("pad_to_canvas", anchor=anchor, fill=GREY)


def test_every_op_of_a_spec_has_a_function():
    assert set(OPS) == set(AnyOp.__args__)
    assert {kind.__struct_config__.tag for kind in OPS} == {function.__name__[1:] for function in OPS.values()}


# ---- alone


@pytest.mark.parametrize(
    ("given", "size", "canvas", "expected"),
    [
        (resize(30, 40), (100, 100), None, (30, 40)),
        (to("resize", enabled=True, size={"shortest_edge": 30}), (100, 200), None, (30, 60)),
        (to("resize_longest_edge", enabled=True, edge=100, cap=4096), (30, 77), None, (38, 100)),
        (to("resize_to_multiple", enabled=True, of=64), (30, 77), None, (64, 128)),
        (to("resize_longest_side", enabled=True, side=100, least=50), (30, 90), None, (50, 100)),
        (to("stretch_to_canvas"), (30, 90), (64, 64), (64, 64)),
        (to("fit_canvas", round="up"), (30, 91), (64, 64), (22, 64)),
        (to("fit_canvas", round="down"), (30, 91), (64, 64), (21, 64)),
        (to("hd_resize"), (30, 91), (336, 672), (221, 672)),
        (to("resize_to_canvas", grow_limit=50, grow=False, precision="float64"), (30, 90), (99, 99), (30, 90)),
        (to("resize_to_canvas", grow_limit=50, grow=True, precision="float64"), (30, 90), (99, 99), (33, 99)),
        (
            to("smart_resize", enabled=True, patch=14, merge=2, min_pixels=1, max_pixels=10**6, max_aspect=200),
            (30, 90),
            None,
            (28, 84),
        ),
        (
            to("resize_bounded_edge", enabled=True, bound={"height": 50, "width": 60}, patch=4, merge=2),
            (100, 60),
            None,
            (56, 32),
        ),
        (to("navit_resize", enabled=True, patch=10, max_patches=6, max_side=9), (30, 90), None, (14, 42)),
        (to("limit_patches", patch=10, merge=1, max_patches=12, max_side=99), (30, 90), None, (20, 60)),
    ],
)
def test_a_resize_reads_the_whole_and_keeps_the_whole(given, size, canvas, expected):
    draft = drafted(*size, given, canvas=Size(*canvas or (0, 0)))
    assert draft.window == (0, 0, *size)
    assert draft.resized == draft.canvas == expected
    assert draft.crop == (0, 0, *expected)
    assert (draft.place, draft.is_resized, draft.filter) == ((0, 0), True, given.filter)


@pytest.mark.parametrize(
    "given",
    [
        resize(3, 4, enabled=False),
        crop(3, 4, enabled=False),
        square(enabled=False),
        step("pad_to_multiple", enabled=False, patch=14, merge=2, fill=GREY),
        to("resize_longest_edge", enabled=False, edge=9, cap=9),
        to("resize_longest_side", enabled=False, side=9, least=9),
        to("navit_resize", enabled=False, patch=1, max_patches=1, max_side=1),
        to("resize_bounded_edge", enabled=False, bound={"height": 1, "width": 1}, patch=1, merge=1),
    ],
)
def test_what_is_not_enabled_does_nothing(given):
    draft, untouched = drafted(30, 90, given), drafted(30, 90)
    assert vars(draft) == vars(untouched)
    assert draft.canvas == (30, 90)


def test_a_multiple_that_is_not_enabled_is_one_tile():
    draft = drafted(30, 90, to("resize_to_multiple", enabled=False, of=64))
    assert draft.resized == (64, 64)


@pytest.mark.parametrize(("height", "width", "on_its_side"), [(91, 30, True), (30, 91, False), (50, 50, False)])
def test_an_upright_image_lies_on_its_side_for_hd(height, width, on_its_side):
    assert drafted(height, width, to("hd_resize"), canvas=Size(336, 336)).on_its_side is on_its_side


def test_fixed_taps_need_whole_tiles():
    draft = drafted(672, 336, step("fixed_taps", tile=336))
    assert (draft.resized, draft.filter, draft.method) == ((336, 336), "bicubic", "fixed_taps")
    with pytest.raises(ImageSizeError, match=r"^672x337 is not made of whole tiles of 336$"):
        drafted(672, 337, step("fixed_taps", tile=336))


def test_a_method_is_kept():
    linear = step("stretch_to_canvas", filter="bilinear", method="linear")
    assert drafted(5, 5, linear, canvas=Size(3, 3)).method == "linear"


@pytest.mark.parametrize(
    ("size", "patches", "text"),
    [
        ((14, 20000), 1, "would be resized to 0x529"),
        ((27, 7169), 4096, "would have 514 patches along an edge: it must be less than 512"),
        ((7168, 5), 4096, "would have 512 patches along an edge: it must be less than 512"),
    ],
)
def test_limit_patches_refuses_what_the_model_cannot_take(size, patches, text):
    with pytest.raises(ImageSizeError, match=f"^{text}$"):
        drafted(*size, to("limit_patches", patch=14, merge=2, max_patches=patches, max_side=512))


# ---- crops and canvases


@pytest.mark.parametrize(
    ("size", "odd", "box", "place"),
    [
        ((9, 7), "after", (2, 1, 4, 5), (0, 0)),  # 5 and 2 are left over: 2 and 1 before
        ((9, 4), "after", (2, 0, 4, 4), (0, 0)),  # one column is missing: after
        ((9, 4), "before", (2, 0, 4, 4), (0, 1)),
        ((1, 2), "after", (0, 0, 1, 2), (1, 1)),
        ((1, 2), "before", (0, 0, 1, 2), (2, 2)),
    ],
)
def test_center_crop_by_hand(size, odd, box, place):
    draft = drafted(*size, crop(4, 5, odd))
    assert draft.crop == box
    assert (draft.canvas, draft.place, draft.fill) == ((4, 5), place, (0, 0, 0))


@pytest.mark.parametrize(("anchor", "place"), [("top_left", (0, 0)), ("center", (3, 5))])
def test_pad_to_canvas_by_hand(anchor, place):
    draft = drafted(4, 6, put(anchor), canvas=Size(11, 17))
    assert (draft.canvas, draft.place, draft.fill, draft.window) == ((11, 17), place, GREY, (0, 0, 4, 6))


def test_pad_to_square_before_a_resize_reads_beyond_the_edges():
    draft = drafted(4, 7, square(), resize(3, 3))
    assert (draft.window, draft.border) == ((-1, 0, 7, 7), GREY)
    assert (draft.resized, draft.canvas, draft.place) == ((3, 3), (3, 3), (0, 0))
    assert drafted(7, 4, square()).window == (0, -1, 7, 7)
    assert drafted(7, 7, square()).window == (0, 0, 7, 7)


def test_pad_to_square_after_a_resize_puts_on_a_canvas():
    draft = drafted(10, 10, resize(4, 7), square())
    assert (draft.window, draft.canvas, draft.place, draft.fill) == ((0, 0, 10, 10), (7, 7), (1, 0), GREY)


def test_pad_to_square_with_what_is_no_colour():
    fill = [300, 0, -1]
    assert drafted(7, 8, step("pad_to_square", enabled=False, fill=fill)).canvas == (7, 8)
    text = r"^would be padded with the colour \[300, 0, -1\]: levels go from 0 to 255$"
    with pytest.raises(ImageSizeError, match=text):
        drafted(7, 8, step("pad_to_square", enabled=True, fill=fill))


def test_pad_to_multiple_fills_below_and_to_the_right():
    draft = drafted(29, 56, step("pad_to_multiple", enabled=True, patch=14, merge=2, fill=GREY))
    assert (draft.canvas, draft.place, draft.fill) == ((56, 56), (0, 0), GREY)


def test_a_window_is_resized_as_it_is():
    draft = drafted(0, 0, resize(3, 3), window=Box(5, 6, 7, 8))
    assert (draft.window, draft.resized) == ((5, 6, 7, 8), (3, 3))


# ---- one after the other


def numbered(height, width):
    """Return a picture whose pixels are numbered."""
    return np.arange(height * width).reshape(height, width)


def padded(array, height, width, top, left):
    out = np.full((height, width), OUTSIDE)
    out[top : top + array.shape[0], left : left + array.shape[1]] = array
    return out


def done(given, array, canvas):
    """Do a step to an array, as a reference would."""
    height, width = array.shape
    match given:
        case steps.PadToSquare(enabled=True):
            side = max(height, width)
            return padded(array, side, side, (side - height) // 2, (side - width) // 2)
        case steps.PadToCanvas(anchor="top_left"):
            return padded(array, *canvas, 0, 0)
        case steps.PadToCanvas():
            return padded(array, *canvas, (canvas.height - height) // 2, (canvas.width - width) // 2)
        case steps.PadToMultiple(enabled=True, patch=patch, merge=merge):
            return padded(array, height + -height % (patch * merge), width + -width % (patch * merge), 0, 0)
        case steps.CenterCrop(enabled=True, size=size, odd_pad=odd):
            more = odd == "before"
            high, wide = max(height, size.height), max(width, size.width)
            array = padded(array, high, wide, (high - height + more) // 2, (wide - width + more) // 2)
            top, left = (high - size.height) // 2, (wide - size.width) // 2
            return array[top : top + size.height, left : left + size.width]
    return array


def read(draft, array):
    """Return what a draft that resizes nothing leaves of an array."""
    top, left, height, width = draft.window
    window = np.full((height, width), OUTSIDE)
    for row, column in itertools.product(range(height), range(width)):
        if 0 <= top + row < array.shape[0] and 0 <= left + column < array.shape[1]:
            window[row, column] = array[top + row, left + column]
    assert draft.resized == window.shape
    top, left, height, width = draft.crop
    return padded(window[top : top + height, left : left + width], *draft.canvas, *draft.place)


flags = st.booleans()
parts = st.integers(1, 12)
crops = st.builds(crop, parts, parts, st.sampled_from(["after", "before"]), flags)
multiples = st.builds(
    lambda patch, enabled: step("pad_to_multiple", enabled=enabled, patch=patch, merge=1, fill=GREY), parts, flags
)
last = st.one_of(crops, multiples, st.builds(square, flags), st.sampled_from([put("top_left"), put("center")]))


@unhurried
@given(parts, parts, st.lists(st.builds(square, flags), max_size=2), st.lists(last, max_size=1))
def test_steps_follow_one_another_as_they_would_on_an_array(height, width, before, after):
    canvas = Size(max(height, width) + 3, max(height, width) + 2)
    given_steps = (*before, *after)
    schema.Stage("own", given_steps, canvas=steps.DynamicHd(1, 1))  # what the schema admits
    array = expected = numbered(height, width)
    for each in given_steps:
        expected = done(each, expected, canvas)
    np.testing.assert_array_equal(read(drafted(height, width, *given_steps, canvas=canvas), array), expected)
