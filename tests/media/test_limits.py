import io
import subprocess
import sys
import time
from base64 import b64encode

import hostile
import numpy as np
import pytest
from PIL import Image
from reading import encoded, noise

import foveal
from foveal.errors import CorruptImage, ImageSizeError, MediaTooLarge, OptionError
from foveal.media.inspection import inspect
from foveal.media.limits import Limits
from foveal.media.policy import DecodePolicy
from foveal.media.sources import open_source
from foveal.request import open_items
from foveal.types import Size


def test_defaults_are_those_that_are_documented():
    limits = Limits()
    assert (limits.pixels, limits.decoded_bytes) == (178_956_970, 715_827_880)
    assert limits.decoded_bytes == 4 * limits.pixels
    documented = Limits.__doc__.replace(",", "")
    for name in Limits.__struct_fields__:
        value = getattr(limits, name)
        assert f"    {name} : int" in documented
        assert str(value) in documented or f"{value >> 20} MiB" in documented


def test_limits_are_a_frozen_value():
    assert Limits() == Limits()
    assert hash(Limits(pixels=5)) == hash(Limits(pixels=5))
    with pytest.raises(AttributeError):
        Limits().pixels = 5
    with pytest.raises(TypeError):
        Limits(pixel=5)


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize("value", [0, -1, None, True, "5", float("nan"), 0.5, [1]])
def test_a_limit_is_a_number_of_at_least_one(name, value):
    with pytest.raises(OptionError, match=rf"Limits.{name} must be a .*number of at least 1"):
        Limits(**{name: value})


def test_only_the_aspect_ratio_may_be_a_fraction():
    assert Limits(aspect_ratio=2.5).aspect_ratio == 2.5
    with pytest.raises(OptionError, match=r"Limits.images must be a whole number of at least 1"):
        Limits(images=2.5)


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_the_environment_overrides(name, monkeypatch):
    monkeypatch.setenv(f"FOVEAL_MAX_{name.upper()}", " 77 ")
    for limits in (Limits.default(), Limits.for_batches()):
        assert getattr(limits, name) == 77
    monkeypatch.setenv(f"FOVEAL_MAX_{name.upper()}", "")
    assert Limits.default() == Limits()


@pytest.mark.parametrize("text", ["abc", "-1", "0", "1.5", "1_000", "0x10", "9" * 30, "²", "1\n2", "x" * 1000])
def test_a_wrong_variable_is_one_clear_error(text):
    with pytest.raises(OptionError) as caught:
        Limits.default({"FOVEAL_MAX_PIXELS": text})
    said = str(caught.value)
    assert said.startswith("FOVEAL_MAX_PIXELS is '")
    assert said.endswith("': it must be a whole number of at least 1, in digits")
    assert len(said) < 120
    assert "\n" not in said


def test_the_aspect_ratio_of_the_environment_may_be_a_fraction():
    assert Limits.default({"FOVEAL_MAX_ASPECT_RATIO": "2.5"}).aspect_ratio == 2.5
    for text in ("0.5", "2.", ".5", "1e3", "nan", "2,5"):
        with pytest.raises(OptionError) as caught:
            Limits.default({"FOVEAL_MAX_ASPECT_RATIO": text})
        assert str(caught.value).startswith(f"FOVEAL_MAX_ASPECT_RATIO is '{text}': it must be a number of at least 1")


def test_what_a_caller_names_is_above_the_environment():
    environment = {"FOVEAL_MAX_IMAGES": "7", "FOVEAL_MAX_FRAMES": "8"}
    for made in (Limits.default, Limits.for_batches):
        limits = made(environment, images=4)
        assert (limits.images, limits.frames, limits.pixels) == (4, 8, Limits().pixels)
        assert limits.decoded_bytes == made({}).decoded_bytes
        with pytest.raises(OptionError, match=r"^Limits has no 'pixel'; it has input_bytes, pixels, "):
            made(pixel=5)
        with pytest.raises(OptionError, match=r"^Limits.images must be "):
            made(images=0)


