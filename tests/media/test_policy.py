"""The policy as a value, and each of its fields on images."""

import io
import struct
from concurrent.futures import ThreadPoolExecutor

import msgspec
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, ImageOps
from reading import composite, encoded, exif, noise, picture, read_bands, read_rgb, reference_rgb
from stacks import chunk, deep_png, levels
from views import run, view_of

from foveal.errors import CorruptImage, MediaError, MediaTooLarge, OptionError, UnsupportedFormat
from foveal.media.header import FORMATS
from foveal.media.inspection import inspect
from foveal.media.limits import Limits
from foveal.media.pixels import ON_WHITE, Backdrop
from foveal.media.policy import DEFAULT, PRESETS, DecodePolicy, decode_policy
from foveal.media.sources import open_source


def decoded(item, **fields):
    return open_source(item, policy=DecodePolicy(**fields)).decode()


# ---- the value


def test_a_policy_is_a_frozen_value():
    policy = DecodePolicy(background=[1, 2, 3], formats=["PNG", "JPEG", "PNG"])
    assert policy == DecodePolicy(background=(1, 2, 3), formats=("JPEG", "PNG"))
    assert len({policy, DecodePolicy(background=(1, 2, 3), formats=("JPEG", "PNG")), DEFAULT}) == 2
    with pytest.raises(AttributeError):
        policy.frame = 3
    assert msgspec.json.decode(msgspec.json.encode(policy), type=DecodePolicy) == policy


NOT_SO = {
    "orientation": "up",
    "transparency": None,
    "background": (1, 2),
    "square": 0,
    "light": 256,
    "dark": -1,
    "stage": "before resize",
    "rounding": "up",
    "color_key": True,
    "depth": "scale",
    "frame": -1,
    "truncated": 1,
    "formats": "PNG",
}


@pytest.mark.parametrize("name", DecodePolicy.__struct_fields__)
def test_values_that_no_field_has(name):
    for value in (NOT_SO[name], 1.5, object(), ["x" * 1000]):
        with pytest.raises(OptionError, match=rf"^DecodePolicy\.{name}: .{{1,250}}$"):
            DecodePolicy(**{name: value})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orientation", "'apply' or 'ignore'"),
        ("background", "3 values, each a whole number from 0 to 255"),
        ("frame", "a whole number from 0 to 1,048,576"),
        ("formats", "a tuple, each item text"),
    ],
)
def test_a_wrong_value_says_what_is_allowed(name, expected):
    with pytest.raises(OptionError) as caught:
        DecodePolicy(**{name: NOT_SO[name]})
    assert str(caught.value) == f"DecodePolicy.{name}: expected {expected}"


def test_formats_are_those_that_are_read():
    with pytest.raises(OptionError, match=r"^DecodePolicy.formats: 'EPS' is not one of JPEG, PNG, "):
        DecodePolicy(formats=("PNG", "EPS"))
    with pytest.raises(OptionError, match=r"^DecodePolicy.formats names none, "):
        DecodePolicy(formats=())


def test_replace():
    assert decode_policy("vllm").replace(background=(0, 0, 0)).background == (0, 0, 0)
    with pytest.raises(OptionError, match=r"^DecodePolicy has no 'colour'; it has orientation, transparency, "):
        DEFAULT.replace(colour=(0, 0, 0))
    with pytest.raises(OptionError, match=r"^DecodePolicy.depth: "):
        DEFAULT.replace(depth="deep")


def test_by_name():
    assert decode_policy(None) is DEFAULT
    assert decode_policy("sglang") is PRESETS["sglang"]
    policy = DecodePolicy(frame=2)
    assert decode_policy(policy) is policy
    named = "huggingface, huggingface-path, vllm, sglang, smg"
    for value, shown in (
        ("hf", "'hf'"),
        ("x" * 41, "a str"),
        (7, "a int"),
        ({}, "a dict"),
        (DecodePolicy, "a StructMeta"),
    ):
        with pytest.raises(OptionError) as caught:
            decode_policy(value)
        assert str(caught.value) == f"policy must be one of {named}, or a DecodePolicy, not {shown}"


