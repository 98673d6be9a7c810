"""Pixels read back through their addresses, and the rule that they are compared with."""

import ctypes
import io
import struct

import numpy as np
from PIL import Image

from foveal.media.pixels import Pixels


def read_bands(pixels: Pixels) -> np.ndarray:
    """Return (height, width, 3 or 4) bytes, one ctypes read each: slow, and independent of NumPy's strides."""
    offsets = [*pixels.channels] + ([] if pixels.alpha is None else [pixels.alpha])
    out = np.empty((pixels.height, pixels.width, len(offsets)), np.uint8)
    for y, row in enumerate(pixels.rows.tolist()):
        for x in range(pixels.width):
            for band, offset in enumerate(offsets):
                out[y, x, band] = ctypes.c_uint8.from_address(row + x * pixels.step + offset).value
    return out


def composite(bands: np.ndarray, background: tuple[int, int, int]) -> np.ndarray:
    """Return RGB; what is transparent lies over a background, in Pillow's arithmetic."""
    if bands.shape[2] == 3:
        return bands
    image = Image.fromarray(bands)
    return np.asarray(Image.alpha_composite(Image.new("RGBA", image.size, (*background, 255)), image).convert("RGB"))


def read_rgb(pixels: Pixels) -> np.ndarray:
    return composite(read_bands(pixels), pixels.backdrop.light)


def reference_rgb(image: Image.Image) -> np.ndarray:
    """Return what a processor of transformers 5.24 makes of a Pillow image before it resizes."""
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        return composite(np.asarray(image.convert("RGBA")), (255, 255, 255))
    return np.asarray(image.convert("RGB"))


def noise(height: int, width: int, channels: int | None = 3, seed: int = 0) -> np.ndarray:
    shape = (height, width) if channels is None else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def picture(mode: str, height: int = 7, width: int = 11) -> Image.Image:
    """Return a noisy image of any mode that Pillow has."""
    grey = noise(height, width, None)
    if mode in ("I;16", "I;16L", "I;16B"):
        image = Image.new(mode, (width, height))
        image.frombytes(noise(height, width, 2).tobytes())
        return image
    if mode == "I":
        return Image.fromarray(grey.astype(np.int32) * 3 - 200)
    if mode == "F":
        return Image.fromarray(grey.astype(np.float32) * 1.7 - 60.5)
    if mode == "P":
        return Image.fromarray(noise(height, width, 3)).quantize(16)
    if mode == "PA":
        image = Image.new("PA", (width, height))
        image.putpalette(noise(256, 3, None).tobytes())
        image.putdata([(int(a), int(b)) for a, b in noise(height, width, 2).reshape(-1, 2)])
        return image
    if mode == "1":
        return Image.fromarray(grey).convert("1")
    channels = len(Image.new(mode, (1, 1)).getbands())
    image = Image.new(mode, (width, height))
    image.frombytes(noise(height, width, channels).tobytes())
    return image


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def exif(orientation: int, order: str = "<") -> bytes:
    """Return an EXIF block with one entry."""
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"Exif\0\0" + head + struct.pack(order + "HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
