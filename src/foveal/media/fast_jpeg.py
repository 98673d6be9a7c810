"""JPEG by simplejpeg, where it is installed: the pixels that Pillow gives, in less time.

Both use libjpeg-turbo, and with its default transform and upsampling they agree, unless one of them was built with
another version. So the first use compares both on a few pictures, and nothing is decoded here unless all are equal.
What simplejpeg cannot do as Pillow does, or refuses, is left to Pillow.
"""

import io
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["decode_jpeg", "is_available"]

SPACES = {"RGB": "RGB", "L": "GRAY"}
"""What simplejpeg calls the modes that it decodes as Pillow does; CMYK it inverts in another way."""

_END = b"\xff\xd9"
_TAIL = 4096
"""Where the end of a file is looked for: simplejpeg refuses one without it, after all has been decoded."""


def decode_jpeg(data: bytes, mode: str) -> npt.NDArray[np.uint8] | None:
    """Return the pixels of a JPEG file, or None where Pillow must decode it.

    Parameters
    ----------
    data : bytes
    mode : str
        Of the image as Pillow opened it.

    Returns
    -------
    uint8[height, width, 3 or 1] or None
    """
    if mode not in SPACES or _END not in data[-_TAIL:] or not is_available():
        return None
    return _decoded(data, mode)


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Return whether simplejpeg is installed and agrees with Pillow."""
    try:
        return all(_agrees(data) for data in _pictures())
    except ImportError:
        return False


def _decoded(data: bytes, mode: str) -> npt.NDArray[np.uint8] | None:
    import simplejpeg

    try:
        pixels: Any = simplejpeg.decode_jpeg(data, SPACES[mode], fastdct=False, fastupsample=False)
    except ValueError:  # it is stricter about damage than Pillow, and so are the arguments
        return None
    return np.asarray(pixels, np.uint8)


def _agrees(data: bytes) -> bool:
    with Image.open(io.BytesIO(data)) as image:
        expected = np.asarray(image)
        found = _decoded(data, image.mode)
    return found is not None and np.array_equal(found.reshape(expected.shape), expected)


def _pictures() -> list[bytes]:
    """Return files of odd sizes with every way of storing colours that libjpeg upsamples in code of its own."""
    values = (np.arange(45 * 67 * 3) * 2654435761 >> 7).astype(np.uint8).reshape(45, 67, 3)
    image = Image.fromarray(values // 2 + np.linspace(0, 127, 67).astype(np.uint8)[None, :, None])
    options = [{"subsampling": number} for number in range(3)] + [{"subsampling": 2, "progressive": True}]
    files = [io.BytesIO() for _ in range(len(options) + 1)]
    for file, option in zip(files, options, strict=False):
        image.save(file, "JPEG", quality=80, **option)
    image.convert("L").save(files[-1], "JPEG")
    return [file.getvalue() for file in files]