@pytest.mark.parametrize("limits", [{"pixels": 5}, "strict", 7, DecodePolicy()])
def test_limits_are_limits(limits):
    kind = type(limits).__name__
    for use in (lambda: inspect(b"", limits=limits), lambda: foveal.Preprocessor.from_spec("clip", limits=limits)):
        with pytest.raises(OptionError, match=rf"^limits must be a foveal.Limits, as .*, not a {kind}$"):
            use()


def test_batches_have_room_and_the_bytes_and_pixels_of_an_image_are_limited_as_ever():
    default, batches = Limits.default({}), Limits.for_batches({})
    assert (batches.images, batches.decoded_bytes, batches.aspect_ratio) == (65_536, 1 << 40, 1 << 20)
    for name in ("input_bytes", "pixels", "frames"):
        assert getattr(default, name) == getattr(batches, name)


# ---- one image


def items(height, width, tmp_path):
    """Return an image of every kind."""
    image = Image.new("RGB", (width, height), (1, 2, 3))
    data = encoded(image, "PNG")
    path = tmp_path / "image.png"
    path.write_bytes(data)
    return {"bytes": data, "path": path, "file": io.BytesIO(data), "pillow": image, "array": np.asarray(image)}


def refused(item, limits, error, policy=None):
    """Return what is said of an image, by all that open images."""
    said = set()
    for opened in (open_source, inspect):
        with pytest.raises(error) as caught:
            opened(item, limits=limits, **({} if policy is None else {"policy": policy}))
        assert type(caught.value) is error
        said.add(str(caught.value))
    (text,) = said
    return text


def test_pixels_of_every_kind(tmp_path):
    for kind, item in items(20, 30, tmp_path).items():
        assert open_source(item, limits=Limits(pixels=600)).size == (20, 30)
        expected = "the image has 600 pixels (20x30, height x width), more than the limit of 599 (Limits.pixels)"
        said = refused(item, Limits(pixels=599), MediaTooLarge)
        assert said == ("image.png: " if kind == "path" else "") + expected


def test_aspect_ratio_of_every_kind(tmp_path):
    for item in items(3, 31, tmp_path).values():
        assert open_source(item, limits=Limits(aspect_ratio=31 / 3)).size == (3, 31)
        expected = "3x31 (height x width): aspect ratio 10.3333 exceeds 10 (Limits.aspect_ratio)"
        assert refused(item, Limits(aspect_ratio=10), ImageSizeError) == expected
    assert open_source(np.zeros((4096, 1), np.uint8), limits=Limits()).size == (4096, 1)
    with pytest.raises(ImageSizeError, match=r"4097x1 .*exceeds 4096"):
        open_source(np.zeros((4097, 1), np.uint8), limits=Limits())


def test_an_array_that_is_large_in_name_only():
    array = np.broadcast_to(np.uint8(0), (1 << 20, 1 << 20, 3))
    with pytest.raises(MediaTooLarge, match="more than the limit of 178956970"):
        open_source(array)


def test_input_bytes(tmp_path):
    data = items(20, 30, tmp_path)["bytes"]
    size = len(data)
    enough, short = Limits(input_bytes=size), Limits(input_bytes=size - 1)
    for item in (data, bytearray(data), memoryview(data)):
        assert open_source(item, limits=enough)
        expected = f"the encoded image has {size} bytes, more than the limit of {size - 1} (Limits.input_bytes)"
        assert refused(item, short, MediaTooLarge) == expected
    assert open_source(tmp_path / "image.png", limits=enough)
    assert refused(tmp_path / "image.png", short, MediaTooLarge) == f"image.png: {expected}"
    assert open_source(io.BytesIO(data), limits=enough)
    expected = f"the file object holds more than the limit of {size - 1} bytes (Limits.input_bytes)"
    assert refused(io.BytesIO(data), short, MediaTooLarge) == expected


def test_no_more_is_read_of_an_endless_file_than_the_limit():
    class Endless:
        given = 0

        def read(self, size):
            self.given += size
            return bytes(size)

    endless = Endless()
    with pytest.raises(MediaTooLarge, match="more than the limit of 1000 bytes"):
        open_source(endless, limits=Limits(input_bytes=1000))
    assert endless.given == 1001


