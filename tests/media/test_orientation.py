import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps, TiffImagePlugin
from reading import encoded, exif, noise, picture, read_rgb, reference_rgb

from foveal.media.sources import open_source

IMAGE = Image.fromarray(noise(7, 11))
FORMATS = {"JPEG": {}, "PNG": {}, "WEBP": {"lossless": True}}


def expected(data):
    return reference_rgb(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("format", FORMATS)
def test_orientation_is_applied(format, order, orientation):
    data = encoded(IMAGE, format, exif=exif(orientation, order), **FORMATS[format])
    source = open_source(data)
    assert source.size == ((11, 7) if orientation > 4 else (7, 11))
    np.testing.assert_array_equal(read_rgb(source.decode()), expected(data))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "I;16"])
def test_orientation_of_other_modes(mode, orientation):
    data = encoded(picture(mode), "PNG", exif=exif(orientation))
    np.testing.assert_array_equal(read_rgb(open_source(data).decode()), expected(data))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
def test_tiff_is_turned_once(compression, orientation):
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[0x0112] = orientation
    data = encoded(IMAGE, "TIFF", tiffinfo=tags, compression=compression)
    source = open_source(data)
    assert source.size == ((11, 7) if orientation > 4 else (7, 11))
    np.testing.assert_array_equal(read_rgb(source.decode()), expected(data))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_png_with_exif_behind_its_pixels(orientation):
    data = encoded(IMAGE, "PNG")
    data = data[:-12] + chunk(b"tEXt", b"a\0b") + chunk(b"eXIf", exif(orientation)[6:]) + data[-12:]
    source = open_source(data)
    assert source.size == ((11, 7) if orientation > 4 else (7, 11))
    np.testing.assert_array_equal(read_rgb(source.decode()), expected(data))


@pytest.mark.parametrize("form", ['tiff:Orientation="6"', "<tiff:Orientation>6</tiff:Orientation>"])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_xmp_serves_where_exif_does_not_say(format, form):
    xmp = f"<x:xmpmeta>{form}</x:xmpmeta>".encode()
    if format == "JPEG":
        data = encoded(IMAGE, format, xmp=xmp)
    else:
        plain = encoded(IMAGE, format)
        data = plain[:33] + chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp) + plain[33:]
    assert open_source(data).size == (11, 7)
    np.testing.assert_array_equal(read_rgb(open_source(data).decode()), expected(data))
    exif_first = encoded(IMAGE, "JPEG", xmp=xmp, exif=exif(1))
    assert open_source(exif_first).size == (7, 11)


@pytest.mark.parametrize("digits", [exif(8)[6:].hex(), "not hexadecimal"])
def test_legacy_png_profile(digits):
    plain = encoded(IMAGE, "PNG")
    body = b"Raw profile type exif\0\0" + zlib.compress(f"\nexif\n      26\n{digits}\n".encode())
    data = plain[:33] + chunk(b"zTXt", body) + plain[33:]
    assert open_source(data).size == ((11, 7) if digits[0] != "n" else (7, 11))


whole = exif(6)
MALFORMED = {
    "empty": b"Exif\0\0",
    "no directory": whole[:12],
    "cut in its entry": whole[:-9],
    "no byte order": b"Exif\0\0XX" + whole[8:],
    "offset outside": whole[:10] + b"\xff\xff\xff\x7f" + whole[14:],
    "a long": whole[:18] + b"\x04" + whole[19:],
    "two values": whole[:20] + b"\x02" + whole[21:],
    "zero": exif(0),
    "nine": exif(9),
    "65535": exif(65535),
    "more entries than bytes": whole[:14] + b"\xff\xff\x99\x99" + whole[18:],
    "noise": b"Exif\0\0" + noise(1, 40, None).tobytes(),
}


@pytest.mark.parametrize("block", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_malformed_exif_means_upright(format, block):
    source = open_source(encoded(IMAGE, format, exif=block))
    assert source.size == (7, 11)
    source.decode()


def test_directory_cut_behind_the_orientation():
    two = whole[:14] + b"\x02\0" + whole[16:28]
    assert open_source(encoded(IMAGE, "JPEG", exif=two)).size == (11, 7)


@pytest.mark.parametrize("orientation", [3, 6])
def test_pillow_images_are_taken_as_they_are(orientation):
    image = Image.open(io.BytesIO(encoded(IMAGE, "PNG", exif=exif(orientation))))
    source = open_source(image)
    assert source.size == (7, 11)
    np.testing.assert_array_equal(read_rgb(source.decode()), np.asarray(IMAGE))
