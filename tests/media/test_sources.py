import base64
import gc
import io
import os
import signal
import stat
import struct
import tempfile
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, features
from reading import encoded, exif, noise, picture, read_bands, read_rgb, reference_rgb

import foveal
from foveal.errors import CorruptImage, MediaError, MediaTooLarge, UnsupportedFormat
from foveal.media import decode, sources
from foveal.media.header import FORMATS
from foveal.media.inspection import inspect
from foveal.media.limits import Limits
from foveal.media.pixels import ON_WHITE
from foveal.media.policy import DecodePolicy
from foveal.media.sources import open_source

MODES = {
    "JPEG": ["L", "RGB", "CMYK"],
    "PNG": ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"],
    "WEBP": ["RGB", "RGBA"],
    "GIF": ["L", "P", "RGB"],
    "TIFF": ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"],
    "BMP": ["1", "L", "P", "RGB", "RGBA"],
    "AVIF": ["RGB", "RGBA"],
    "JPEG2000": ["L", "LA", "RGB", "RGBA"],
    "PPM": ["1", "L", "RGB"],
    "QOI": ["RGB", "RGBA"],
}
CASES = [
    pytest.param(format, mode, marks=pytest.mark.skipif(format == "AVIF" and not features.check("avif"), reason="AVIF"))
    for format, modes in MODES.items()
    for mode in modes
]


@pytest.fixture
def jpeg():
    return encoded(Image.fromarray(noise(40, 60)), "JPEG")


@pytest.mark.parametrize(("format", "mode"), CASES)
def test_every_format_and_mode(format, mode, tmp_path):
    try:
        data = encoded(picture(mode, 16, 16), format)
    except (KeyError, OSError, ValueError):
        pytest.skip(f"this Pillow does not write {format} in {mode}")
    path = tmp_path / "image"
    path.write_bytes(data)
    expected = reference_rgb(Image.open(io.BytesIO(data)))
    with Image.open(path) as lazy:
        for item in (data, bytearray(data), memoryview(data), path, str(path), io.BytesIO(data), lazy):
            source = open_source(item)
            assert source.size == (16, 16)
            np.testing.assert_array_equal(read_rgb(source.decode()), expected)


@pytest.mark.parametrize(("mode", "transparency"), [("L", 77), ("RGB", (1, 2, 3)), ("P", 3), ("P", bytes(16))])
def test_png_transparency_chunk(mode, transparency):
    data = encoded(picture(mode), "PNG", transparency=transparency)
    assert Image.open(io.BytesIO(data)).info["transparency"] is not None
    pixels = open_source(data).decode()
    assert pixels.backdrop == ON_WHITE
    np.testing.assert_array_equal(read_rgb(pixels), reference_rgb(Image.open(io.BytesIO(data))))


def test_opening_decodes_nothing(jpeg, monkeypatch, tmp_path):
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg)
    lazy = Image.open(io.BytesIO(jpeg))

    def fail(self):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    for item in (jpeg, path, lazy):
        assert open_source(item).size == (40, 60)


def test_opening_needs_only_the_header(jpeg):
    assert open_source(jpeg[:700]).size == (40, 60)


def test_sources_decode_from_any_thread_any_number_of_times(jpeg, tmp_path):
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg)
    expected = np.asarray(Image.open(io.BytesIO(jpeg)))
    for item in (jpeg, path, Image.open(io.BytesIO(jpeg)), expected):
        source = open_source(item)
        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(source.decode) for _ in range(24)]
        for future in futures[::8]:
            np.testing.assert_array_equal(read_bands(future.result()), expected)


def test_a_lazy_image_in_two_sources_is_loaded_once(jpeg):
    for _ in range(20):
        lazy = Image.open(io.BytesIO(jpeg))
        with ThreadPoolExecutor(4) as pool:
            first, *others = pool.map(lambda source: source.decode(), [open_source(lazy) for _ in range(4)])
        assert all((first.rows == other.rows).all() for other in others)


def test_owner_keeps_decoded_memory_alive(jpeg):
    source = open_source(jpeg)
    pixels = source.decode()
    del source
    gc.collect()
    Image.new("RGB", (60, 40))
    np.testing.assert_array_equal(read_bands(pixels), np.asarray(Image.open(io.BytesIO(jpeg))))


def test_bytes_are_taken_when_opened(jpeg):
    data = bytearray(jpeg)
    source = open_source(data)
    data[:] = bytes(len(data))
    assert read_bands(source.decode()).any()


def test_first_frame_of_an_animation():
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("red", "blue")]
    for format in ("GIF", "PNG", "WEBP"):
        data = encoded(frames[0], format, save_all=True, append_images=frames[1:])
        assert read_rgb(open_source(data).decode())[0, 0, 0] > 200