def test_an_identity_is_of_all_that_changes_pixels():
    values = {
        "orientation": "ignore",
        "transparency": "drop",
        "background": (0, 0, 0),
        "square": 1,
        "light": 1,
        "dark": 1,
    }
    values |= {"stage": "after_resize", "rounding": "down", "color_key": "ignore", "depth": "nearest", "frame": 1}
    values |= {"truncated": "accept"}
    assert {*values, "formats"} == {*DecodePolicy.__struct_fields__}
    policies = [DEFAULT, *(DecodePolicy(**{name: value}) for name, value in values.items())]
    assert len({policy.identity for policy in policies}) == len(policies)
    assert DecodePolicy(formats=("PNG",)).identity == DEFAULT.identity


def test_backdrops():
    assert DEFAULT.backdrop == ON_WHITE
    assert DecodePolicy(background=(1, 2, 3), stage="after_resize").backdrop == Backdrop((1, 2, 3), (1, 2, 3), 1, True)
    board = DecodePolicy(transparency="chessboard", square=8, light=250, dark=180, rounding="down")
    assert board.backdrop == Backdrop((250,) * 3, (180,) * 3, 8, False, True)


# ---- transparency


ITEMS = {
    "RGBA": picture("RGBA"),
    "LA": picture("LA"),
    "PA": picture("PA"),
    "array": noise(7, 11, 4),
    "file": encoded(picture("RGBA"), "PNG"),
    "palette": encoded(picture("P"), "PNG", transparency=bytes(range(0, 256, 16))),
    "grey key": encoded(levels("L"), "PNG", transparency=64),
    "key": encoded(levels("RGB"), "PNG", transparency=(64, 64, 9)),
}


def rgba_of(item):
    image = Image.open(io.BytesIO(item)) if isinstance(item, bytes) else item
    return np.asarray(image.convert("RGBA") if isinstance(image, Image.Image) else image)


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_transparency(item):
    rgba = rgba_of(item)
    for background in ((0, 0, 0), (1, 200, 77)):
        np.testing.assert_array_equal(read_rgb(decoded(item, background=background)), composite(rgba, background))
    dropped = decoded(item, transparency="drop")
    assert dropped.alpha is None
    np.testing.assert_array_equal(read_bands(dropped), rgba[..., :3])
    board = decoded(item, transparency="chessboard", stage="after_resize")
    assert board.backdrop == Backdrop((255,) * 3, (200,) * 3, 16, True)
    np.testing.assert_array_equal(read_bands(board), rgba)


def test_dropping_alpha_reads_the_pixels_where_they_lie():
    image = picture("RGBA")
    kept, dropped = (open_source(image, policy=policy).decode() for policy in (DEFAULT, PRESETS["sglang"]))
    assert dropped.rows.tolist() == kept.rows.tolist()


def test_a_caller_s_image_stays_as_it_is():
    for mode, transparency in (("P", bytes(16)), ("RGB", (1, 2, 3)), ("L", 7)):
        image = picture(mode)
        image.info["transparency"] = transparency
        for policy in PRESETS.values():
            open_source(image, policy=policy).decode()
        assert (image.mode, image.info["transparency"]) == (mode, transparency)


def test_the_color_key_of_truecolour():
    data = encoded(levels("RGB"), "PNG", transparency=(64, 64, 9))
    plain, keyed = decoded(data, color_key="ignore"), decoded(data)
    assert plain.alpha is None
    np.testing.assert_array_equal(read_rgb(plain), np.asarray(levels("RGB")))
    assert (read_rgb(keyed) != read_rgb(plain)).any()
    grey = encoded(levels("L"), "PNG", transparency=64)
    np.testing.assert_array_equal(read_rgb(decoded(grey, color_key="ignore")), read_rgb(decoded(grey)))


