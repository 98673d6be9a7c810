"""Two checks that a person can follow by hand: padding and normalizing a tiny image, and the bytes of the result."""

import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import yaml

import foveal
from foveal.spec.find import load

MEAN, STD = (0.25, 0.5, 0.75), (0.5, 0.25, 0.125)
TOP = 2
CANVAS = 9
"""Rows of the canvas: two of padding, the image's five, two of padding."""


def known_image() -> npt.NDArray[np.uint8]:
    """Return 5 x 8 pixels, no two alike, with bytes from 0 to 255."""
    return (np.arange(120, dtype=np.uint8).reshape(5, 8, 3) * 2 + np.array([0, 1, 17], dtype=np.uint8)).astype(np.uint8)


@pytest.fixture
def padding(tmp_path: Path) -> foveal.Preprocessor:
    """Return LLaVA-1.5 from a file, so small that the known image is only padded."""
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(load("llava1_5")))
    return foveal.Preprocessor.from_spec(
        str(file),
        size={"shortest_edge": 5},
        crop_size={"height": CANVAS, "width": 8},
        image_mean=list(MEAN),
        image_std=list(STD),
    )


@pytest.fixture
def tiling(tmp_path: Path) -> foveal.Preprocessor:
    """Return Llama-4 from a file, with a tile that the known image fills in width, and patches that fit into it."""
    spec = load("llama4")
    spec["tokens"]["features"]["patch"] = 4
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(spec))
    return foveal.Preprocessor.from_spec(
        str(file), size={"height": 8, "width": 8}, image_mean=list(MEAN), image_std=list(STD)
    )


def normalized(byte: int, channel: int) -> float:
    return (byte / 255 - MEAN[channel]) / STD[channel]


def slow_canvas(image: npt.NDArray[np.uint8], height: int, top: int) -> npt.NDArray[np.float32]:
    """Pad and normalize pixel by pixel in double precision."""
    canvas = np.empty((1, 3, height, image.shape[1]), np.float32)
    for channel in range(3):
        for y in range(height):
            for x in range(image.shape[1]):
                inside = top <= y < top + image.shape[0]
                canvas[0, channel, y, x] = normalized(int(image[y - top, x, channel]) if inside else 0, channel)
    return canvas


def test_padding_is_normalized_black_and_the_image_is_normalized(padding: foveal.Preprocessor) -> None:
    image = known_image()
    result = padding(image)["pixel_values"]
    assert result.dtype == np.float32
    assert result.shape == (1, 3, CANVAS, 8)
    np.testing.assert_allclose(result, slow_canvas(image, CANVAS, TOP), rtol=0, atol=1e-6)
    for channel in range(3):
        black = np.float32(-MEAN[channel] / STD[channel])
        assert set(result[0, channel, :TOP].ravel()) == {black}
        assert set(result[0, channel, TOP + 5 :].ravel()) == {black}


def test_tiles_are_padded_below_and_rounded_to_bfloat16_after_each_step(tiling: foveal.Preprocessor) -> None:
    image = known_image()
    result = tiling(image)["pixel_values"]
    assert result.dtype == ml_dtypes.bfloat16
    assert result.shape == (1, 3, 8, 8)
    bf16 = ml_dtypes.bfloat16
    for channel in range(3):
        mean, std = np.float32(bf16(MEAN[channel])), np.float32(bf16(STD[channel]))
        for y in range(8):
            for x in range(8):
                scaled = bf16(np.float32(image[y, x, channel] if y < 5 else 0) * np.float32(1 / 255))
                centred = bf16(np.float32(scaled) - mean)
                assert result[0, channel, y, x] == bf16(np.float32(centred) / std)
        assert set(result[0, channel, 5:].astype(float).ravel()) == {-MEAN[channel] / STD[channel]}
    np.testing.assert_allclose(result.astype(np.float32), slow_canvas(image, 8, 0), rtol=0, atol=0.02)


def bytes_of_float32(value: float) -> bytes:
    return struct.pack("<f", value)


def bytes_of_bfloat16(value: float) -> bytes:
    """Round to the nearest upper half of a float32, to the even one of two equally near."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16)


SERIALIZERS = {"float32": bytes_of_float32, "bfloat16": bytes_of_bfloat16}


def serialized(tensor: npt.NDArray[np.float32], name: str) -> bytes:
    """Serialize element by element, in the order of the axes."""
    elements = []
    for image in tensor:
        for plane in image:
            for row in plane:
                elements += [SERIALIZERS[name](float(value)) for value in row]
    return b"".join(elements)


def sources() -> dict[str, npt.NDArray[np.uint8]]:
    """Return the known image in memory of several orders, contiguous and not."""
    image = known_image()
    spaced = np.full((10, 24, 3), 77, np.uint8)
    spaced[::2, ::3] = image
    reversed_image = image[::-1, ::-1].copy()
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))
    return {
        "contiguous": image,
        "every second row, every third column": spaced[::2, ::3],
        "both axes backwards": reversed_image[::-1, ::-1],
        "planes": planes.transpose(1, 2, 0),
        "columns first": np.asfortranarray(image),
        "channels backwards": np.ascontiguousarray(image[:, :, ::-1])[:, :, ::-1],
    }


@pytest.mark.parametrize("source", sources())
@pytest.mark.parametrize("dtype", SERIALIZERS)
def test_bytes_are_those_of_the_slow_serializer(padding: foveal.Preprocessor, source: str, dtype: str) -> None:
    array = sources()[source]
    np.testing.assert_array_equal(array, known_image())
    exact = padding(known_image(), dtype="float32")["pixel_values"]
    result = padding(array, dtype=dtype)["pixel_values"]
    expected = serialized(exact, dtype)
    assert result.flags.c_contiguous
    assert result.tobytes() == expected
    assert bytes(memoryview(result.view(np.uint8)).cast("B")) == expected


def test_bytes_written_into_a_buffer_of_the_caller(padding: foveal.Preprocessor) -> None:
    image = known_image()
    message = bytearray(b"\xee" * (64 + 4 * 3 * CANVAS * 8 + 64))
    out = np.frombuffer(message, np.float32, 3 * CANVAS * 8, offset=64).reshape(1, 3, CANVAS, 8)
    padding(image, out=out)
    assert message[64:-64] == serialized(padding(image)["pixel_values"], "float32")
    assert set(message[:64] + message[-64:]) == {0xEE}
