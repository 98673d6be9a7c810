"""Images that cost more than their pixels say."""

import struct
import time

import pytest
from hostile import jpeg_with, segment
from PIL import Image, features
from reading import encoded, noise, picture

import foveal
from foveal.errors import MediaTooLarge, UnsupportedFormat
from foveal.media import fast_jpeg
from foveal.media.costs import FORMAT_BYTES, MAX_SCANS, PYTHON_BYTES, PYTHON_PIXELS, check_scans
from foveal.media.inspection import inspect
from foveal.media.limits import Limits
from foveal.media.sources import open_source
from foveal.request import open_items

# ---- memory


def test_bytes_a_pixel_are_those_that_are_documented():
    for count in (*FORMAT_BYTES.values(), PYTHON_BYTES):
        assert f" {count}" in Limits.__doc__


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "TIFF", "BMP", "PPM", *FORMAT_BYTES])
def test_decoded_bytes_count_what_a_format_takes(format):
    if format == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    data = encoded(picture("RGB", 64, 64), format)
    taken = 64 * 64 * FORMAT_BYTES.get(format, 4)
    open_call([data], taken)
    with pytest.raises(MediaTooLarge, match=f"^image 0: it and the images before it take {taken} bytes when decoded"):
        open_call([data], taken - 1)


def open_call(images, decoded_bytes):
    limits = Limits(decoded_bytes=decoded_bytes)
    return open_items([images], lambda height, width, sample: None, limits=limits)


# ---- seconds: what Pillow decodes in Python


def rle_bmp(height, width, body):
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(body), 0, 0, 256, 0)
    start = 14 + len(head) + 1024
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + head + bytes(1024) + body


def in_python(height, width):
    """Return a file of each kind; of large ones the header alone."""
    pixels = bytes(height * width) if height * width < 10_000 else b""
    rows = b"".join(bytes((width, 1)) + b"\0\0" for _ in range(height)) if pixels else b""
    return {
        "QOI": b"qoif" + struct.pack(">IIBB", width, height, 3, 0) + b"\xfe\1\2\3" * len(pixels) + bytes(7) + b"\1",
        "BMP": rle_bmp(height, width, rows + b"\0\1"),
        "PPM": b"P6 %d %d 254\n" % (width, height) + pixels * 3,
    }


@pytest.mark.parametrize("format", ["QOI", "BMP", "PPM"])
def test_what_pillow_decodes_in_python_is_bounded(format):
    small = in_python(20, 30)[format]
    assert open_source(small).decode().height == 20
    assert open_source(small).bytes_a_pixel == PYTHON_BYTES
    assert open_source(in_python(1 << 11, PYTHON_PIXELS >> 11)[format])
    for see in (open_source, inspect):
        with pytest.raises(MediaTooLarge, match=f"more than the limit of {PYTHON_PIXELS} for {format} of this kind"):
            see(in_python(1 << 11, (PYTHON_PIXELS >> 11) + 1)[format])
    room = 8 * 20 * 30 + (1 << 16) - len(small)
    open_source(small + bytes(room))
    with pytest.raises(MediaTooLarge, match=f"more than the limit of {8 * 20 * 30 + (1 << 16)} for its 600 pixels"):
        open_source(small + bytes(room + 1))


def test_a_run_length_that_goes_nowhere():
    with pytest.raises(MediaTooLarge, match="the BMP has"):
        open_source(rle_bmp(1, 8, b"\0\2\0\0" * 1_000_000))


def test_usual_files_of_those_formats_are_not_decoded_in_python():
    for format in ("BMP", "PPM"):
        assert open_source(encoded(picture("RGB", 9, 11), format)).bytes_a_pixel == 4
    assert open_source(b"P6 %d %d 255\n" % (PYTHON_PIXELS >> 10, 2048)).size == (2048, PYTHON_PIXELS >> 10)


@pytest.mark.parametrize("kind", [b"P1", b"P2", b"P3"])
def test_text_is_no_image(kind):
    """Pillow would spend 200 seconds on the comments of this one."""
    largest = b"" if kind == b"P1" else b" 255"
    start = time.perf_counter()
    with pytest.raises(UnsupportedFormat, match=r"^plain PPM, which is text, is not read$"):
        open_source(kind + b" 512 512" + largest + b"\n" + b"#\n" * 10_000_000)
    assert time.perf_counter() - start < 5


# ---- seconds: scans of a JPEG


def progressive(height=40, width=60):
    return encoded(Image.fromarray(noise(height, width)), "JPEG", progressive=True)


def with_scans(data, count):
    """Return a progressive file whose last scan is repeated until there are so many."""
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    own = data.count(b"\xff\xda")
    return data[:last] + data[last:end] * (count - own + 1) + data[end:]


def test_scans_are_bounded(tmp_path):
    data = progressive()
    assert 5 < data.count(b"\xff\xda") < 15
    open_source(data).decode()
    open_source(with_scans(data, MAX_SCANS)).decode()
    many = with_scans(data, MAX_SCANS + 1)
    path = tmp_path / "a.jpg"
    path.write_bytes(many)
    for policy in ("vllm", "sglang"):
        preprocess = foveal.Preprocessor.from_spec("clip", policy=policy)
        with pytest.raises(MediaTooLarge, match=r"^image 1: a.jpg: the JPEG has more than the limit of 100 scans$"):
            preprocess([data, path])
        assert list(preprocess([data, path], on_error="return").errors) == [1]


def test_scans_of_a_file_without_progress_are_bounded_too():
    """One scan for each component, as a file that is not interleaved has them, and then more."""
    data = encoded(Image.fromarray(noise(40, 60)), "JPEG", subsampling=0)
    start = data.index(b"\xff\xda")
    one = b"\xff\xda\0\x08\x01\x01\x00\x00\x3f\x00" + bytes(100)
    check_scans(data[:start] + one * MAX_SCANS + data[-2:])
    with pytest.raises(MediaTooLarge):
        check_scans(data[:start] + one * (MAX_SCANS + 1) + data[-2:])


def test_scans_cannot_be_hidden_and_metadata_have_none():
    many = with_scans(progressive(), MAX_SCANS + 1)
    place = many.index(b"\xff\xda")
    for marker in (b"\xff\x01\xff\xff", b"\xff\xd0\xff\xff", b"\xff\xff\xff", b"\xff\x00", b"\xff\x40\xff\xff"):
        with pytest.raises(MediaTooLarge):
            check_scans(many[:place] + marker + many[place:])
    thumbnails = segment(0xE1, b"\xff\xda\0\2" * 5000)
    check_scans(jpeg_with(thumbnails))
    check_scans(progressive()[:2] + thumbnails + progressive()[2:] + b"\xff\xda\0\2" * 500)


@pytest.mark.parametrize("cut", range(0, 1500, 7))
def test_files_that_end_anywhere(cut):
    check_scans(progressive()[:cut])
    check_scans(progressive()[:cut] + b"\xff\xda")


def test_the_fast_decoder_is_not_asked_for_what_has_no_end(monkeypatch):
    data = encoded(picture("RGB", 20, 30), "JPEG")
    asked = []
    monkeypatch.setattr(fast_jpeg, "is_available", lambda: True)
    monkeypatch.setattr(fast_jpeg, "_decoded", lambda data, mode: asked.append(len(data)))
    for item in (data, data + bytes(4000), data[:-2], data[: len(data) // 2]):
        fast_jpeg.decode_jpeg(item, "RGB")
    assert asked == [len(data), len(data) + 4000]
