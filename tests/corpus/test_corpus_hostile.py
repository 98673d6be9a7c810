"""What is sent to do harm: bombs, openers that run programs, one bad image among good ones, and texts that leak."""

import base64
import io
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hostile import zeros_png
from lines import check_line
from PIL import Image
from reading import encoded, noise, picture

import foveal
from foveal import CorruptImage, FovealError, ImageSizeError, Limits, MediaError, MediaTooLarge, UnsupportedFormat
from foveal.media.header import FORMATS
from foveal.media.sources import open_source

GOOD = encoded(picture("RGB", 40, 60), "PNG")
SECRET = "tr0ub4dor"


@pytest.fixture(scope="module")
def preprocess():
    return foveal.Preprocessor.from_spec("qwen2_vl")


# ---- bombs


BOMB = """
import resource, sys, time
import foveal
from foveal.errors import MediaTooLarge

data = sys.stdin.buffer.read()
preprocess = foveal.Preprocessor.from_spec("qwen2_vl")
times, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for attempt in range(20):
    start = time.perf_counter()
    try:
        preprocess(data)
    except MediaTooLarge as error:
        times.append(time.perf_counter() - start)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(times), min(times), (after - before) << 10)
"""


def test_a_bomb_is_refused_in_no_time_and_no_memory():
    """1.6 billion pixels of nothing in 1.5 MB: below 10 ms and 50 MB, the first call's imports included in neither."""
    data = zeros_png(40_000, 40_000)
    done = subprocess.run([sys.executable, "-c", BOMB], input=data, capture_output=True, check=True)
    count, seconds, grown = done.stdout.split()
    assert int(count) == 20
    assert float(seconds) < 0.01
    assert int(grown) < 50_000_000


def test_bombs_one_below_the_limit_are_stopped_together(preprocess):
    """Each image is allowed, and the request is not: refused from headers."""
    data = zeros_png(13_000, 13_000)
    limited = foveal.Preprocessor.from_spec("qwen2_vl", limits=Limits())
    start = time.perf_counter()
    with pytest.raises(MediaTooLarge, match=r"^image 1: it and the images before it take 1352000000 bytes"):
        limited([data, data, data])
    assert time.perf_counter() - start < 1


def test_more_images_than_a_request_may_have():
    limited = foveal.Preprocessor.from_spec("qwen2_vl", limits=Limits(images=3))
    with pytest.raises(MediaTooLarge, match=r"there are 4 images, more than the limit of 3 \(Limits.images\)"):
        limited([GOOD] * 4, on_error="return")


def test_strips_are_refused_by_the_model_or_by_the_limit():
    preprocess = foveal.Preprocessor.from_spec("qwen2_vl", limits=Limits())
    for width, kind in ((400, None), (402, "exceeds 200"), (9000, r"exceeds 4096 \(Limits.aspect_ratio\)")):
        strip = encoded(Image.new("RGB", (width, 2)), "PNG")
        if kind is None:
            preprocess(strip)
        else:
            with pytest.raises(ImageSizeError, match=kind):
                preprocess(strip)


# ---- formats


UNWANTED = {
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\n(/etc/passwd) run\n%%EOF\n",
    "EPS in DOS": b"\xc5\xd0\xd3\xc6" + bytes(28),
    "PDF": b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n",
    "WMF": b"\xd7\xcd\xc6\x9a\0\0" + bytes(40),
    "EMF": b"\x01\0\0\0" + bytes(36) + b" EMF" + bytes(40),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    "GRIB": b"GRIB" + bytes(60),
    "BUFR": b"BUFR" + bytes(60),
    "FITS": b"SIMPLE  =                    T" + bytes(60),
    "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "MVG": b"push graphic-context\nfill 'url(https://example.com/\"|id\")'\npop graphic-context",
    "XBM": b"#define a_width 8\n#define a_height 1\nstatic char a_bits[] = {0};",
    "PSD": b"8BPS\0\x01" + bytes(60),
    "pickle": b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix\x94",
    "HTML": b"<!doctype html><html><body>404</body></html>",
    "video": b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(64),
    "text": b"an image, honestly",
    "zeros": bytes(5000),
}


@pytest.fixture
def no_programs(monkeypatch):
    """Fail where a program would be started."""

    def start(*arguments, **options):
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", start)
    for name in ("system", "posix_spawn", "fork", "execv"):
        monkeypatch.setattr(os, name, start)


@pytest.mark.parametrize("name", UNWANTED)
@pytest.mark.parametrize("end", [".jpg", ".png"])
def test_other_formats_are_refused_whatever_they_are_named(name, end, tmp_path, no_programs):
    path = tmp_path / f"picture{end}"
    path.write_bytes(UNWANTED[name])
    for item in (UNWANTED[name], path):
        with pytest.raises(UnsupportedFormat) as caught:
            open_source(item)
        check_line(caught.value)
        assert "not an image of a format that is read" in str(caught.value)


def test_all_else_that_pillow_writes_is_refused(no_programs):
    """Of those formats only those may open that are one of the formats that are read, by another name."""
    Image.init()
    refused = set()
    for format in set(Image.SAVE) - set(FORMATS):
        image = picture("1" if format == "XBM" else "L" if format == "SPIDER" else "RGB", 40, 60)
        try:
            data = encoded(image, format)
        except Exception:  # it writes directories, other modes, or needs a handler
            continue
        try:
            assert foveal.inspect(data).format in FORMATS
        except FovealError as error:
            check_line(error)
            refused.add(format)
    assert {"EPS", "PDF", "PCX", "TGA", "ICO"} <= refused


