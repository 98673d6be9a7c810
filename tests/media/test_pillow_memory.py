import gc
import time

import numpy as np
import pytest
from PIL import Image
from reading import noise, picture, read_bands, read_rgb, reference_rgb

from foveal.errors import MediaError
from foveal.media import pillow_memory
from foveal.media.sources import open_source

IN_PLACE = ["L", "LA", "RGB", "RGBA"]
CONVERTED = ["1", "P", "PA", "CMYK", "YCbCr", "HSV", "I", "F", "I;16", "I;16B", "RGBX", "RGBa", "LAB"]


def core_address(image):
    """Return the address of the pixels as the Arrow export names it."""
    rows, _ = pillow_memory._arrow_rows(image)
    return rows[0]


@pytest.mark.parametrize("mode", IN_PLACE)
def test_pixels_are_read_in_place(mode):
    image = picture(mode)
    pixels = open_source(image).decode()
    assert pixels.rows[0] == core_address(image)
    np.testing.assert_array_equal(read_rgb(pixels), reference_rgb(image))


@pytest.mark.parametrize("mode", CONVERTED)
def test_other_modes_are_converted_as_the_references_do(mode):
    image = picture(mode)
    np.testing.assert_array_equal(read_rgb(open_source(image).decode()), reference_rgb(image))


def test_a_mode_without_a_conversion():
    with pytest.raises(MediaError) as caught:
        open_source(picture("La")).decode()
    assert str(caught.value) == "mode La cannot be converted to RGB"


TRANSPARENT = [("L", 77), ("RGB", (1, 2, 3)), ("P", 3), ("P", bytes(range(0, 256, 16))), ("1", 0), ("L", None)]


@pytest.mark.parametrize(("mode", "transparency"), TRANSPARENT)
def test_transparency_in_the_info(mode, transparency):
    image = picture(mode)
    if mode == "L":
        image.putpixel((2, 3), 77)
    if mode == "RGB":
        image.putpixel((2, 3), (1, 2, 3))
    image.info["transparency"] = transparency
    pixels = open_source(image).decode()
    assert (pixels.alpha is None) == (transparency is None)
    np.testing.assert_array_equal(read_rgb(pixels), reference_rgb(image))


def test_grey_is_one_byte_and_grey_with_alpha_is_four():
    grey, alpha = (open_source(picture(mode)).decode() for mode in ("L", "LA"))
    assert (grey.step, grey.channels, grey.alpha) == (1, (0, 0, 0), None)
    assert (alpha.step, alpha.channels, alpha.alpha) == (4, (0, 0, 0), 3)


def test_images_of_several_memory_blocks():
    image = Image.fromarray(noise(2300, 2300))
    assert pillow_memory._arrow_rows(image) is None
    pixels = open_source(image).decode()
    assert len(set(np.diff(pixels.rows.astype(np.int64)))) > 1
    for y in (0, 1799, 2299):
        row = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * (4 * 2300)).from_address(int(pixels.rows[y])))
        np.testing.assert_array_equal(row.reshape(-1, 4)[:, :3], np.asarray(image.crop((0, y, 2300, y + 1)))[0])


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("route", ["arrow", "array"])
def test_routes_for_an_unknown_struct(mode, route, monkeypatch):
    monkeypatch.setattr(pillow_memory, "_struct_is_known", lambda: False)
    if route == "array":
        monkeypatch.setattr(pillow_memory, "_arrow_rows", lambda image: None)
    image = picture(mode)
    pixels = open_source(image).decode()
    if route == "arrow":
        assert pixels.rows[0] == core_address(image)
    np.testing.assert_array_equal(read_rgb(pixels), reference_rgb(image))


def test_several_memory_blocks_and_an_unknown_struct(monkeypatch):
    """There is no Arrow export of them: what is left is a copy."""
    monkeypatch.setattr(pillow_memory, "_struct_is_known", lambda: False)
    pixels = open_source(Image.fromarray(noise(2300, 2300))).decode()
    assert isinstance(pixels.owner, np.ndarray)
    np.testing.assert_array_equal(pixels.owner, noise(2300, 2300))


@pytest.mark.parametrize("field", ["xsize", "bands", "linesize", "image8", "image32"])
def test_an_image_that_is_not_as_its_struct_says(field, monkeypatch):
    """Each image is checked, not the struct of the installed Pillow alone."""
    real = pillow_memory._Head.from_address

    class Lying(pillow_memory._Head):
        @classmethod
        def from_address(cls, address):
            head = cls.from_buffer_copy(real(address))
            setattr(head, field, 7 if getattr(head, field) is None else getattr(head, field) + 1)
            return head

    assert pillow_memory._struct_is_known()
    monkeypatch.setattr(pillow_memory, "_Head", Lying)
    for mode in IN_PLACE:
        image = picture(mode)
        assert pillow_memory._struct_rows(image) is None
        np.testing.assert_array_equal(read_rgb(open_source(image).decode()), reference_rgb(image))


def test_the_installed_struct_is_known_and_another_is_not(monkeypatch):
    assert pillow_memory._struct_is_known()

    class Shifted(pillow_memory.ctypes.Structure):
        _fields_ = (("more", pillow_memory.ctypes.c_int64), *pillow_memory._Head._fields_)

    monkeypatch.setattr(pillow_memory, "_Head", Shifted)
    assert not pillow_memory._struct_is_known.__wrapped__()


@pytest.mark.parametrize("route", ["struct", "arrow", "array"])
def test_owner_keeps_the_memory_alive(route, monkeypatch):
    if route != "struct":
        monkeypatch.setattr(pillow_memory, "_struct_is_known", lambda: False)
    if route == "array":
        monkeypatch.setattr(pillow_memory, "_arrow_rows", lambda image: None)
    image = Image.fromarray(noise(700, 900))
    pixels = open_source(image).decode()
    image.close()
    del image
    gc.collect()
    Image.new("RGB", (900, 700), (9, 9, 9))
    small = pixels.rows[:5]
    assert len(small) == 5
    first = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 3).from_address(int(pixels.rows[0])))
    np.testing.assert_array_equal(first, noise(700, 900)[0, 0])


def test_row_addresses_of_12_megapixels_cost_little():
    image = Image.new("RGB", (4000, 3000))
    open_source(image).decode()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        open_source(image).decode()
        times.append(time.perf_counter() - start)
    assert min(times) < 100e-6


def test_one_pixel():
    image = Image.new("RGB", (1, 1), (1, 2, 3))
    assert read_bands(open_source(image).decode()).tolist() == [[[1, 2, 3]]]


def test_an_image_without_pixels():
    with pytest.raises(MediaError) as caught:
        open_source(Image.new("RGB", (0, 5)))
    assert str(caught.value) == "the image has no pixels (5x0, height x width)"
