"""Sources of every memory form give the pixels that a plain copy gives."""

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from views import guarded_pixels, pixels_of, run, view_of

from foveal.media.pixels import ON_WHITE, Pixels
from foveal.run.reading import source_of
from foveal.types import Box
from foveal_kernels.source import is_interleaved

BIG = np.random.default_rng(5).integers(0, 256, (90, 120, 4), dtype=np.uint8)
PLANES = np.ascontiguousarray(BIG[..., :3].transpose(2, 0, 1)).transpose(1, 2, 0)
FORMS = {
    "rgb": np.ascontiguousarray(BIG[..., :3]),
    "rgbx": BIG[..., :3],
    "window": BIG[7:70, 11:93, :3],
    "upside down": BIG[::-1, :, :3],
    "mirrored": BIG[:, ::-1, :3],
    "every other column": BIG[:, ::2, :3],
    "bgr": BIG[..., 2::-1],
    "planes": PLANES,
    "narrow": np.ascontiguousarray(BIG[:, :13, :3]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(90, 120), (41, 57), (200, 9)])
@pytest.mark.parametrize("vertical_first", [False, True])
def test_memory_forms(level, form, size, vertical_first):
    image = FORMS[form]
    got = run(view_of(size, vertical_first=vertical_first), pixels_of(image)).reshape(3, *size)
    want = naive.resize(np.ascontiguousarray(image), size, "bicubic", "pillow", vertical_first)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


def test_form_without_resize():
    for image in FORMS.values():
        size = image.shape[:2]
        got = run(view_of(size), pixels_of(image)).reshape(3, *size)
        np.testing.assert_array_equal(got.transpose(1, 2, 0), image)


@pytest.mark.parametrize("vertical_first", [False, True])
def test_grey_is_three_equal_channels(level, vertical_first):
    grey = np.ascontiguousarray(BIG[..., 0])
    rows = (grey.ctypes.data + np.arange(90) * 120).astype(np.uint64)
    pixels = Pixels(90, 120, rows, 1, (0, 0, 0), None, ON_WHITE, grey)
    got = run(view_of((30, 77), vertical_first=vertical_first), pixels).reshape(3, 30, 77)
    want = naive.resize(np.repeat(grey[..., None], 3, 2), (30, 77), "bicubic", "pillow", vertical_first)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@given(st.tuples(*[st.integers(0, 255)] * 3), st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_alpha_is_composited_before_the_resize(level, background, vertical_first):
    got = run(view_of((33, 40), vertical_first=vertical_first), pixels_of(BIG, background)).reshape(3, 33, 40)
    want = naive.resize(naive.composite(BIG, background), (33, 40), "bicubic", "pillow", vertical_first)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


def test_composite_equals_pillow_for_every_value_and_alpha():
    values, alpha = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    rgba = np.ascontiguousarray(np.stack([values, values, values, alpha], -1))
    for background in ((255, 255, 255), (0, 0, 0), (7, 100, 201)):
        back = Image.new("RGBA", (256, 256), (*background, 255))
        want = np.asarray(Image.alpha_composite(back, Image.fromarray(rgba)).convert("RGB"))
        np.testing.assert_array_equal(naive.composite(rgba, background), want)
        got = run(view_of((256, 256)), pixels_of(rgba, background)).reshape(3, 256, 256)
        np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


def drawn_part(data, size):
    """A part of a picture, and the canvas that it is put on."""
    top, left = data.draw(st.integers(0, size[0] - 1)), data.draw(st.integers(0, size[1] - 1))
    height, width = data.draw(st.integers(1, size[0] - top)), data.draw(st.integers(1, size[1] - left))
    place = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 70)))
    canvas = (height + place[0] + data.draw(st.integers(0, 5)), width + place[1] + data.draw(st.integers(0, 70)))
    return Box(top, left, height, width), place, canvas


