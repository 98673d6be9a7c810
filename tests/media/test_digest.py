import ctypes
import io
import threading

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from reading import encoded, noise, picture, read_bands

from foveal.errors import MediaError
from foveal.media import digest as module
from foveal.media import pillow_memory
from foveal.media.digest import digest_array, digest_bytes, digest_file, framed_digest
from foveal.media.sources import open_source

MODES = ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "I;16"]


def all_differ(digests):
    digests = list(digests)
    assert len(set(digests)) == len(digests)


# ---- framing


@given(st.lists(st.binary(max_size=9), max_size=6), st.lists(st.binary(max_size=9), max_size=6))
def test_no_two_sequences_of_fields_are_framed_alike(one, other):
    assert (framed_digest("test", one) == framed_digest("test", other)) == (one == other)


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_fields_cannot_borrow_from_each_other(data, first, second):
    first, second = sorted((min(first, len(data)), min(second, len(data))))
    parts = [data[:first], data[first:second], data[second:]]
    other = [data[:first], data[first:]]
    assert framed_digest("test", parts) != framed_digest("test", other)
    assert framed_digest("test", parts) != framed_digest("test", [data])


@given(st.lists(st.binary(max_size=9), max_size=6), st.binary(max_size=30), st.integers(1, 30))
def test_content_is_the_last_field_however_it_is_cut(fields, content, step):
    pieces = [content[start : start + step] for start in range(0, len(content), step)]
    whole = framed_digest("test", fields, len(content), [content])
    assert framed_digest("test", fields, len(content), pieces) == whole
    assert framed_digest("test", [*fields, content]) != whole
    assert framed_digest("another", fields, len(content), [content]) != whole


def test_content_has_the_size_that_was_announced():
    for size in (4, 6):
        with pytest.raises(AssertionError, match="not of the size"):
            framed_digest("test", [], size, [b"12345"])


# ---- encoded images


def test_encoded_images_have_the_digest_of_their_bytes(tmp_path):
    data = encoded(picture("RGB", 200, 300), "PNG")
    expected = blake3(data).hexdigest()
    path = tmp_path / "image.png"
    path.write_bytes(data)
    assert digest_bytes(data) == digest_file(io.BytesIO(data)) == expected
    for item in (data, bytearray(data), memoryview(data), path, str(path), io.BytesIO(data)):
        source = open_source(item)
        assert source.kind == "encoded"
        assert source.digest() == expected


def test_large_files_are_read_in_pieces(tmp_path):
    data = noise(1500, 1501, None).tobytes()
    assert digest_file(io.BytesIO(data)) == digest_bytes(data)


def test_bytes_after_the_end_count():
    for format in ("JPEG", "PNG", "GIF", "WEBP", "BMP"):
        data = encoded(picture("RGB"), format)
        all_differ(open_source(data + tail).digest() for tail in (b"", b"\0", b"\0\0", b"tail"))


