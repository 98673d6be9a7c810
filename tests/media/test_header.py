import io
import random
import struct
import sys
import warnings

import hostile
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features
from reading import encoded, exif, noise, picture, read_rgb, reference_rgb

from foveal.errors import CorruptImage, MediaError, UnsupportedFormat
from foveal.media.frames import count_frames
from foveal.media.header import FORMATS, open_image, read_header
from foveal.media.inspection import inspect
from foveal.media.limits import Limits
from foveal.media.policy import DecodePolicy
from foveal.media.sources import open_source

HERE = [name for name in FORMATS if name != "HEIF" and (name != "AVIF" or features.check("avif"))]


def file_of(format, height=16, width=18):
    return encoded(picture("RGB", height, width), format)


def frames_of(format, count, height=9, width=11):
    first, *others = [Image.fromarray(noise(height, width, seed=seed)) for seed in range(count)]
    return encoded(first, format, save_all=True, append_images=others)


def pillow_rgb(data, frame=0):
    """Return what Pillow makes of a file, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        image.seek(frame)
        return reference_rgb(image)


def same_as_pillow(data, policy=None):
    source = open_source(data) if policy is None else open_source(data, policy=policy)
    pixels = source.decode()
    assert source.size == (pixels.height, pixels.width)
    np.testing.assert_array_equal(read_rgb(pixels), pillow_rgb(data, policy.frame if policy else 0))


# ---- formats


@pytest.mark.parametrize("format", HERE)
def test_formats_that_are_not_accepted(format):
    data = file_of(format)
    assert read_header(io.BytesIO(data), formats=(format,)).format == format
    others = tuple(name for name in FORMATS if name != format)
    with pytest.raises(UnsupportedFormat, match=f"{format} is not one of the formats that are accepted"):
        open_source(data, policy=DecodePolicy(formats=others))


@pytest.mark.parametrize(
    "data",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n",
        b"\xc5\xd0\xd3\xc6" + bytes(60),
        b"\xd7\xcd\xc6\x9a" + bytes(60),
        b"\x89HDF\r\n\x1a\n" + bytes(60),
        b"GRIB" + bytes(60),
        b"BUFR" + bytes(60),
        b"\0\0\1\0" + bytes(60),
        b"8BPS\0\1" + bytes(60),
        b"%PDF-1.7\n" + bytes(60),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
    ids=["EPS", "EPS with preview", "WMF", "HDF5", "GRIB", "BUFR", "ICO", "PSD", "PDF", "SVG"],
)
def test_other_formats_are_not_read_and_no_program_runs(data, monkeypatch):
    import subprocess

    def fail(*arguments, **options):
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", fail)
    for opened in (open_source, inspect):
        with pytest.raises(UnsupportedFormat, match=r"^not an image of a format that is read \(JPEG, "):
            opened(data)


HEIC = b"\0\0\0\x1cftypheic\0\0\0\0mif1heicmiaf" + bytes(40)


@pytest.mark.parametrize("data", [HEIC, HEIC.replace(b"ftypheic", b"ftypmif1"), HEIC.replace(b"heic", b"hevx")])
def test_heic_names_the_package_that_is_missing(data, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    path = tmp_path / "photo.jpg"
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormat) as caught:
        open_source(path)
    assert str(caught.value) == "photo.jpg: HEIC and HEIF need another package: pip install pillow-heif"


def test_heic_is_read_by_its_plugin():
    pillow_heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    pillow_heif.from_pillow(picture("RGB", 40, 60)).save(file, quality=90, exif=exif(6)[6:])
    found = inspect(file)
    assert (found.format, found.height, found.width) == ("HEIF", 60, 40)
    assert (open_source(file).decode().height, found.orientation) == (60, 1)


def test_a_pillow_without_a_decoder(monkeypatch):
    monkeypatch.setitem(Image.OPEN, "WEBP", (None, lambda prefix: "not built in" if prefix[:4] == b"RIFF" else False))
    with pytest.raises(UnsupportedFormat, match="the installed Pillow cannot read WEBP"):
        open_source(file_of("WEBP"))


# ---- damage


@pytest.mark.parametrize("format", HERE)
def test_truncations_at_every_hundredth_are_one_typed_line(format):
    for data in hostile.truncations(file_of(format, 40, 50)):
        for opened in (inspect, lambda item: open_source(item).decode()):
            try:
                opened(data)
            except MediaError as error:
                assert type(error) in (CorruptImage, UnsupportedFormat)  # noqa: PT017
                assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("format", HERE)
def test_damaged_headers_are_typed_errors_or_images(format):
    generator = random.Random(format)
    several = {"JPEG": "MPO", "PNG": "PNG", "WEBP": "WEBP", "GIF": "GIF", "TIFF": "TIFF", "AVIF": "AVIF"}
    whole = frames_of(several[format], 2) if format in several else file_of(format)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(generator.choice((1, 1, 2, 8))):
            data[generator.randrange(min(len(data), 400))] = generator.choice(
                (0, 1, 127, 255, generator.randrange(256))
            )
        for policy in (DecodePolicy(), DecodePolicy(frame=1)):
            try:
                found = inspect(bytes(data), policy=policy, limits=Limits(pixels=1 << 20))
            except MediaError as error:
                assert "\n" not in str(error)  # noqa: PT017
            else:
                assert found.height * found.width
                assert found.frames is None or found.frames >= 1


def test_an_image_without_pixels():
    with pytest.raises(CorruptImage, match=r"BMP header is truncated|no pixels"):
        open_source(b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 0, 5, 1, 24, *[0] * 6))


# ---- what Pillow warns of. Every warning is an error in these tests.


def test_tiff_tags_that_pillow_warns_of():
    odd = hostile.tiff(
        7, 9, (305, 2, 1000, 1 << 20), (296, 3, 2, 2), (700, 1, 100, 1 << 30), pixels=noise(7, 9, 1).tobytes()
    )
    with pytest.warns(UserWarning, match=r"Truncated|larger|too many|Corrupt|corrupt"):
        Image.open(io.BytesIO(odd))
    same_as_pillow(odd)


def test_a_tiff_whose_exif_directory_is_damaged():
    data = hostile.tiff(7, 9, (274, 3, 1, 6), (34665, 4, 1, 1 << 20), (34853, 4, 1, 3), pixels=noise(7, 9, 1).tobytes())
    same_as_pillow(data)
    assert open_source(data).size == (9, 7)


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("form", ["tag", "XMP"])
def test_tiff_is_turned_as_pillow_turns_it(orientation, form):
    image = picture("RGB", 7, 9)
    if form == "tag":
        tags = Image.Exif()
        tags[274] = orientation
        data = encoded(image, "TIFF", exif=tags)
    else:
        xmp = f'<x tiff:Orientation="{orientation}"/>'.encode()
        data = encoded(image, "TIFF", tiffinfo={700: xmp})
    same_as_pillow(data)


@pytest.mark.parametrize(
    "control",
    [
        [hostile.chunk(b"acTL", bytes(8))],
        [hostile.chunk(b"acTL", b"\xff" * 8)],
        [hostile.chunk(b"acTL", struct.pack(">II", 2, 0))] * 2,
    ],
)
def test_animation_chunks_that_pillow_warns_of(control):
    data = hostile.png_with(*control)
    same_as_pillow(data)
    assert inspect(data).frames == 1


def test_many_pixels_are_no_warning(monkeypatch):
    data = hostile.gif(hostile.gif_control(2), hostile.gif_frame(5, 5, 50, 70))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3000)  # Pillow warns above it, and refuses above twice as many
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(io.BytesIO(data))
    assert open_source(data).size == (55, 75)
    open_image(io.BytesIO(data))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    with pytest.raises(MediaError, match="Pillow refuses so many pixels in GIF"):
        open_image(io.BytesIO(data))
    tiff = hostile.tiff(60, 60)
    assert open_source(tiff).decode().height == 60


@pytest.mark.parametrize(
    "block", [b"", b"Exif\0\0", b"junk", exif(6)[:20], b"Exif\0\0II*\0\xff\xff\xff\xff", bytes(200)]
)
def test_damaged_exif_is_no_error(block):
    jpeg = hostile.jpeg_with(hostile.segment(0xE1, block), hostile.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0\xff"))
    png = hostile.png_with(
        hostile.chunk(b"eXIf", block), hostile.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0\xff\xfe")
    )
    webp = encoded(picture("RGB", 40, 60), "WEBP", exif=block or b"x", xmp=b"\xff")
    for data in (jpeg, png, webp):
        assert inspect(data).orientation == 1
        assert open_source(data).decode().height == 40


def test_methods_with_other_names_leave_pillow_as_it_was():
    with pytest.warns(UserWarning, match="Invalid APNG"):
        Image.open(io.BytesIO(hostile.png_with(hostile.chunk(b"acTL", bytes(8)))))


# ---- frames


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF", "AVIF", "MPO"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_frames_are_counted_as_pillow_counts_them(format, count):
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    data = frames_of(format, count)
    assert inspect(data).frames == hostile.open_count(data) == count


blocks = st.one_of(
    st.builds(hostile.gif_frame, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), blocks=st.integers(1, 400)),
    st.builds(hostile.gif_control, st.integers(0, 3)),
    st.binary(min_size=1, max_size=80).map(lambda text: b"!\xfe" + bytes([len(text)]) + text + b"\0"),
    st.just(b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"),
    st.just(b"\0"),
)


@given(st.lists(blocks, max_size=12), st.integers(0, 600))
@settings(max_examples=60, deadline=None)
def test_gif_frames_of_any_blocks(parts, lost):
    first = hostile.gif(hostile.gif_frame())[:-1]
    data = hostile.gif(hostile.gif_frame(), *parts)
    data = data[: max(len(first), len(data) - lost)]
    try:
        expected = hostile.open_count(data)
    except (struct.error, IndexError):  # Pillow stops inside an extension
        return
    assert inspect(data).frames == expected


def test_frames_that_are_not_known_cheaply():
    many_blocks = b"!\xfe" + b"\1a" * 20_000 + b"\0"
    assert inspect(hostile.gif(hostile.gif_frame(), hostile.gif_frame(), many_blocks)).frames is None
    pages = b"".join(struct.pack("<HI", 0, 14 + 6 * page) for page in range(5000))
    assert count_frames(open_image(io.BytesIO(hostile.tiff(1, 1))), io.BytesIO(b"II*\0\x08\0\0\0" + pages)) is None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_pages_of_every_kind_of_tiff(order, big):
    head = (b"II" if order == "<" else b"MM") + struct.pack(
        order + ("HHHQ" if big else "HI"), *((43, 8, 0, 16) if big else (42, 8))
    )
    size = 16 if big else 6
    start = len(head)
    pages = b"".join(
        struct.pack(order + ("QQ" if big else "HI"), 0, start + size * (page + 1) if page < 6 else 0)
        for page in range(7)
    )
    image = open_image(io.BytesIO(hostile.tiff(1, 1)))
    assert count_frames(image, io.BytesIO(head + pages)) == 7
    assert count_frames(image, io.BytesIO((head + pages)[:-1])) == 6
    endless = struct.pack(order + ("QQ" if big else "HI"), 0, start)
    assert count_frames(image, io.BytesIO(head + endless)) == 1


def test_each_page_of_a_tiff_has_its_size():
    pages = [Image.fromarray(noise(height, height + 3, seed=height)) for height in (5, 8, 6)]
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    for frame, page in enumerate(pages):
        policy = DecodePolicy(frame=frame)
        assert open_source(data, policy=policy).size == (page.height, page.width)
        same_as_pillow(data, policy)
    with pytest.raises(MediaError, match="frame 3 was asked for, but the image has 3 frames, numbered from 0"):
        open_source(data, policy=DecodePolicy(frame=3))


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
def test_a_frame_of_an_animation(format):
    data = frames_of(format, 3)
    for frame in range(3):
        same_as_pillow(data, DecodePolicy(frame=frame))
    with pytest.raises(MediaError, match="frame 3 was asked for, but the image has 3 frames"):
        inspect(data, policy=DecodePolicy(frame=3))


def test_a_gif_that_grows():
    data = hostile.gif(hostile.gif_frame(), hostile.gif_frame(30, 10, 40, 70), height=10, width=12)
    assert open_source(data).size == (40, 60)
    assert open_source(data, policy=DecodePolicy(frame=1)).size == (70, 80)


@pytest.mark.parametrize("format", ["JPEG", "MPO", "BMP", "QOI"])
def test_an_image_with_one_frame(format):
    data = frames_of("MPO", 2) if format == "MPO" else file_of(format)
    with pytest.raises(MediaError, match="frame 1 was asked for, but the image has one frame"):
        open_source(data, policy=DecodePolicy(frame=1))


def test_an_index_of_pictures_that_is_damaged_is_one_picture():
    data = frames_of("MPO", 2)
    start = data.index(b"MPF\0") + 4
    for end in range(start, start + 60, 3):
        damaged = data[:end] + b"\xff" * 9 + data[end + 9 :]
        assert inspect(damaged).frames in (1, 2)
