"""The faster decoder gives Pillow's pixels or leaves the file to Pillow."""

import io

import numpy as np
import pytest
from PIL import Image

from foveal.media import fast_jpeg
from foveal.media.fast_jpeg import decode_jpeg, is_available
from foveal.media.sources import open_source

NOISE = np.random.default_rng(3).integers(0, 256, (301, 517, 3), np.uint8)
SMOOTH = np.stack([np.linspace(0, 255, 301 * 517).reshape(301, 517)] * 3, axis=-1).astype(np.uint8)


def jpeg(pixels, mode="RGB", **options):
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def by_pillow(data):
    with Image.open(io.BytesIO(data)) as image:
        return image.mode, np.asarray(image)


def test_it_is_there():
    assert is_available()


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(1, 1), (1, 17), (17, 1), (7, 9), (16, 16), (33, 47), (301, 517)])
def test_colour(size, subsampling, progressive):
    for source in (NOISE, SMOOTH):
        for quality in (30, 60):
            pixels = source[: size[0], : size[1]]
            data = jpeg(pixels, subsampling=subsampling, progressive=progressive, quality=quality)
            mode, expected = by_pillow(data)
            np.testing.assert_array_equal(decode_jpeg(data, mode), expected)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"keep_rgb": True}])
def test_grey_restarts_and_rgb(options):
    for mode in ("RGB",) if "keep_rgb" in options else ("RGB", "L"):
        data = jpeg(NOISE, mode, **options)
        opened, expected = by_pillow(data)
        found = decode_jpeg(data, opened)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_cmyk_is_left_to_pillow():
    data = jpeg(NOISE, "CMYK")
    without_marker = data.replace(b"Adobe", b"Adobf")
    for file in (data, without_marker):
        assert decode_jpeg(file, "CMYK") is None
        with Image.open(io.BytesIO(file)) as image:
            expected = np.asarray(image.convert("RGB"))
        assert open_source(file).size == expected.shape[:2]


@pytest.mark.parametrize("cut", [2, 30, 200, 5000])
def test_damage_is_left_to_pillow(cut):
    data = jpeg(NOISE)
    assert decode_jpeg(data[:-cut], "RGB") is None or cut == 2
    assert decode_jpeg(b"\xff\xd8junk", "RGB") is None


def test_a_library_that_disagrees_is_not_used(monkeypatch):
    monkeypatch.setattr(fast_jpeg, "_decoded", lambda data, mode: None)
    fast_jpeg.is_available.cache_clear()
    try:
        assert not is_available()
        assert decode_jpeg(jpeg(NOISE), "RGB") is None
    finally:
        fast_jpeg.is_available.cache_clear()
