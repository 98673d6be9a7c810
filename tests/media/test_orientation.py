import contextlib
import io
import struct
import tracemalloc
import warnings
import zlib
from functools import partial

import numpy as np
import pytest
from hostile import jpeg_with, png_with, segment
from hypothesis import given, settings
from hypothesis import strategies as st
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
    """Where it cannot be read, Pillow does not look at XMP any more."""
    plain = encoded(IMAGE, "PNG")
    body = b"Raw profile type exif\0\0" + zlib.compress(f"\nexif\n      26\n{digits}\n".encode())
    xmp = chunk(b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<x tiff:Orientation="6"/>')
    data = plain[:33] + chunk(b"zTXt", body) + xmp + plain[33:]
    assert open_source(data).size == ((11, 7) if digits[0] != "n" else (7, 11))
    same_as_pillow(data)
    late = data[:-12] + chunk(b"eXIf", exif(1)[6:]) + data[-12:]
    assert open_source(late).size == (7, 11)
    same_as_pillow(late)


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


def same_as_pillow(data):
    """Compare with what vLLM does: Pillow's own rule, and what was stored where that raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        with contextlib.suppress(Exception):
            image = ImageOps.exif_transpose(image)
    np.testing.assert_array_equal(read_rgb(open_source(data).decode()), reference_rgb(image))


@pytest.mark.parametrize("block", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_malformed_exif_is_read_as_pillow_reads_it(format, block):
    same_as_pillow(encoded(IMAGE, format, exif=block))


def ifd(order, *entries, magic=42, count=None, start=8, end=None):
    """Return an EXIF block with entries (tag, type, count, four bytes)."""
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "HI", magic, start)
    parts = [struct.pack(order + "HHI", *entry[:3]) + entry[3].ljust(4, b"\0") for entry in entries]
    number = struct.pack(order + "H", len(entries) if count is None else count)
    return (head + number + b"".join(parts) + bytes(4))[:end]


def odd_blocks(order):
    """Return orientation 6 in every type, and directories that are wrong in other ways."""
    number = partial(struct.pack, order + "H")
    six = (0x0112, 3, 1, number(6))
    types = "BBHLL bBhlLfd L  Q"
    for kind in range(19):
        form = types[kind - 1 : kind] if types[kind - 1 : kind].strip() else "H"
        for count in (0, 1, 2, 3, 1 << 20):
            yield f"type {kind}, {count} values", ifd(order, (0x0112, kind, count, struct.pack(order + form, 6)[:4]))
        behind = struct.pack(order + "I", 30)
        for value in (struct.pack(order + "II", 6, 1), struct.pack(order + "d", 6), struct.pack(order + "Q", 6)):
            yield f"type {kind}, behind", ifd(order, (0x0112, kind, 1, behind)).ljust(30, b"\0") + value
    for magic in (0, 42 << 8, 43, 43 << 8):
        yield f"magic {magic}", ifd(order, six, magic=magic)
    for place in (0, 1, 9, 1 << 31):
        yield f"start {place}", ifd(order, six, start=place)
    for end in range(45):
        yield f"cut at {end}", ifd(order, six, (0x0100, 3, 1, number(9)), end=end)
    for first in (3, 9):
        yield f"{first} before 6", ifd(order, (0x0112, 3, 1, number(first)), six)
    far = struct.pack(order + "I", 5000)
    for name, entry in {
        "cut": (0x010F, 2, 20, far),
        "too large": (0x010F, 2, 99999, far),
        "unknown": (0x010F, 77, 1, far),
        "empty": (0x010F, 2, 0, far),
        "twice the block": (0x010F, 2, 40, bytes(4)),
    }.items():
        yield f"behind one that is {name}", ifd(order, entry, entry, (0x0110, *entry[1:]), six)
    yield "more entries than there are", ifd(order, six, count=9)
    yield "prefix twice", b"Exif\0\0" + ifd(order, six)
    yield "prefix three times", b"Exif\0\0" * 2 + ifd(order, six)


ODD = {f"{order} {name}": block for order in "<>" for name, block in odd_blocks(order)}


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_odd_exif_is_read_as_pillow_reads_it(format):
    for name, block in ODD.items():
        try:
            same_as_pillow(encoded(IMAGE, format, exif=b"Exif\0\0" + block))
        except AssertionError as error:
            raise AssertionError(name) from error
    assert open_source(encoded(IMAGE, format, exif=b"Exif\0\0" + ODD["< type 4, 1 values"])).size == (11, 7)


def test_xmp_is_read_only_where_pillow_reads_it():
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="6"/>'
    turned = []
    for name, block in {**ODD, "none": b"", "noise": b"garbage"}.items():
        data = jpeg_with(segment(0xE1, b"Exif\0\0" + block), segment(0xE1, xmp), height=7, width=11)
        same_as_pillow(data)
        turned += [name] if open_source(data).size == (11, 7) else []
    assert "none" in turned
    assert "noise" not in turned


@given(st.sampled_from(sorted(ODD)), st.lists(st.tuples(st.integers(0, 60), st.binary(min_size=1, max_size=4))))
@settings(max_examples=300, deadline=None)
def test_any_exif_is_read_as_pillow_reads_it(name, changes):
    block = bytearray(ODD[name])
    for place, value in changes:
        block[place : place + len(value)] = value
    same_as_pillow(encoded(IMAGE, "PNG", exif=b"Exif\0\0" + bytes(block)))


def test_a_directory_without_end_costs_little():
    """65,535 entries, each with a value as large as the block."""
    entry = struct.pack("<HHII", 0x010F, 2, 700_000, 0)
    block = b"II*\0\x08\0\0\0\xff\xff" + b"".join(struct.pack("<H", tag) + entry[2:] for tag in range(1 << 16))
    data = png_with(chunk(b"eXIf", block))
    tracemalloc.start()
    assert open_source(data).size == (40, 60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_directory_cut_behind_the_orientation():
    two = whole[:14] + b"\x02\0" + whole[16:28]
    assert open_source(encoded(IMAGE, "JPEG", exif=two)).size == (11, 7)


@pytest.mark.parametrize("orientation", [3, 6])
def test_pillow_images_are_taken_as_they_are(orientation):
    image = Image.open(io.BytesIO(encoded(IMAGE, "PNG", exif=exif(orientation))))
    source = open_source(image)
    assert source.size == (7, 11)
    np.testing.assert_array_equal(read_rgb(source.decode()), np.asarray(IMAGE))
