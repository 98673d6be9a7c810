import gc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from reading import noise, read_bands, read_rgb, reference_rgb

from foveal.errors import MediaError, OptionError
from foveal.media.sources import open_source

RGB = noise(9, 13, 3)

LAYOUTS = {
    "contiguous": RGB,
    "fortran": np.asfortranarray(RGB),
    "crop": noise(20, 30, 3)[4:11, 5:19],
    "every second": noise(20, 30, 3)[::2, 1::3],
    "upside down": RGB[::-1],
    "mirrored": RGB[:, ::-1],
    "turned": RGB[::-1, ::-1],
    "transposed": RGB.transpose(1, 0, 2),
    "BGR": RGB[:, :, ::-1],
    "RGB of RGBA": noise(9, 13, 4)[:, :, :3],
    "one row": RGB[:1],
    "one column": RGB[:, :1],
    "one pixel": RGB[:1, :1],
    "one row for all": np.broadcast_to(RGB[:1], RGB.shape),
    "one pixel for all": np.broadcast_to(RGB[:1, :1], RGB.shape),
    "RGBA": noise(9, 13, 4),
    "ABGR": noise(9, 13, 4)[:, :, ::-1],
    "grey": noise(9, 13, None),
    "grey, one channel": noise(9, 13, 1),
    "red alone": RGB[:, :, :1],
}