def test_malformed_multi_picture_jpeg_is_a_jpeg():
    mpo = encoded(Image.new("RGB", (9, 5)), "MPO", save_all=True, append_images=[Image.new("RGB", (9, 5))])
    start = mpo.index(b"MPF\0") + 4
    for data in (mpo, mpo[: start + 8] + b"\xff" * 20 + mpo[start + 28 :]):
        source = open_source(data)
        assert source.size == (5, 9)
        source.decode()


def message(item):
    with pytest.raises(MediaError) as caught:
        open_source(item).decode()
    return str(caught.value)


NO_PATH = "is neither the path of a file nor a URL"
NOT_READ = f"not an image of a format that is read ({', '.join(FORMATS)})"
DAMAGED = "the {} data are truncated or corrupt"
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


def test_unreadable_bytes(jpeg):
    png = encoded(Image.fromarray(noise(40, 60)), "PNG")
    assert message(b"") == "the file is empty"
    assert message(b"hello") == NOT_READ
    assert message(EPS) == NOT_READ
    assert message(b'<svg xmlns="http://www.w3.org/2000/svg"/>') == NOT_READ
    assert message(jpeg[:3]) == "the JPEG header is truncated or corrupt"
    assert message(png[:20]) == "the PNG header is truncated or corrupt"
    assert message(jpeg[:-500]) == "the JPEG data are truncated or corrupt"
    assert message(png[:-500]) == "the PNG data are truncated or corrupt"
    assert message(png[:100] + b"\0" * 200 + png[300:]) == "the PNG data are truncated or corrupt"


def test_every_truncation_is_a_media_error():
    for format in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "QOI"):
        data = encoded(picture("RGB", 16, 16), format)
        for length in range(0, len(data), max(1, len(data) // 60)):
            try:
                open_source(data[:length]).decode()
            except MediaError as error:
                assert "\n" not in str(error)  # noqa: PT017


def test_unreadable_paths(tmp_path, jpeg):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(jpeg[:-500])
    text = tmp_path / "a\nb.txt"
    text.write_text("hello")
    assert message(tmp_path / "none.jpg") == "none.jpg: cannot be opened: no such file or directory"
    assert message(tmp_path) == f"{tmp_path.name}: cannot be opened: is a directory"
    assert message("a\0b.png") == "a?b.png: cannot be opened: not a file name"
    assert message(Path("none")) == "none: cannot be opened: no such file or directory"
    assert message(broken) == "broken.jpg: the JPEG data are truncated or corrupt"
    assert message(text) == f"a?b.txt: {NOT_READ}"


def test_strings_that_are_not_paths(jpeg):
    for url in ("https://example.com/a.jpg", " file:///etc/passwd", "S3://bucket/key"):
        assert message(url) == "a URL is not read here; pass a path, a data URL or the bytes of the file"
    assert message("A" * 5000) == f"a str of 5000 characters {NO_PATH}"
    text64 = base64.b64encode(jpeg).decode()
    markup = '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>'
    for text in ("", "aGVsbG8=", text64[:200], text64, f"{text64[:60]}/{text64[60:90]}", markup, '{"a": "b.png"}'):
        assert message(text) == f"a str of {len(text)} characters {NO_PATH}"


def test_a_file_that_exists_is_named_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("aGVsbG8=").write_bytes(b"hello")
    assert message("aGVsbG8=") == f"aGVsbG8=: {NOT_READ}"


def test_a_file_that_changed(tmp_path, jpeg):
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg)
    source = open_source(path)
    path.write_bytes(encoded(Image.new("RGB", (3, 3)), "JPEG"))
    with pytest.raises(MediaError) as caught:
        source.decode()
    assert str(caught.value) == "image.jpg: the file changed after it was opened"
    Path(path).unlink()
    with pytest.raises(MediaError) as caught:
        source.decode()
    assert str(caught.value) == "image.jpg: cannot be opened: no such file or directory"


def test_lazy_pillow_images_that_cannot_be_loaded(jpeg):
    truncated = Image.open(io.BytesIO(jpeg[:-500]))
    assert message(truncated) == "the image cannot be loaded: truncated, corrupt or closed"
    closed = Image.open(io.BytesIO(jpeg))
    closed.close()
    assert message(closed) == "the image cannot be loaded: truncated, corrupt or closed"


def test_a_pillow_image_that_changed():
    image = Image.new("RGB", (100, 50))
    source = open_source(image)
    image.thumbnail((10, 10))
    with pytest.raises(MediaError) as caught:
        source.decode()
    assert str(caught.value) == "the image has another size than when it was opened"


@pytest.mark.parametrize(
    ("item", "kind"), [(None, "NoneType"), (7, "int"), ([], "list"), ({}, "dict"), (object(), "object")]
)
def test_what_is_not_an_image(item, kind):
    expected = "a path, a URL, bytes, a binary file, a PIL image or a NumPy array"
    assert message(item) == f"an object of type {kind} is not an image; expected {expected}"


def bmp(width, height):
    """Return a BMP header that promises pixels."""
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, *[0] * 6)