WINDOW_FORMS = {
    **{name: pixels_of(image) for name, image in FORMS.items()},
    "alpha": pixels_of(BIG, (9, 200, 77)),
    "grey": Pixels(90, 120, pixels_of(BIG).rows, 4, (0, 0, 0), None, ON_WHITE, BIG),
}
WINDOW_IMAGES = {
    **{name: np.ascontiguousarray(image) for name, image in FORMS.items()},
    "alpha": naive.composite(BIG, (9, 200, 77)),
    "grey": np.repeat(BIG[..., :1], 3, 2),
}
METHODS = ["horizontal first", "vertical first", "linear", "none"]


@pytest.mark.parametrize("method", METHODS)
@given(
    form=st.sampled_from(list(WINDOW_FORMS)),
    corner=st.tuples(st.integers(-60, 100), st.integers(-60, 130)),
    size=st.tuples(st.integers(1, 160), st.integers(1, 200)),
    resized=st.tuples(st.integers(1, 130), st.integers(1, 130)),
    cut=st.integers(0, 130),
    data=st.data(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_window_is_a_picture_of_its_own(level, method, form, corner, size, resized, cut, data):
    """Wherever it lies, and however much of it is border, of which nothing bleeds into the rest or the other way."""
    resized = size if method == "none" else resized
    crop, place, canvas = drawn_part(data, resized)
    view = view_of(
        resized,
        window=(*corner, *size),
        border=(255, 0, 130),
        method="linear" if method == "linear" else "antialias",
        vertical_first=method == "vertical first",
        crop=crop,
        canvas=canvas,
        place=place,
        fill=(1, 2, 3),
    )
    cut = min(cut, canvas[0])
    got = run(view, WINDOW_FORMS[form], bands=[(cut, canvas[0]), (0, cut)]).reshape(3, *canvas)
    picture = naive.window(WINDOW_IMAGES[form], (*corner, *size), (255, 0, 130))
    if method == "linear":
        picture = naive.linear(picture, resized)
    else:
        picture = naive.resize(picture, resized, "bicubic", "pillow", method == "vertical first")
    picture = picture[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
    np.testing.assert_array_equal(got.transpose(1, 2, 0), naive.canvas(picture, canvas, place, (1, 2, 3)))


def test_rows_are_read_where_they_lie():
    """A window, and a border above and below it, leave the pixels of RGB rows in place: only addresses are new."""
    pixels = pixels_of(FORMS["rgb"])
    inside, _ = source_of(pixels, Box(10, 20, 30, 40), (1, 2, 3))
    assert inside.rows.tolist() == (pixels.rows[10:40] + np.uint64(60)).tolist()
    assert is_interleaved.py_func(inside)
    padded, edge = source_of(pixels, Box(-5, 20, 100, 40), (1, 2, 3))
    assert padded.rows[5:95].tolist() == (pixels.rows + np.uint64(60)).tolist()
    assert padded.rows[[0, 4, 95, 99]].tolist() == [edge.ctypes.data] * 4
    assert edge.tolist() == [[1, 2, 3]] * 40
    assert is_interleaved.py_func(padded)
    beside, _ = source_of(pixels, Box(-5, -1, 100, 40), (1, 2, 3))
    assert not is_interleaved.py_func(beside)
    assert (beside.left, beside.right) == (1, 0)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize(("step", "width"), [(3, 40), (4, 30), (3, 7), (4, 5), (3, 64), (4, 64), (3, 1)])
def test_nothing_beyond_a_row_is_read(step, width, at_end):
    image = np.random.default_rng(width).integers(0, 256, (9, width, 3), dtype=np.uint8)
    pixels = guarded_pixels(image, step, at_end)
    boxes = [(0, 0, 9, width), (2, width // 2, 5, width - width // 2), (-3, 0, 20, width), (-1, -2, 11, width + 9)]
    for box in boxes:
        picture = naive.window(image, box, (7, 8, 9))
        for size, vertical_first in ((box[2:], False), ((5, 17), False), ((3, 17), True), ((40, 130), True)):
            view = view_of(size, window=box, border=(7, 8, 9), vertical_first=vertical_first)
            got = run(view, pixels).reshape(3, *size)
            want = naive.resize(picture, size, "bicubic", "pillow", vertical_first)
            np.testing.assert_array_equal(got.transpose(1, 2, 0), want)