policies = st.builds(
    DecodePolicy,
    orientation=st.sampled_from(["apply", "ignore"]),
    transparency=st.sampled_from(["composite", "drop", "chessboard"]),
    background=st.tuples(*[st.integers(0, 255)] * 3),
    square=st.integers(1, 9),
    light=st.integers(0, 255),
    dark=st.integers(0, 255),
    stage=st.sampled_from(["before_resize", "after_resize"]),
    rounding=st.sampled_from(["nearest", "down"]),
)


def pixels_by_numpy(data, policy):
    """What a policy says, without the library's decoding and without its kernels."""
    image = Image.open(io.BytesIO(data))
    rgba = np.asarray((ImageOps.exif_transpose(image) if policy.orientation == "apply" else image).convert("RGBA"))
    if policy.transparency == "drop":
        return rgba[..., :3]
    behind = policy.background
    if policy.transparency == "chessboard":
        behind = naive.chessboard(rgba.shape[:2], policy.square, (policy.light,) * 3, (policy.dark,) * 3)
    return naive.composite(rgba, behind, policy.rounding == "down")


@given(
    policy=policies,
    mode=st.sampled_from(["LA", "RGBA", "P"]),
    orientation=st.integers(1, 8),
    size=st.tuples(st.integers(1, 20), st.integers(1, 40)),
)
@settings(max_examples=200, deadline=None)
def test_any_policy_on_a_picture_that_is_not_resized(policy, mode, orientation, size):
    """Where nothing is resized, both stages are one."""
    options = {"transparency": bytes(range(0, 256, 16))} if mode == "P" else {}
    data = encoded(picture(mode, *size), "PNG", exif=exif(orientation), **options)
    source = open_source(data, policy=policy)
    got = run(view_of(source.size), source.decode()).reshape(3, *source.size)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), pixels_by_numpy(data, policy))


# ---- depth


RAMP = np.arange(65536, dtype=np.uint16).reshape(256, 256)
BYTES = {
    "clip": np.minimum(RAMP, 255),
    "high_byte": RAMP >> 8,
    "nearest": np.rint(RAMP / 257),
}


def big_endian_tiff():
    image = Image.new("I;16B", (256, 256))
    image.frombytes(RAMP.astype(">u2").tobytes())
    return encoded(image, "TIFF")


DEEP = {
    "Pillow": Image.fromarray(RAMP),
    "PNG": encoded(Image.fromarray(RAMP), "PNG"),
    "TIFF": encoded(Image.fromarray(RAMP), "TIFF"),
    "TIFF, big-endian": big_endian_tiff(),
    "PPM": encoded(Image.fromarray(RAMP), "PPM"),
    "JPEG2000": encoded(Image.fromarray(RAMP), "JPEG2000", irreversible=False),
    "32 bits": Image.fromarray(RAMP.astype(np.int32)),
}


@pytest.mark.parametrize("depth", BYTES)
@pytest.mark.parametrize("item", DEEP.values(), ids=DEEP)
def test_depth(item, depth):
    got = read_bands(decoded(item, depth=depth))
    np.testing.assert_array_equal(got, np.repeat(BYTES[depth][..., None], 3, axis=2))


def test_values_of_32_bits_are_cut_to_16():
    image = Image.fromarray(np.array([[-5, 70000, 2**31 - 1, 40000]], np.int32))
    for depth, want in (
        ("high_byte", [0, 255, 255, 156]),
        ("nearest", [0, 255, 255, 156]),
        ("clip", [0, 255, 255, 255]),
    ):
        assert read_bands(decoded(image, depth=depth))[0, :, 0].tolist() == want


def test_floats_are_clipped_whatever_the_depth():
    image = picture("F")
    for depth in BYTES:
        np.testing.assert_array_equal(read_rgb(decoded(image, depth=depth)), reference_rgb(image))