def test_a_file_that_changed_has_no_digest(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(encoded(picture("RGB"), "PNG"))
    source = open_source(path)
    path.write_bytes(encoded(picture("L"), "PNG"))
    with pytest.raises(MediaError, match=r"^image.png: the file changed after it was opened$"):
        source.digest()
    path.unlink()
    with pytest.raises(MediaError, match=r"^image.png: cannot be opened: no such file or directory$"):
        source.digest()


def test_the_gil_is_not_held():
    data, counted, stop = bytes(256 << 20), [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        digest_bytes(data)
        assert counted[0] > before + 1000
    finally:
        stop.set()
        thread.join()


# ---- Pillow images


@pytest.mark.parametrize("mode", MODES)
def test_equal_pictures_have_one_digest(mode):
    image = convertible(mode)
    digest = digest_pillow(image)
    assert len(digest) == 64
    assert digest_pillow(image.copy()) == digest
    assert open_source(image).kind == "pillow"


def digest_pillow(image):
    return open_source(image).digest()


def convertible(mode):
    if mode in ("RGBa", "HSV", "LAB"):
        image = Image.new(mode, (11, 7))
        image.frombytes(noise(7, 11, len(image.getbands())).tobytes())
        return image
    return picture(mode)


def test_modes_differ():
    all_differ(digest_pillow(convertible(mode)) for mode in MODES)
    grey = noise(7, 11, None)
    l_mode, p_mode = Image.fromarray(grey), Image.new("P", (11, 7))
    p_mode.frombytes(grey.tobytes())
    p_mode.putpalette([value for value in range(256) for _ in range(3)])
    all_differ(map(digest_pillow, (l_mode, p_mode)))


@pytest.mark.parametrize("mode", MODES)
def test_every_visible_byte_counts(mode):
    image = convertible(mode)
    data = image.tobytes()
    digests = {digest_pillow(image)}
    last = len(data) - (2 if mode == "RGBX" else 1)  # X is padding
    for place in (0, len(data) // 2 // len(image.getbands()) * len(image.getbands()), last):
        changed = bytearray(data)
        changed[place] ^= 128
        other = image.copy()
        other.frombytes(bytes(changed))
        digests.add(digest_pillow(other))
    assert len(digests) == 4


def test_shapes_differ():
    for mode in ("L", "RGB", "RGBA", "P", "I;16"):
        all_differ(digest_pillow(Image.new(mode, size, 7)) for size in ((30, 150), (150, 30), (50, 90), (90, 50)))


def test_palettes_differ():
    image = picture("P")
    digests = [digest_pillow(image)]
    for entry in (0, 3, 44):
        palette = image.getpalette() + [0] * (768 - len(image.getpalette()))
        palette[entry] ^= 1
        other = image.copy()
        other.putpalette(palette)
        digests.append(digest_pillow(other))
    other = image.copy()
    other.putpalette(bytes(value for entry in range(256) for value in (entry, 0, 0, entry)), "RGBA")
    digests.append(digest_pillow(other))
    all_differ(digests)


def test_transparency_differs():
    digests = []
    for transparency in (None, 0, 1, b"\0", b"\1", b"\0\1", (0, 1, 2), (0, 1), (1, 0, 2)):
        image = picture("P")
        if transparency is not None:
            image.info["transparency"] = transparency
        digests.append(digest_pillow(image))
    all_differ(digests)
    for flag, number in ((True, 1), ((False, True, 2), (0, 1, 2))):
        one, other = picture("P"), picture("P")
        one.info["transparency"], other.info["transparency"] = flag, number
        assert digest_pillow(one) == digest_pillow(other)
    image.info["transparency"] = ["0"]
    with pytest.raises(MediaError, match="transparency is a list"):
        open_source(image).digest()


def test_other_info_makes_no_difference():
    image = picture("RGB")
    digest = digest_pillow(image)
    image.info.update(dpi=(72, 72), exif=b"Exif\0\0", comment=b"x", icc_profile=b"y", ImageID="1234")
    assert digest_pillow(image) == digest


HIDDEN = dict.fromkeys(("RGB", "RGBX", "YCbCr", "HSV", "LAB"), (3,)) | dict.fromkeys(("LA", "PA"), (1, 2))
"""Places of a pixel's four bytes that are part of no band."""


def fill_hidden(image, value):
    head = pillow_memory._Head.from_address(pillow_memory._capsule_pointer(image.getim(), b"Pillow Imaging"))
    for row in (ctypes.c_uint64 * image.height).from_address(head.image):
        for x in range(image.width):
            for place in HIDDEN[image.mode]:
                ctypes.c_uint8.from_address(row + 4 * x + place).value = value


@pytest.mark.parametrize("transparency", [None, (1, 2, 3)])
@pytest.mark.parametrize("mode", HIDDEN)
def test_padding_makes_no_difference(mode, transparency):
    """Neither to the digest, nor to the pixels that it stands for."""
    digests, pixels = set(), set()
    for value in (0, 99, 255):
        image = convertible(mode)
        if transparency is not None:
            image.info["transparency"] = transparency
        fill_hidden(image, value)
        digests.add(digest_pillow(image))
        pixels.add(read_bands(open_source(image).decode()).tobytes())
    assert len(digests) == len(pixels) == 1


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_memory_in_any_number_of_blocks_has_one_digest(mode, monkeypatch):
    image = picture(mode, 300, 400)
    expected = digest_pillow(image)
    monkeypatch.setattr(module, "_PICTURE_PIECE", 5000)
    assert digest_pillow(image) == expected
    monkeypatch.setattr(module, "_PICTURE_PIECE", 1)
    assert digest_pillow(image) == expected
    blocks, size = Image.core.get_blocks_max(), Image.core.get_block_size()
    Image.core.set_block_size(4096)
    try:
        split = image.copy()
        rows = pillow_memory.pillow_pixels(split).rows.astype(np.int64)
        assert len(set(np.diff(rows))) > 1
        assert digest_pillow(split) == expected
    finally:
        Image.core.set_block_size(size)
        Image.core.set_blocks_max(blocks)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_a_pillow_whose_memory_is_not_understood_gives_the_same_digest(mode, monkeypatch):
    image = picture(mode, 20, 30)
    expected = digest_pillow(image)
    monkeypatch.setattr(pillow_memory, "_struct_is_known", lambda: False)
    assert digest_pillow(image) == expected
    monkeypatch.setattr(pillow_memory, "_arrow_rows", lambda image: None)
    assert digest_pillow(image) == expected


def test_lazy_images_are_loaded():
    data = encoded(picture("RGB"), "PNG")
    assert open_source(Image.open(io.BytesIO(data))).digest() == digest_pillow(picture("RGB"))
    lazy = Image.open(io.BytesIO(data[:-100]))
    with pytest.raises(MediaError, match="cannot be loaded"):
        open_source(lazy).digest()


# ---- arrays


def test_arrays_in_any_memory_have_one_digest():
    array = noise(31, 17)
    expected = digest_array(array, False, None)
    larger = np.zeros((62, 51, 4), np.uint8)
    larger[::2, ::3, :3] = array
    for same in (array.copy("F"), array[::-1][::-1], larger[::2, ::3, :3], np.flip(np.flip(array, 2).copy(), 2)):
        assert digest_array(same, False, None) == expected
        assert open_source(same).digest() == expected


def test_arrays_that_differ():
    array = noise(4, 6)
    values = np.zeros((4, 6, 3), np.float32)
    all_differ(
        [
            digest_array(array, False, None),
            digest_array(array[::-1], False, None),
            digest_array(array.transpose(1, 0, 2), False, None),
            digest_array(array.reshape(6, 4, 3), False, None),
            digest_array(array.reshape(3, 4, 6), True, None),
            digest_array(array.reshape(3, 6, 4), True, None),
            digest_array(array.reshape(3, 4, 6), False, None),
            digest_array(array.reshape(12, 6), False, None),
            digest_array(array.reshape(12, 6, 1), False, None),
            digest_array(array, False, 255),
            digest_array(values, False, 1),
            digest_array(values, False, 255),
            digest_array(values.view(np.uint8).reshape(4, 6, 12), False, None),
            digest_array(values.astype(">f4"), False, 1),
            digest_array(values.astype(np.float64), False, 1),
            digest_array(values.view(np.int32), False, 1),
            digest_array(-values, False, 1),
        ]
    )


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_shapes_of_one_value_differ(height, width, other_height, other_width):
    one, other = np.zeros((height, width), np.uint8), np.zeros((other_height, other_width), np.uint8)
    same = (height, width) == (other_height, other_width)
    assert (digest_array(one, False, None) == digest_array(other, False, None)) == same


def test_an_array_and_its_options():
    array = noise(3, 3)
    all_differ(
        [
            open_source(array).digest(),
            open_source(array, input_data_format="channels_first").digest(),
            open_source(array.astype(np.float32), value_range=(0, 1)).digest(),
            open_source(array.astype(np.float32), value_range=(0, 255)).digest(),
        ]
    )
    assert open_source(array).kind == "array"


def test_padding_of_elements_makes_no_difference():
    array = np.ones((4, 5, 3), np.longdouble)
    other = array.copy()
    elements = other.view(np.uint8).reshape(4, 5, 3, other.itemsize)
    if np.finfo(np.longdouble).nmant == 63:
        elements[..., 10:] = 7
    np.testing.assert_array_equal(array, other)
    assert digest_array(array, False, 1) == digest_array(other, False, 1)
    assert digest_array(array * 2, False, 1) != digest_array(array, False, 1)


def test_an_array_of_another_class_is_what_it_holds():
    grey = noise(6, 7, None)
    assert open_source(grey.view(np.matrix)).digest() == open_source(grey).digest()


def test_kinds_differ():
    grey = noise(7, 11, None)
    image, data = Image.fromarray(grey), grey.tobytes()
    all_differ([digest_bytes(data), digest_pillow(image), digest_array(grey, False, None)])
    assert digest_pillow(image) != digest_bytes(image.tobytes())