def test_the_pixel_limit_does_not_depend_on_pillows_and_nothing_warns(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    limits = Limits(pixels=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_source(bmp(40, 50), limits=limits).size == (50, 40)
        with pytest.raises(MediaTooLarge, match=r"2040 pixels \(51x40, height x width\), more than the limit of 2000"):
            open_source(bmp(40, 51), limits=limits)
        for format in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"):
            open_source(encoded(Image.new("RGB", (40, 50)), format)).decode()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert open_source(bmp(13000, 13000)).size == (13000, 13000)
    with pytest.raises(MediaTooLarge, match="1600000000 pixels"):
        open_source(bmp(40000, 40000))


def test_a_lying_header():
    assert message(bmp(400, 500)) == "the BMP data are truncated or corrupt"
    png = encoded(Image.fromarray(noise(40, 60)), "PNG")
    header = b"IHDR" + struct.pack(">II", 600, 400) + png[24:29]
    lying = png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]
    assert open_source(lying).size == (400, 600)
    assert message(lying) == DAMAGED.format("PNG")


class Strange:
    def __init__(self, answer):
        self.answer = answer

    def __fspath__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [5, None, RuntimeError("boom"), UnicodeError("two\nlines")])
def test_what_says_that_it_is_a_path(answer):
    assert message(Strange(answer)) == "an object of type Strange gives no path"


def test_paths_of_bytes(tmp_path, jpeg):
    path = tmp_path / os.fsdecode(b"\xff.jpg")
    path.write_bytes(jpeg)
    assert open_source(Strange(os.fsencode(path))).size == (40, 60)
    path.write_bytes(b"")
    assert message(path) == "?.jpg: the file is empty"


def test_names_that_no_file_can_have():
    assert message("\ud800.jpg") == "?.jpg: cannot be opened: not a file name"
    assert message(Path("x/" * 3000)) == f"a str of 5999 characters {NO_PATH}"
    assert message("x" * 256 + "/a.jpg") == "a.jpg: cannot be opened: file name too long"


def test_a_released_memoryview(jpeg):
    view = memoryview(jpeg)
    view.release()
    assert message(view) == "the memoryview was released"


def listener(path):
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("make", [os.mkfifo, listener, lambda path: path.symlink_to("/dev/zero")])
def test_only_regular_files_are_opened(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    make(Path("image"))
    assert message("image") == "image: cannot be opened: not a regular file"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_load_images_while_the_parent_loads_them(jpeg):
    for lock in decode._LOAD_LOCKS:
        lock.acquire()
    try:
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            open_source(Image.open(io.BytesIO(jpeg))).decode()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        for lock in decode._LOAD_LOCKS:
            lock.release()


# ---- encoded images of other kinds


def data_url(data):
    return "DATA:image/whatever;name=x;BASE64, " + base64.b64encode(data).decode()


def test_data_urls(jpeg):
    source = open_source(data_url(jpeg))
    np.testing.assert_array_equal(read_bands(source.decode()), read_bands(open_source(jpeg).decode()))
    assert source.digest() == open_source(jpeg).digest()
    assert message(data_url(b"hello")) == NOT_READ
    for url in ("data:,", "data:image/png;base64,"):
        assert message(url) == "the data URL holds no bytes"
    lost = "the data URL holds no bytes; a '#' begins its fragment, which is no part of them"
    assert message("data:image/png;base64,####") == lost
    with pytest.raises(MediaTooLarge, match="the data URL holds at least"):
        open_source(data_url(jpeg), limits=Limits(input_bytes=len(jpeg) - 1))


class Pipe:
    """A file that cannot be rewound and gives little at a time."""

    def __init__(self, data, step=97):
        self.data, self.step = io.BytesIO(data), step

    def read(self, size=-1):
        return self.data.read(min(size, self.step))

    def tell(self):
        raise io.UnsupportedOperation("tell")


def test_files_are_read_from_their_beginning_and_stay_where_they_were(jpeg, tmp_path):
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg)
    expected = read_bands(open_source(jpeg).decode())
    with path.open("rb") as buffered, path.open("rb", buffering=0) as raw, tempfile.SpooledTemporaryFile() as spooled:
        spooled.write(jpeg)
        for file in (io.BytesIO(jpeg), buffered, raw, spooled):
            for position in (0, 7, len(jpeg)):
                file.seek(position)
                source = open_source(file)
                assert file.tell() == position
                np.testing.assert_array_equal(read_bands(source.decode()), expected)
    np.testing.assert_array_equal(read_bands(open_source(Pipe(jpeg)).decode()), expected)
    np.testing.assert_array_equal(read_bands(source.decode()), expected)  # after the file was closed


