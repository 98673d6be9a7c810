"""Files that end early, lie in their header, or have bytes changed: an image as Pillow's, or one typed line."""

import io
import itertools
import struct
import warnings
import zlib

import numpy as np
import pytest
from hostile import chunk, gif, gif_frame, segment, truncations
from lines import check_line
from PIL import Image, ImageFile
from reading import encoded, exif, picture, read_rgb
from stacks import huggingface

from foveal import MediaError, inspect
from foveal.media.policy import PRESETS, DecodePolicy
from foveal.media.sources import open_source

PILLOW = PRESETS["huggingface"]
ACCEPTING = DecodePolicy(orientation="ignore", truncated="accept")

FILES = {
    "jpeg": encoded(picture("RGB", 48, 64), "JPEG", exif=exif(6)),
    "jpeg progressive": encoded(picture("RGB", 48, 64), "JPEG", progressive=True, subsampling=0),
    "jpeg cmyk": encoded(picture("CMYK", 48, 64), "JPEG"),
    "png": encoded(picture("RGBA", 24, 20), "PNG"),
    "png palette": encoded(picture("P", 24, 20), "PNG", transparency=bytes(9)),
    "png animated": encoded(picture("RGB", 24, 20), "PNG", save_all=True, append_images=[picture("L", 24, 20)]),
    "webp": encoded(picture("RGB", 48, 64), "WEBP"),
    "webp lossless": encoded(picture("RGBA", 24, 20), "WEBP", lossless=True),
    "webp animated": encoded(picture("RGB", 24, 20), "WEBP", save_all=True, append_images=[picture("L", 24, 20)]),
    "gif": encoded(picture("P", 24, 20), "GIF", transparency=3),
    "gif animated": encoded(picture("P", 24, 20), "GIF", save_all=True, append_images=[Image.new("P", (20, 24), 5)]),
    "tiff": encoded(picture("RGB", 24, 20), "TIFF"),
    "tiff strips": encoded(picture("RGB", 24, 20), "TIFF", strip_size=40),
    "tiff lzw": encoded(picture("RGB", 24, 20), "TIFF", compression="tiff_lzw"),
    "tiff deflate": encoded(picture("I;16", 24, 20), "TIFF", compression="tiff_adobe_deflate"),
    "bmp": encoded(picture("P", 24, 20), "BMP"),
    "ppm": encoded(picture("RGB", 24, 20), "PPM"),
    "qoi": encoded(picture("RGBA", 24, 20), "QOI"),
    "jpeg2000": encoded(picture("RGB", 40, 33), "JPEG2000"),
}