@pytest.mark.parametrize("array", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_is_read_where_it_lies(array):
    source = open_source(array)
    pixels = source.decode()
    assert source.size == (pixels.height, pixels.width) == array.shape[:2]
    assert pixels.rows.dtype == np.uint64
    assert pixels.rows.flags.c_contiguous
    assert np.shares_memory(pixels.owner, array)
    assert min(pixels.channels) >= 0
    plain = np.ascontiguousarray(array)
    expected = Image.fromarray(plain[:, :, 0] if plain.ndim == 3 and plain.shape[2] == 1 else plain)
    np.testing.assert_array_equal(read_rgb(pixels), reference_rgb(expected))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_first_is_a_view(channels):
    array = np.ascontiguousarray(np.moveaxis(noise(9, 13, channels), -1, 0))
    source = open_source(array, input_data_format="channels_first")
    pixels = source.decode()
    assert source.size == (9, 13)
    assert pixels.rows[0] == array.__array_interface__["data"][0]
    expected = np.moveaxis(array, 0, -1)
    np.testing.assert_array_equal(read_bands(pixels), expected if channels > 1 else np.repeat(expected, 3, axis=2))


def test_order_is_not_guessed_from_the_shape():
    ambiguous = noise(3, 5, 4)
    assert open_source(ambiguous).size == (3, 5)
    assert open_source(ambiguous, input_data_format="channels_last").size == (3, 5)
    assert open_source(ambiguous, input_data_format="channels_first").size == (5, 4)


def test_grey_has_no_channel_order():
    array = noise(3, 5, None)
    assert open_source(array, input_data_format="channels_first").size == (3, 5)


def test_owner_keeps_the_array_alive():
    array = noise(300, 300, 3)
    pixels = open_source(array[10:, ::-1]).decode()
    expected = array[10:20, ::-1][:, :20].copy()
    del array
    gc.collect()
    noise(300, 300, 3, seed=1)
    np.testing.assert_array_equal(read_bands(pixels)[:10, :20], expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize(("value_range", "scale"), [((0, 1), 255.0), ((0.0, 255.0), 1.0), ([0, 255], 1.0)])
def test_floats_are_scaled_clipped_and_rounded_half_to_even(dtype, value_range, scale):
    levels = np.array([[-3.0, 0.0, 0.49, 0.5, 1.5], [2.5, 127.5, 254.5, 255.0, 300.0]])
    # Only 0..255 can state halves exactly; 0..1 is checked on whole levels.
    values = levels if scale == 1.0 else np.round(levels)
    array = (values / scale).astype(dtype)
    pixels = open_source(array, value_range=value_range).decode()
    np.testing.assert_array_equal(read_bands(pixels)[:, :, 0], np.rint(np.clip(values, 0, 255)))


def test_every_byte_survives_a_float_in_0_to_1():
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for dtype in (np.float16, np.float32, np.float64):
        pixels = open_source((levels / 255).astype(dtype), value_range=(0, 1)).decode()
        np.testing.assert_array_equal(read_bands(pixels)[:, :, 0], levels)


def test_infinity_is_clipped():
    array = np.array([[np.inf, -np.inf]], np.float32)
    np.testing.assert_array_equal(read_bands(open_source(array, value_range=(0, 1)).decode())[0, :, 0], [255, 0])


def test_float_layouts():
    array = np.moveaxis(noise(9, 13, 4), -1, 0) / np.float32(255)
    pixels = open_source(array, input_data_format="channels_first", value_range=(0, 1)).decode()
    np.testing.assert_array_equal(read_bands(pixels), noise(9, 13, 4))


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("band", [1, 100, 1 << 18])
def test_floats_are_converted_in_bands(band, channels_first, monkeypatch):
    monkeypatch.setattr("foveal.media.arrays._BAND", band)
    array = np.random.default_rng(3).uniform(0, 255, (37, 23, 3)).astype(np.float32)
    given = np.moveaxis(array, -1, 0) if channels_first else array
    options = {"input_data_format": "channels_first"} if channels_first else {}
    pixels = open_source(given, value_range=(0, 255), **options).decode()
    np.testing.assert_array_equal(read_bands(pixels), np.rint(array))
    array[-1, -1, 2] = np.nan
    with pytest.raises(MediaError, match="not a number"):
        open_source(given, value_range=(0, 255), **options).decode()


def test_value_range_may_state_what_uint8_is():
    assert open_source(RGB, value_range=(0, 255)).decode().rows[0] == RGB.__array_interface__["data"][0]


REFUSED = {
    "channels first": (
        np.zeros((3, 224, 200), np.uint8),
        {},
        "the array has 200 channels (3x224x200, channels_last); expected 1, 3 or 4; "
        "pass input_data_format='channels_first' if they are its first axis",
    ),
    "channels last": (
        np.zeros((224, 200, 3), np.uint8),
        {"input_data_format": "channels_first"},
        "the array has 224 channels (224x200x3, channels_first); expected 1, 3 or 4; "
        "pass input_data_format='channels_last' if they are its last axis",
    ),
    "two channels": (
        np.zeros((5, 5, 2), np.uint8),
        {},
        "the array has 2 channels (5x5x2, channels_last); expected 1, 3 or 4",
    ),
    "batch": (
        np.zeros((2, 5, 5, 3), np.uint8),
        {},
        "the array has 4 axes (2x5x5x3); pass a batch as a list of pictures",
    ),
    "line": (
        np.zeros(5, np.uint8),
        {},
        "the array has 1 axes; expected height x width or height x width x channels",
    ),
    "no rows": (np.zeros((0, 5, 3), np.uint8), {}, "the array has no pixels (0x5x3)"),
    "no columns": (np.zeros((5, 0), np.uint8), {}, "the array has no pixels (5x0)"),
    "bool": (np.zeros((5, 5), bool), {}, "the array is bool; expected uint8, or floats with value_range="),
    "int64": (np.zeros((5, 5), np.int64), {}, "the array is int64; expected uint8, or floats with value_range="),
    "int8": (
        np.zeros((5, 5), np.int8),
        {"value_range": (0, 255)},
        "the array is int8; expected uint8, or floats with value_range=",
    ),
    "object": (np.zeros((5, 5), object), {}, "the array is object; expected uint8, or floats with value_range="),
    "float": (
        np.zeros((5, 5, 3), np.float32),
        {},
        "the array is float32; say value_range=(0, 1) or value_range=(0, 255)",
    ),
    "range of uint8": (
        np.zeros((5, 5, 3), np.uint8),
        {"value_range": (0, 1)},
        "value_range=(0, 1) is for floats; the array is uint8",
    ),
}


@pytest.mark.parametrize(("array", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(array, options, message):
    with pytest.raises(MediaError) as caught:
        open_source(array, **options)
    assert str(caught.value) == message


def test_nan_is_refused_when_the_values_are_read():
    source = open_source(np.full((2, 2), np.nan), value_range=(0, 1))
    with pytest.raises(MediaError) as caught:
        source.decode()
    assert str(caught.value) == "the array holds values that are not a number"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_data_format": "none"}, "input_data_format must be channels_first or channels_last, not 'none'"),
        ({"value_range": (-1, 1)}, "value_range must be (0, 1) or (0, 255), not other values"),
    ],
)
def test_options_are_checked_whatever_the_item(options, message):
    for item in (RGB, Image.new("RGB", (3, 3))):
        with pytest.raises(OptionError) as caught:
            open_source(item, **options)
        assert str(caught.value) == message


NO_RANGES = [5, True, {0: 1}, float("nan"), iter((0, 1)), object(), np.float32(1), np.array(1), np.zeros((2, 2))]
OTHER_RANGES = [
    (), (0, 1, 2), (1, 0), (None, None), (0, float("nan")), [[0, 1]], (0, 10**400),
    np.array([0.0, np.nan]), np.array(["0", "1"]), [np.array([1, 2])] * 2,
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "kind"),
    [(value, f"a {type(value).__name__}") for value in NO_RANGES] + [(value, "other values") for value in OTHER_RANGES],
)
def test_what_is_no_value_range(value, kind):
    with pytest.raises(OptionError) as caught:
        open_source(RGB.astype(np.float32), value_range=value)
    assert str(caught.value) == f"value_range must be (0, 1) or (0, 255), not {kind}"


def test_a_value_range_may_be_an_array():
    pixels = open_source((RGB / 255).astype(np.float32), value_range=np.array([0, 1])).decode()
    np.testing.assert_array_equal(read_bands(pixels), RGB)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5, "a int"),
        (True, "a bool"),
        ("CHANNELS_FIRST", "'CHANNELS_FIRST'"),
        ("a\nb", r"'a\nb'"),
        ("x" * 100, "a str"),
        (b"channels_first", "a bytes"),
        (["channels_first"], "a list"),
        (np.array([1, 2]), "a ndarray"),
        (object(), "a object"),
    ],
)
def test_what_is_no_input_data_format(value, shown):
    with pytest.raises(OptionError) as caught:
        open_source(RGB, input_data_format=value)
    assert str(caught.value) == f"input_data_format must be channels_first or channels_last, not {shown}"


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (Image.new("RGB", (3, 3)), "a Pillow image"),
        (b"", "an encoded image"),
        ("none.png", "an encoded image"),
        (Path("none.png"), "an encoded image"),
    ],
)
@pytest.mark.parametrize("options", [{"input_data_format": "channels_last"}, {"value_range": (0, 255)}])
def test_options_of_arrays_are_for_arrays(item, kind, options):
    with pytest.raises(OptionError) as caught:
        open_source(item, **options)
    assert str(caught.value) == f"{next(iter(options))} is for arrays, this is {kind}"


def test_masked_arrays_are_refused():
    with pytest.raises(MediaError, match=r"^a masked array is not an image; "):
        open_source(np.ma.masked_array(RGB, RGB == 0))


class Odd(np.ndarray):
    def __getitem__(self, key):
        raise AssertionError("a caller's code ran")


def test_subclasses_are_read_as_plain_arrays():
    np.testing.assert_array_equal(read_bands(open_source(RGB.view(Odd)).decode()), RGB)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
def test_values_that_overflow_are_clipped(dtype):
    array = np.array([[np.finfo(dtype).max, np.finfo(dtype).min]], dtype)
    for value_range in ((0, 1), (0, 255)):
        pixels = open_source(array, value_range=value_range).decode()
        np.testing.assert_array_equal(read_bands(pixels)[0, :, 0], [255, 0])


def test_a_dtype_with_a_long_name_is_shown_short():
    fields = [(f"field_{i}", np.uint8) for i in range(1000)]
    with pytest.raises(MediaError) as caught:
        open_source(np.zeros((2, 2), fields))
    assert str(caught.value) == "the array is void8000; expected uint8, or floats with value_range="