def test_a_file_that_is_too_large_stays_where_it_was(jpeg):
    file = io.BytesIO(jpeg)
    file.seek(5)
    with pytest.raises(MediaTooLarge):
        open_source(file, limits=Limits(input_bytes=100))
    assert file.tell() == 5


class Reading:
    def __init__(self, answer):
        self.answer = answer

    def read(self, size):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def asynchronous():
    """Do nothing."""


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (io.StringIO("text"), "the file object gives str, not bytes; open it in binary mode"),
        (Reading(bytearray(b"x")), "the file object gives bytearray, not bytes"),
        (Reading(b""), "the file is empty"),
        (
            Reading(None),
            "the file object has no bytes yet (its read() gives None); pass one that waits for them",
        ),
        (
            Reading(OSError(5, "Input/output error", "/secret/path")),
            "the file object cannot be read: its methods raise OSError",
        ),
        (Reading(RuntimeError("two\nlines")), "the file object cannot be read: its methods raise RuntimeError"),
        (io.BytesIO(b""), "the file is empty"),
        (io.BytesIO(b"hello"), NOT_READ),
    ],
)
def test_files_that_cannot_be_read(file, said):
    assert message(file) == said


def test_files_that_are_closed_or_asynchronous(jpeg, tmp_path):
    closed = io.BytesIO(jpeg)
    closed.close()
    assert message(closed) == "the file object is closed"
    with (tmp_path / "a").open("wb") as file:
        assert message(file) == "the file object was not opened for reading"
    assert message(file) == "the file object is closed"
    awaited = "the file object is asynchronous; pass the bytes that its read() gives when it is awaited"
    assert message(Reading(asynchronous())) == awaited


def test_memory_errors_are_passed_on():
    with pytest.raises(MemoryError):
        open_source(Reading(MemoryError()))


# ---- kinds of errors, and files that change


@pytest.mark.parametrize(
    ("data", "kind"), [(b"", CorruptImage), (b"hello", UnsupportedFormat), (b"\x89PNG\r\n\x1a\n", CorruptImage)]
)
def test_a_path_keeps_the_kind_of_an_error(data, kind, tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(data)
    with pytest.raises(MediaError) as caught:
        open_source(path)
    assert type(caught.value) is kind
    assert str(caught.value).startswith("image.png: ")


def test_damaged_pixels_are_corrupt(jpeg, tmp_path):
    path = tmp_path / "image.jpg"
    path.write_bytes(jpeg[:-500])
    for item in (jpeg[:-500], path, Image.open(io.BytesIO(jpeg[:-500]))):
        source = open_source(item)
        with pytest.raises(CorruptImage):
            source.decode()


def test_a_file_that_was_replaced_by_one_of_its_size(tmp_path):
    first, second = (bmp(40, 50) + bytes([value]) * 6000 for value in (1, 2))
    path = tmp_path / "image.bmp"
    path.write_bytes(first)
    os.utime(path, ns=(1, 1))
    source = open_source(path)
    source.decode()
    path.write_bytes(second)
    for use in (source.decode, source.digest):
        with pytest.raises(MediaError, match=r"^image.bmp: the file changed after it was opened$"):
            use()


def test_the_policy_decides_about_encoded_images_alone():
    data = encoded(picture("RGB", 20, 30), "JPEG", exif=exif(6))
    as_stored = DecodePolicy(orientation="ignore")
    assert open_source(data).size == (30, 20)
    source = open_source(data, policy=as_stored)
    assert source.size == (20, 30)
    np.testing.assert_array_equal(read_rgb(source.decode()), reference_rgb(Image.open(io.BytesIO(data))))
    for policy in (as_stored, DecodePolicy(frame=3)):
        assert open_source(Image.open(io.BytesIO(data)), policy=policy).decode().height == 20
        assert open_source(np.zeros((20, 30), np.uint8), policy=policy).decode().height == 20


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that can be opened and not read")
def test_a_file_that_cannot_be_read():
    text = "mem: cannot be read: input/output error"
    for see in (open_source, inspect):
        with pytest.raises(MediaError, match=f"^{text}$"):
            see("/proc/self/mem")
    open_file = partial(open, "/proc/self/mem", "rb")
    with pytest.raises(MediaError, match=f"^{text}$"):
        sources._digest(sources.EncodedFile(open_file, 0, "mem", partial(sources._file_digest, open_file)))
    images = [noise(40, 60), "/proc/self/mem"]
    got = foveal.Preprocessor.from_spec("clip")(images, on_error="return")
    assert [str(error) for error in got.errors.values()] == [f"image 1: {text}"]