@pytest.mark.parametrize("format", ["GIF", "TIFF"])
def test_the_first_frame_of_a_header_that_announces_none(format):
    frames = [Image.fromarray(noise(8, 9, seed=seed)) for seed in range(4)]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:])
    assert open_source(data, limits=Limits(frames=3)).size == (8, 9)
    said = refused(data, Limits(frames=3), MediaTooLarge, DecodePolicy(frame=3))
    assert said == "frame 3 is asked for, beyond the limit of 3 (Limits.frames)"


@pytest.mark.parametrize("format", ["PNG", "WEBP"])
def test_frames_that_a_header_announces(format):
    frames = [Image.fromarray(noise(8, 9, seed=seed)) for seed in range(4)]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:])
    assert open_source(data, limits=Limits(frames=4)).size == (8, 9)
    expected = "the image has 4 frames, more than the limit of 3 (Limits.frames)"
    assert refused(data, Limits(frames=3), MediaTooLarge) == expected


def test_frames_that_a_policy_reaches_for():
    data = hostile.gif(*[hostile.gif_frame()] * 4)
    assert open_source(data, limits=Limits(frames=3), policy=DecodePolicy(frame=2)).size == (40, 60)
    expected = "frame 3 is asked for, beyond the limit of 3 (Limits.frames)"
    assert refused(data, Limits(frames=3), MediaTooLarge, DecodePolicy(frame=3)) == expected


def test_checks_let_pass_what_is_at_the_limit():
    limits = Limits(input_bytes=5, pixels=5, images=5, frames=5, encoded_bytes=5, decoded_bytes=5)
    checks = (limits.check_bytes, limits.check_images, limits.check_frames, limits.check_encoded, limits.check_decoded)
    for check in checks:
        check(5)
        with pytest.raises(MediaTooLarge, match="more than the limit of 5"):
            check(6)
    limits.check_size(Size(1, 5))
    limits.check_pixels(5, 1)


# ---- bombs