# ---- one bad image among good ones


def bad_images(tmp_path):
    directory = tmp_path / SECRET
    directory.mkdir()
    cut = directory / "cut.png"
    cut.write_bytes(GOOD[: len(GOOD) // 2])
    closed = Image.open(io.BytesIO(GOOD))
    closed.close()
    return {
        "ends early": (GOOD[: len(GOOD) // 2], CorruptImage),
        "ends early, a path": (cut, CorruptImage),
        "no such path": (directory / "none.png", MediaError),
        "a directory": (str(directory), MediaError),
        "nothing": (b"", CorruptImage),
        "text": (SECRET.encode(), UnsupportedFormat),
        "a bomb": (zeros_png(40_000, 40_000), MediaTooLarge),
        "a strip": (encoded(Image.new("RGB", (402, 2)), "PNG"), ImageSizeError),
        "a number": (12, MediaError),
        "none": (None, MediaError),
        "an empty array": (np.zeros((0, 64, 3), np.uint8), MediaError),
        "two channels": (np.zeros((4, 4, 2), np.uint8), MediaError),
        "a closed image": (closed, MediaError),
        "a data URL": ("data:image/png;base64,!!!", CorruptImage),
        "a data URL of text": (f"data:,{SECRET}", MediaError),
        "an address inside": ("http://127.0.0.1:9/a.png", MediaError),
        "a file URL": (f"file://{cut}", MediaError),
    }


def test_the_others_of_a_batch_are_given(preprocess, tmp_path):
    bad = bad_images(tmp_path)
    images, kinds, good = [], {}, []
    for item, kind in bad.values():
        good.append(noise(40 + len(images), 60))
        kinds[len(images) + 1] = kind
        images += [good[-1], item]
    got, want = preprocess(images, on_error="return"), preprocess(good)
    assert list(got.errors) == list(kinds)
    for index, error in got.errors.items():
        assert isinstance(error, kinds[index])
        assert str(error).startswith((f"image {index}: ", f"image {index} is "))
    for name, tensor in want.items():
        np.testing.assert_array_equal(got[name], tensor)


def test_every_bad_image_fails_a_call_by_its_index(preprocess, tmp_path):
    for name, (item, kind) in bad_images(tmp_path).items():
        with pytest.raises(kind, match=r"^image 1(:| is) ") as caught:
            preprocess([GOOD, item])
        assert isinstance(caught.value, ValueError), name
        check_line(caught.value)


def test_where_all_are_bad_the_first_error_is_raised(preprocess, tmp_path):
    items = [item for item, _ in bad_images(tmp_path).values()]
    with pytest.raises(CorruptImage, match=r"^image 0: "):
        preprocess(items, on_error="return")


# ---- texts


class Leaks:
    """An object whose repr, and whose errors, hold what nobody should read."""

    def __repr__(self):
        return f"<{SECRET}>"

    __str__ = __repr__

    def read(self, size=-1):
        raise RuntimeError(SECRET)


class Gives(Leaks):
    def __init__(self, data):
        self.data = data

    def read(self, size=-1):
        return self.data


class Path(Leaks):
    read = None

    def __fspath__(self):
        raise ValueError(SECRET)


def leaks(tmp_path):
    hidden = tmp_path / SECRET / "b\x1b[31m\nad.png"
    hidden.parent.mkdir()
    hidden.write_bytes(b"not an image")
    payload = base64.b64encode(SECRET.encode() * 1000).decode()
    return [
        Leaks(),
        Gives(SECRET),
        Gives(None),
        Path(),
        object(),
        {"image": SECRET},
        io.BytesIO(SECRET.encode()),
        io.StringIO(SECRET),
        SECRET.encode() * 1000,
        hidden,
        str(hidden),
        f"{tmp_path}/{SECRET}/{'x' * 9000}",
        f"data:image/png;base64,{payload}",
        f"data:image/png;{SECRET},{payload}",
        f"http://user:{SECRET}@127.0.0.1/{SECRET}?token={SECRET}",
        f"ftp://{SECRET}@127.0.0.1/",
        f"file://{hidden}",
        np.full((4, 4), SECRET),
        np.array([SECRET], object),
        np.zeros((2, 2, 3, 4, 5), np.uint8),
    ]


def test_no_text_holds_a_repr_a_payload_a_directory_or_an_address(preprocess, tmp_path):
    for item in leaks(tmp_path):
        for call in (preprocess, preprocess.plan):
            with pytest.raises(FovealError) as caught:
                call([item] if not isinstance(item, list) else [item, [GOOD]])
            check_line(caught.value)
            text = str(caught.value)
            assert SECRET not in text
            assert str(tmp_path) not in text
            assert "127.0.0.1" not in text


def test_an_id_in_the_metadata_stands_for_nothing():
    """Two pictures with one ImageUniqueID are two, and one picture with two ids as well."""
    tags = Image.Exif()
    tags.get_ifd(0x8769)[0xA420] = "0123456789abcdef" * 2
    files = [encoded(Image.new("RGB", (8, 8), color), "JPEG", exif=tags) for color in ("red", "blue")]
    tags.get_ifd(0x8769)[0xA420] = "f" * 32
    files.append(encoded(Image.new("RGB", (8, 8), "red"), "JPEG", exif=tags))
    assert len({open_source(data).digest() for data in files}) == 3
