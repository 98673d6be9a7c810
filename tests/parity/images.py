"""Pictures that every machine draws alike: integer arithmetic on coordinates, no random generator, no files."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["Picture", "draw", "draw_all"]

OPAQUE = {"RGB": 3, "L": 1, "YCbCr": 3, "CMYK": 4, "1": 1}
WITH_ALPHA = {"RGBA": 4, "LA": 2}


class Picture(NamedTuple):
    """A picture by its description.

    ``mode`` is a Pillow mode, or ``P+alpha`` (each palette entry has an alpha value), or ``P+key``, ``L+key`` or
    ``RGB+key`` (one colour is transparent).
    """

    height: int
    width: int
    mode: str = "RGB"
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.height}x{self.width} {self.mode} {self.seed}"


def hashed(y: npt.NDArray[np.uint32], x: npt.NDArray[np.uint32], seed: int) -> npt.NDArray[np.uint32]:
    """Return noise, one 32-bit number for each pair of coordinates; multiplications wrap around on purpose."""
    h = y * np.uint32(0x9E3779B1) ^ x * np.uint32(0x85EBCA77) ^ np.uint32(seed * 0x27D4EB2F & 0xFFFFFFFF)
    h = (h ^ h >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    h = (h ^ h >> np.uint32(12)) * np.uint32(0x297A2D39)
    return h ^ h >> np.uint32(15)


def channel(height: int, width: int, seed: int) -> npt.NDArray[np.uint8]:
    """Draw one channel: a slope, noise of 48 levels on it, and saturated bars and blocks, so that filters overshoot."""
    y = np.arange(height, dtype=np.uint32)[:, None]
    x = np.arange(width, dtype=np.uint32)[None, :]
    noise = hashed(y, x, seed)
    along = x if seed % 2 else x + y
    length = width if seed % 2 else width + height
    slope = (along * np.uint32(207) // np.uint32(length)).astype(np.uint32)
    value = slope + noise % np.uint32(49)
    block = hashed(y // np.uint32(11 + seed % 5), x // np.uint32(13), seed + 1) % np.uint32(16)
    bar = (x + y * np.uint32(2)) % np.uint32(37 + seed) < 2
    value = np.where(block == 0, np.uint32(0), np.where(block == 1, np.uint32(255), value))
    return np.where(bar, np.uint32(255) - value, value).astype(np.uint8)


def samples(height: int, width: int, channels: int, seed: int) -> npt.NDArray[np.uint8]:
    return np.stack([channel(height, width, 7 * seed + c) for c in range(channels)], axis=-1)


def from_bytes(mode: str, array: npt.NDArray[np.uint8]) -> Image.Image:
    height, width = array.shape[:2]
    return Image.frombytes(mode, (width, height), array.tobytes())


def indexed(picture: Picture) -> Image.Image:
    """Draw 32 palette colours, with or without transparent entries."""
    indices = samples(picture.height, picture.width, 1, picture.seed)[:, :, 0] >> 3
    image = from_bytes("P", indices)
    image.putpalette(samples(1, 32, 3, picture.seed + 1).tobytes())
    if picture.mode == "P+alpha":
        image.info["transparency"] = samples(1, 32, 1, picture.seed + 2).tobytes()
    if picture.mode == "P+key":
        image.info["transparency"] = int(indices[picture.height // 2, picture.width // 2])
    return image


def keyed(picture: Picture) -> Image.Image:
    """Draw 16 levels a channel, of which one colour, that of the middle pixel, counts as transparent."""
    mode = picture.mode.removesuffix("+key")
    array = samples(picture.height, picture.width, OPAQUE[mode], picture.seed) & 0xF0
    image = from_bytes(mode, array)
    middle = array[picture.height // 2, picture.width // 2].tolist()
    image.info["transparency"] = tuple(middle) if mode == "RGB" else middle[0]
    return image


@lru_cache(maxsize=256)
def draw(picture: Picture) -> Image.Image:
    """Return the picture as Pillow would hand it out after decoding; treat it as read-only."""
    height, width, mode, seed = picture
    if mode.startswith("P"):
        return indexed(picture)
    if mode.endswith("+key"):
        return keyed(picture)
    if mode == "1":
        return from_bytes("L", samples(height, width, 1, seed)).point(lambda value: 255 if value > 127 else 0, mode="1")
    return from_bytes(mode, samples(height, width, (OPAQUE | WITH_ALPHA)[mode], seed))


def draw_all(pictures: Any) -> Any:
    """Draw a picture, or tuples of them, nested in any way; tuples become lists."""
    return draw(pictures) if isinstance(pictures, Picture) else [draw_all(picture) for picture in pictures]