BOMBS = {
    "a true PNG": lambda: hostile.zeros_png(40_000, 40_000),
    "an empty WebP": lambda: b"RIFF\x16\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0" + b"\x3f\x9c\0" * 2,
    "a GIF's frame beyond its canvas": lambda: hostile.gif(
        hostile.gif_control(2), hostile.gif_frame(0, 0, 40000, 40000)
    ),
    "a TIFF": lambda: hostile.tiff(40_000, 40_000, pixels=b"\0"),
    "a PPM": lambda: b"P5 40000 40000 255 ",
    "a QOI": lambda: b"qoif" + (40_000).to_bytes(4, "big") * 2 + b"\x03\0",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_from_the_header(name, tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[name]())
    code = f"""
import pathlib, re, time
from foveal import inspect
from foveal.errors import MediaTooLarge
from foveal.media.sources import open_source

def refuse(opened):
    start = time.perf_counter()
    try:
        opened({str(path)!r})
    except MediaTooLarge as error:
        return time.perf_counter() - start, str(error)

def memory():  # of this process; what getrusage says is at least what its parent had
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])

before = memory()
for opened in (inspect, open_source):
    print(*min(refuse(opened) for _ in range(5)))
print(memory() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *answers, kilobytes = done.stdout.splitlines()
    for answer in answers:
        seconds, said = answer.split(maxsplit=1)
        assert "1600000000 pixels (40000x40000, height x width), more than the limit of 178956970" in said
        assert float(seconds) < 0.01
    assert len(answers) == 2
    assert int(kilobytes) < 50_000


def test_the_png_of_zeros_is_a_valid_one():
    image = Image.open(io.BytesIO(hostile.zeros_png(700, 3000)))
    assert image.size == (3000, 700)
    assert image.getextrema() == (0, 0)


def test_a_gif_allocates_nothing_for_what_follows_its_first_frame(monkeypatch):
    data = hostile.gif(hostile.gif_control(2), hostile.gif_frame(0, 0, 13000, 13000))

    def fail(*arguments):
        raise AssertionError("allocated")

    monkeypatch.setattr(Image.core, "fill", fail)
    assert open_source(data).size == (13000, 13000)


SLOW = {
    "empty JPEG segments": lambda: hostile.jpeg_with(hostile.segment(0xFE) * 500_000),
    "bytes between JPEG segments": lambda: hostile.jpeg_with(b"\xff" * 1_000_000),
    "EXIF in pieces": lambda: hostile.jpeg_with(hostile.segment(0xE1, b"Exif\0\0" + bytes(65_000)) * 300),
    "empty PNG chunks": lambda: hostile.png_with(hostile.chunk(b"abCd") * 200_000),
    "PNG text": lambda: hostile.png_with(
        *(hostile.chunk(b"zTXt", b"k%d\0\0" % i + hostile.zlib.compress(bytes(1 << 20))) for i in range(12))
    ),
    "GIF comments": lambda: hostile.gif(b"!\xfe\1a\0" * 300_000, hostile.gif_frame()),
    "bytes between GIF blocks": lambda: hostile.gif(b"\1" * 1_000_000, hostile.gif_frame()),
}


@pytest.mark.parametrize("name", SLOW)
def test_headers_are_read_within_bounds(name):
    data = SLOW[name]()
    start = time.perf_counter()
    with pytest.raises(MediaTooLarge, match=r"the (PNG )?header has more than"):
        open_source(data)
    assert time.perf_counter() - start < 2


def test_a_compressed_profile_is_not_inflated():
    data = hostile.png_with(hostile.chunk(b"iCCP", b"k\0\0" + hostile.zlib.compress(bytes(100 << 20))))
    with pytest.raises(CorruptImage, match="the PNG header is truncated or corrupt"):
        open_source(data)


# ---- all images of a call


def open_call(given, **limits):
    samples = [[image] for image in given]
    return open_items(samples, lambda height, width, sample: None, limits=Limits(**limits))


def test_images_of_a_call():
    images = [np.zeros((4, 4, 3), np.uint8)] * 3
    assert len(open_call(images, images=3)) == 3
    with pytest.raises(MediaTooLarge, match=r"^there are 3 images, more than the limit of 2 \(Limits.images\)$"):
        open_call([*images[:2], None], images=2)  # counted before any is opened


def test_decoded_bytes_of_a_call():
    images = [np.zeros((10, 10), np.uint8), encoded(Image.new("L", (10, 10)), "PNG"), Image.new("1", (10, 10))]
    assert len(open_call(images, decoded_bytes=1200)) == 3
    with pytest.raises(MediaTooLarge) as caught:
        open_call([*images, None], decoded_bytes=1199)
    assert str(caught.value) == (
        "image 2: it and the images before it take 1200 bytes when decoded, more than the limit of 1199 "
        "(Limits.decoded_bytes)"
    )


def test_encoded_bytes_of_a_call(tmp_path):
    data = encoded(Image.new("L", (10, 10)), "PNG")
    (tmp_path / "a.png").write_bytes(data)
    url = f"data:image/png;base64,{b64encode(data).decode()}"
    images = [data, np.zeros((10, 10), np.uint8), tmp_path / "a.png", io.BytesIO(data), url]
    total = 4 * len(data)
    assert len(open_call(images, encoded_bytes=total)) == 5
    with pytest.raises(MediaTooLarge) as caught:
        open_call([*images, None], encoded_bytes=total - 1)
    assert str(caught.value) == (
        f"image 4: it and the images before it have {total} encoded bytes, more than the limit of {total - 1} "
        "(Limits.encoded_bytes)"
    )


def test_a_call_keeps_the_kind_of_an_error_and_names_the_image():
    good = np.zeros((4, 4, 3), np.uint8)
    for bad, error in [
        (b"hello", foveal.UnsupportedFormat),
        (b"", foveal.CorruptImage),
        (np.zeros((40, 40), np.uint8), foveal.MediaTooLarge),
        (np.zeros((1, 90), np.uint8), foveal.ImageSizeError),
    ]:
        with pytest.raises(foveal.MediaError, match=r"^image 1(:| is) ") as caught:
            open_call([good, bad], pixels=1000, aspect_ratio=50)
        assert type(caught.value) is error
