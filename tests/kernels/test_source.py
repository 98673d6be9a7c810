"""Sources of every memory form give the pixels that a plain copy gives."""

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from views import pixels_of, run, view_of

from foveal.media.pixels import Pixels

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
    pixels = Pixels(90, 120, rows, 1, (0, 0, 0), None, (255, 255, 255), grey)
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


def test_nothing_beyond_a_row_is_read():
    """Rows end at the end of a mapped page; a read beyond it would end the process."""
    import mmap

    page = mmap.PAGESIZE
    for step, width in ((3, 40), (4, 30), (3, 7), (4, 5)):
        memory = mmap.mmap(-1, 2 * page)
        whole = np.frombuffer(memory, np.uint8)
        used = (width - 1) * step + 3
        protect(whole.ctypes.data + page, page)
        row = whole[page - used : page]
        row[:] = np.random.default_rng(width).integers(0, 256, used)
        rows = np.full(9, row.ctypes.data, np.uint64)
        pixels = Pixels(9, width, rows, step, (0, 1, 2), None, (255, 255, 255), whole)
        image = np.stack([[row[x * step : x * step + 3] for x in range(width)]] * 9)
        for size, vertical_first in (((9, width), False), ((5, 17), False), ((3, 17), True)):
            got = run(view_of(size, vertical_first=vertical_first), pixels).reshape(3, *size)
            want = naive.resize(image, size, "bicubic", "pillow", vertical_first)
            np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


def protect(address, size):
    """Forbid all access to whole pages."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0) == 0