def test_colours_of_16_bits_are_their_upper_bytes():
    for kind, channels in ((2, 3), (4, 2), (6, 4)):
        upper = noise(7, 11, 2 * channels)[..., ::2]
        upper = upper if channels != 2 else upper[..., [0, 0, 0, 1]]
        for depth in BYTES:
            np.testing.assert_array_equal(read_bands(decoded(deep_png(kind, channels), depth=depth)), upper)


@pytest.mark.parametrize("depth", ["high_byte", "nearest"])
def test_the_key_of_a_grey_image_of_16_bits(depth):
    key = int.from_bytes(noise(7, 11, 2)[3, 4].tobytes(), "big")
    data = deep_png(0, 1, chunk(b"tRNS", struct.pack(">H", key)))
    got = read_bands(decoded(data, depth=depth))
    values = noise(7, 11, 2).view(">u2")[..., 0]
    np.testing.assert_array_equal(got[..., 3], np.where(values == key, 0, 255))
    np.testing.assert_array_equal(got[..., 1], values >> 8 if depth == "high_byte" else np.rint(values / 257))
    assert decoded(data, depth=depth, transparency="drop").alpha is None


# ---- frames and formats


FRAMES = [Image.new("RGB", (12, 9), colour) for colour in ("red", "lime", "blue")]


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_frames(format):
    data = encoded(
        FRAMES[0], format, save_all=True, append_images=FRAMES[1:], **({"lossless": True} if format == "WEBP" else {})
    )
    for frame, channel in enumerate((0, 1, 2)):
        pixel = read_rgb(decoded(data, frame=frame))[4, 5]
        assert pixel[channel] == 255
        assert pixel.sum() == 255
    with pytest.raises(MediaError, match=r"^frame 3 was asked for, but the image has 3 frames, numbered from 0$"):
        decoded(data, frame=3)


def test_a_page_has_a_size_of_its_own():
    data = encoded(FRAMES[0], "TIFF", save_all=True, append_images=[Image.new("RGB", (30, 20), "blue")])
    source = open_source(data, policy=DecodePolicy(frame=1))
    assert source.size == (20, 30)
    assert read_rgb(source.decode())[19, 29].tolist() == [0, 0, 255]


def test_a_heif_of_several_pictures():
    pillow_heif = pytest.importorskip("pillow_heif")
    pictures = [Image.new("RGB", (64, 48), "red"), Image.new("RGB", (80, 32), "blue")]
    file = pillow_heif.from_pillow(pictures[0])
    file.add_from_pillow(pictures[1])
    data = io.BytesIO()
    file.save(data)
    assert inspect(data).frames == 2
    for frame, size in enumerate([(48, 64), (32, 80)]):
        source = open_source(data, policy=DecodePolicy(frame=frame))
        assert source.size == size
        assert read_rgb(source.decode())[9, 9].argmax() == 2 * frame
    with pytest.raises(MediaError, match="but the image has 2 frames, numbered from 0"):
        open_source(data, policy=DecodePolicy(frame=2))
    with pytest.raises(MediaTooLarge, match=r"the image has 2 frames, more than the limit of 1 \(Limits.frames\)"):
        open_source(data, limits=Limits(frames=1))


def test_one_frame():
    for format in ("JPEG", "BMP"):
        with pytest.raises(MediaError, match=r"^frame 1 was asked for, but the image has one frame$"):
            decoded(encoded(FRAMES[0], format), frame=1)
    np.testing.assert_array_equal(read_rgb(decoded(FRAMES[1], frame=1)), np.asarray(FRAMES[1]))


def test_the_first_picture_of_a_multi_picture_jpeg():
    data = encoded(FRAMES[0], "MPO", save_all=True, append_images=FRAMES[1:])
    assert read_rgb(decoded(data))[4, 5, 0] > 250


