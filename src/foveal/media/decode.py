"""Sources to pixels: decode where needed, convert modes as the references do, copy nothing else."""

import os
import threading
from collections.abc import Callable
from typing import IO

from PIL import Image

from foveal.errors import MediaError
from foveal.media.arrays import Array, ValueRange, array_pixels, as_bytes
from foveal.media.header import Header, open_image
from foveal.media.orientation import transposed, turned
from foveal.media.pillow_memory import MODES, pillow_pixels
from foveal.media.pixels import Pixels
from foveal.types import Color, Size

__all__ = ["WHITE", "decode_array", "decode_encoded", "decode_pillow"]

WHITE: Color = (255, 255, 255)
"""Colour that transparent pixels are composited on."""

# A lazily opened Pillow image loads itself on first use, which two threads must not do at once. Images share a few
# locks, so that nothing is written to objects that are not ours.
_LOAD_LOCKS = [threading.Lock() for _ in range(64)]


def _renew_locks() -> None:
    """After a fork the threads that hold locks are gone: start anew."""
    _LOAD_LOCKS[:] = [threading.Lock() for _ in _LOAD_LOCKS]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def decode_encoded(open_file: Callable[[], IO[bytes]], header: Header) -> Pixels:
    """Decode a file whose header was read before.

    Raises
    ------
    MediaError
        Where the data are truncated or corrupt, or not what the header said.
    """
    with open_file() as file:
        image = open_image(file)
        try:
            image.load()
        except MemoryError:
            raise
        except Exception as error:
            raise MediaError(f"the {header.format} data are truncated or corrupt") from error
    if (image.height, image.width) != header.stored:
        raise MediaError(f"the {header.format} data have another size than the header said")
    return turned(_pixels(transposed(image, header.orientation)), header.orientation)


def decode_pillow(image: Image.Image, size: Size) -> Pixels:
    """Return the pixels of a Pillow image of a known size, loading it first if that has not happened yet.

    Raises
    ------
    MediaError
    """
    with _LOAD_LOCKS[(id(image) >> 4) % len(_LOAD_LOCKS)]:
        try:
            image.load()
        except MemoryError:
            raise
        except Exception as error:
            raise MediaError("the image cannot be loaded: truncated, corrupt or closed") from error
    if (image.height, image.width) != size:
        raise MediaError("the image has another size than when it was opened")
    return _pixels(image)


def decode_array(array: Array, value_range: ValueRange | None) -> Pixels:
    """Return the pixels of a channels-last array; uint8 is not copied.

    Raises
    ------
    MediaError
    """
    return array_pixels(as_bytes(array, value_range), WHITE)


def _pixels(image: Image.Image) -> Pixels:
    """Return a loaded image as RGB, grey, or either with alpha.

    Notes
    -----
    Source: transformers 5.24.0, image_transforms.py, convert_to_rgb: an image has alpha if a band is named A or its
    info names a transparency; then it goes through RGBA, else to RGB. Grey needs no conversion, it is all three.
    """
    transparent = "A" in image.getbands() or image.info.get("transparency") is not None
    if image.mode not in MODES or (transparent and image.mode in ("L", "RGB")):
        target = "RGBA" if transparent else "RGB"
        try:
            image = image.convert(target)
        except MemoryError:
            raise
        except Exception as error:
            raise MediaError(f"mode {image.mode} cannot be converted to {target}") from error
    return pillow_pixels(image, WHITE)