def as_pillow(data):
    """What Pillow makes of a file; None where it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return huggingface(data)
        except Exception:
            return None


def read(data, policy):
    """What Foveal makes of it; None where it refuses, in one line and a kind of its own."""
    try:
        source = open_source(data, policy=policy)
        got = read_rgb(source.decode())
    except MediaError as error:
        check_line(error)
        return None
    assert source.size == got.shape[:2]
    return got


def same(got, want):
    if want is None or got is None:
        assert want is got
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", FILES)
def test_cut_at_every_hundredth(name):
    """Refused where Pillow refuses, and else the same."""
    for data in truncations(FILES[name]):
        same(read(data, PILLOW), as_pillow(data))


@pytest.mark.parametrize("name", FILES)
def test_cut_at_every_hundredth_and_accepted(name, monkeypatch):
    """As with Pillow's flag for the whole process; never less than without, and never for another image."""
    for data in truncations(FILES[name]):
        got = read(data, ACCEPTING)
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False
        with monkeypatch.context() as patch:
            patch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
            want = as_pillow(data)
        if want is not None or got is None:
            same(got, want)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_at_every_hundredth(name):
    """An image of the size that the header says, or one line."""
    data = FILES[name]
    for place in range(0, len(data), max(1, len(data) // 100)):
        for value in (0, data[place] ^ 0x80, 255):
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            read(changed, PILLOW)
            try:
                inspect(changed)
            except MediaError as error:
                check_line(error)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_cut_is_refused_by_every_preset(preset):
    for name in ("jpeg", "png", "webp", "gif", "tiff"):
        if name == "tiff" and preset == "huggingface-path":
            continue
        assert read(FILES[name], PRESETS[preset]) is not None
        assert read(FILES[name][: len(FILES[name]) // 2], PRESETS[preset]) is None


# ---- headers that lie


def with_size(name, place, layout):
    """Return the file with another size at a place in its header."""

    def lie(*size):
        data = bytearray(FILES[name])
        struct.pack_into(layout, data, place, *size)
        if name.startswith("png"):
            struct.pack_into(">I", data, 29, zlib.crc32(data[12:29]))
        return bytes(data)

    return lie


def jpeg_with_size(height, width):
    data = bytearray(FILES["jpeg"])
    struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, height, width)
    return bytes(data)


def wide(lie):
    return lambda height, width: lie(width, height)


LIARS = {
    "jpeg": jpeg_with_size,
    "png": wide(with_size("png", 16, ">II")),
    "png palette": wide(with_size("png palette", 16, ">II")),
    "gif": wide(with_size("gif", 6, "<HH")),
    "bmp": wide(with_size("bmp", 18, "<ii")),
    "qoi": wide(with_size("qoi", 4, ">II")),
    "ppm": lambda height, width: b"P6 %d %d 255\n" % (width, height) + FILES["ppm"][13:],
    "webp": wide(with_size("webp", 26, "<HH")),
}


SIZES = list(itertools.product((1, 7, 400, 3000), repeat=2))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "{}x{}".format(*size))
@pytest.mark.parametrize("name", LIARS)
def test_a_header_that_lies(name, size):
    """Whoever asks Pillow gets the same; what is accepted has the size that was announced, for which it was planned."""
    data = LIARS[name](*size)
    want = as_pillow(data)
    try:
        pixels = open_source(data, policy=PILLOW).decode()
    except MediaError as error:
        check_line(error)
        assert want is None
    else:
        assert want is not None
        assert (pixels.height, pixels.width) == want.shape[:2]


@pytest.mark.parametrize("name", ["png", "png palette", "bmp", "qoi", "ppm", "jpeg", "gif"])
def test_an_announced_bomb_is_refused_from_the_header(name):
    with pytest.raises(MediaError, match=r"pixels|header is truncated or corrupt"):
        open_source(LIARS[name](60_000, 60_000))


def test_frames_larger_than_their_canvas():
    for data in (gif(gif_frame(height=60_000, width=60_000)), gif(gif_frame(), gif_frame(60_000, 60_000, 1, 1))):
        assert read(data, PILLOW) is None
        assert read(data, DecodePolicy(frame=1)) is None


def test_empty_files_and_files_of_a_signature_alone():
    for signature in (
        b"",
        b"\xff\xd8",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"RIFF\0\0\0\0WEBP",
        b"II*\0",
        b"BM",
        b"P6",
        b"qoif",
    ):
        assert read(signature, PILLOW) is None


def test_segments_and_chunks_without_end():
    for data in (
        b"\xff\xd8" + segment(0xE1, bytes(65_533)) * 40,
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)) + chunk(b"tEXt") * 50_000,
        b"GIF89a" + bytes(7) + b"!\xfe\x01a\0" * 50_000,
        FILES["tiff"][:4] + struct.pack("<I", 8) + struct.pack("<H", 65_535) + bytes(12) * 65_535,
    ):
        assert read(data, PILLOW) is None


def test_animations_end_in_any_frame():
    """The first frame is read where it is there, whatever follows it."""
    frames = [Image.new("P", (20, 24), value) for value in range(5)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    whole = read(data, PILLOW)
    for cut in truncations(data, 40):
        got = read(cut, PILLOW)
        same(got, as_pillow(cut))
        if got is not None:
            np.testing.assert_array_equal(got, whole)


def test_readers_that_stop_are_as_files_that_end():
    class Stops(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 100) if self.tell() < 300 else 0)

    with pytest.raises(MediaError, match="truncated or corrupt"):
        open_source(Stops(FILES["png"])).decode()