def test_formats():
    data = encoded(FRAMES[0], "GIF")
    with pytest.raises(UnsupportedFormat, match=r"^GIF is not one of the formats that are accepted \(JPEG, PNG\)$"):
        decoded(data, formats=("PNG", "JPEG"))
    assert "GIF" in FORMATS
    decoded(data, formats=("GIF",))


# ---- files that end early


TRUNCATED = {
    "JPEG": ("RGB", {}),
    "JPEG progressive": ("RGB", {"progressive": True}),
    "JPEG CMYK": ("CMYK", {}),
    "PNG": ("RGB", {}),
    "PNG alpha": ("RGBA", {}),
    "PNG palette": ("P", {"transparency": 3}),
    "PNG 16": ("I;16", {}),
    "GIF": ("P", {}),
    "WEBP": ("RGBA", {"lossless": True}),
    "TIFF": ("RGB", {}),
    "TIFF strips": ("RGB", {"strip_size": 40}),
    "TIFF LZW": ("RGB", {"compression": "tiff_lzw"}),
    "BMP": ("RGB", {}),
    "PPM": ("RGB", {}),
    "JPEG2000": ("RGB", {}),
    "QOI": ("RGB", {}),
}


def with_pillows_flag(data, monkeypatch):
    """What Pillow makes of it with its flag set; None where it refuses."""
    with monkeypatch.context() as patch:
        patch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        try:
            image = Image.open(io.BytesIO(data))
            image.load()
            return reference_rgb(image)
        except Exception:
            return None


@pytest.mark.parametrize("name", TRUNCATED)
def test_truncated_files_as_with_pillows_flag(name, monkeypatch):
    mode, options = TRUNCATED[name]
    data = encoded(picture(mode, 24, 20), name.split()[0], **options)
    refused = accepted = 0
    for length in range(0, len(data), max(1, len(data) // 100)):
        want = with_pillows_flag(data[:length], monkeypatch)
        try:
            got = read_rgb(decoded(data[:length], truncated="accept"))
        except MediaError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert want is None
            refused += 1
        else:
            np.testing.assert_array_equal(got, want)
            accepted += 1
    assert refused
    assert accepted > 30 or name in ("WEBP", "TIFF LZW", "QOI")


def test_every_place_where_a_png_can_end(monkeypatch):
    """Where it ends inside a chunk behind the pixels, all of them are there, though Pillow's flag does not help."""
    data = encoded(picture("P", 5, 4), "PNG", transparency=bytes(4), compress_level=0)
    behind = len(data) - 12
    data = data[:behind] + chunk(b"tEXt", b"a\0b") + data[behind:]
    whole = read_rgb(decoded(data))
    for length in range(len(data)):
        want = with_pillows_flag(data[:length], monkeypatch)
        if want is None and length < behind:
            with pytest.raises(MediaError):
                decoded(data[:length], truncated="accept")
        else:
            got = read_rgb(decoded(data[:length], truncated="accept"))
            np.testing.assert_array_equal(got, whole if want is None else want)


def test_a_whole_file_is_not_changed_by_accepting():
    for name, (mode, options) in TRUNCATED.items():
        data = encoded(picture(mode, 24, 20), name.split()[0], **options)
        np.testing.assert_array_equal(read_rgb(decoded(data, truncated="accept")), read_rgb(decoded(data)))


def test_accepting_is_of_one_image():
    """Whatever else is decoded meanwhile is refused, and Pillow's flag is never touched."""
    data = encoded(picture("RGB", 200, 200), "JPEG", quality=95)[:-2000]
    policies = [DecodePolicy(truncated=truncated) for truncated in ("accept", "refuse")] * 20

    def run(policy):
        try:
            return read_rgb(open_source(data, policy=policy).decode())[-1, -1].tolist()
        except CorruptImage:
            return None

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, policies))
    assert results == [[128, 128, 128], None] * 20
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
