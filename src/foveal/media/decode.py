"""Sources to pixels: decode where needed, convert modes as a policy says, copy nothing else."""

import dataclasses
import os
import threading
from collections.abc import Callable
from typing import IO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile

from foveal.errors import CorruptImage, MediaError
from foveal.media.arrays import Array, ValueRange, array_pixels, as_bytes
from foveal.media.costs import check_scans
from foveal.media.fast_jpeg import decode_jpeg
from foveal.media.header import Header, open_image
from foveal.media.orientation import transposed, turned
from foveal.media.pillow_memory import MODES, pillow_pixels
from foveal.media.pixels import Pixels
from foveal.media.policy import DEFAULT, DecodePolicy
from foveal.types import Size

__all__ = ["decode_array", "decode_encoded", "decode_pillow", "has_alpha", "load_pillow"]

_WITH_ALPHA = ("LA", "PA", "RGBA")
_WITHOUT_ALPHA = ("LAB",)
"""Whose A is no alpha. Pillow takes one from a byte that is part of no band where it converts them to RGBA."""

_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I")
"""Modes of 16-bit images, the last one where Pillow has no other for them."""

MIRRORED = 4
"""The last orientation that keeps height and width."""

_BAND = 1 << 16
"""Pixels of them that are converted at a time, so that what NumPy makes on the way stays small."""

# A lazily opened Pillow image loads itself on first use, which two threads must not do at once. Images share a few
# locks, so that nothing is written to objects that are not ours.
_LOAD_LOCKS = [threading.Lock() for _ in range(64)]


def _renew_locks() -> None:
    """After a fork the threads that hold locks are gone: start anew."""
    _LOAD_LOCKS[:] = [threading.Lock() for _ in _LOAD_LOCKS]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def decode_encoded(open_file: Callable[[], IO[bytes]], header: Header, policy: DecodePolicy = DEFAULT) -> Pixels:
    """Decode a file whose header, that of the frame that the policy names, was read before.

    Raises
    ------
    CorruptImage
        Where the data are truncated or corrupt, or not what the header said.
    MediaTooLarge
        Where a JPEG has too many scans.
    """
    with open_file() as file:
        image = open_image(file)
        fast = _of_jpeg(file, image, header, policy) if header.format == "JPEG" else None
        if fast is not None:
            return turned(fast, header.orientation)
        try:
            if policy.frame:
                image.seek(policy.frame)
            _load(image, policy.truncated == "accept")
        except MemoryError:
            raise
        except Exception as error:
            raise CorruptImage(f"the {header.format} data are truncated or corrupt") from error
    if (image.height, image.width) != header.stored:
        raise CorruptImage(f"the {header.format} data have another size than the header said")
    return turned(_pixels(transposed(image, header.orientation), policy), header.orientation)


def _of_jpeg(file: IO[bytes], image: ImageFile.ImageFile, header: Header, policy: DecodePolicy) -> Pixels | None:
    """Return the pixels of a JPEG file that a faster decoder gives as Pillow does; None where there is none.

    Files whose height and width are swapped are left out: Pillow turns them at once.
    """
    file.seek(0)
    data = file.read()
    file.seek(0)
    check_scans(data)
    if header.orientation > MIRRORED or policy.truncated == "accept":
        return None
    array = decode_jpeg(data, image.mode)
    if array is None or array.shape[:2] != header.stored:
        return None
    return _kept(array_pixels(array, policy.backdrop), policy)


def decode_pillow(image: Image.Image, size: Size, policy: DecodePolicy = DEFAULT) -> Pixels:
    """Return the pixels of a Pillow image of a known size, loading it first if that has not happened yet.

    Raises
    ------
    MediaError
    """
    load_pillow(image, size)
    return _pixels(image, policy)


def load_pillow(image: Image.Image, size: Size) -> None:
    """Load a Pillow image of a known size if that has not happened yet; safe to call from any thread.

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
            raise CorruptImage("the image cannot be loaded: truncated, corrupt or closed") from error
    if (image.height, image.width) != size:
        raise MediaError("the image has another size than when it was opened")


def decode_array(array: Array, value_range: ValueRange | None, policy: DecodePolicy = DEFAULT) -> Pixels:
    """Return the pixels of a channels-last array; uint8 is not copied.

    Raises
    ------
    MediaError
    """
    return _kept(array_pixels(as_bytes(array, value_range), policy.backdrop), policy)


# ---- files that end early


def _load(image: ImageFile.ImageFile, accept_truncated: bool) -> None:
    """Decode; on request also what ends early.

    Notes
    -----
    ``PIL.ImageFile.LOAD_TRUNCATED_IMAGES`` would do that for all threads of the process. Here the same happens to one
    image: JPEG data get an end marker, and where other data end, the rows that were decoded are kept. TIFF that libtiff
    decodes, and formats whose decoder wants the whole file, fail either way.
    Source: Pillow 13.0.0, src/PIL/ImageFile.py, ImageFile.load; src/PIL/JpegImagePlugin.py, JpegImageFile.load_read.
    """
    if not accept_truncated:
        image.load()
        return
    if image.format == "JPEG":
        image.load_read = _reading_an_end(image)  # type: ignore[attr-defined]
    by_libtiff = any(tile[0] == "libtiff" for tile in image.tile)
    try:
        image.load()
    except (OSError, SyntaxError):
        if by_libtiff or image._im is None:
            raise
        if image.tile:  # decoding stopped, and what follows it was left out
            image.tile = []
            image.load_end()
        image.load()


def _reading_an_end(image: ImageFile.ImageFile) -> Callable[[int], bytes]:
    """Return a function that reads JPEG data and, once, the end marker that is missing behind them."""
    ends = iter([b"\xff\xd9"])

    def read(count: int) -> bytes:
        assert image.fp is not None
        return image.fp.read(count) or next(ends, b"")

    return read


# ---- modes


def _pixels(image: Image.Image, policy: DecodePolicy) -> Pixels:
    """Return a loaded image as RGB, grey, or either with alpha.

    Notes
    -----
    Source: transformers 5.24.0, image_transforms.py, convert_to_rgb: an image with alpha goes through RGBA, else to
    RGB. Grey needs no conversion, it is all three.
    """
    if image.mode in _DEEP and policy.depth != "clip":
        return _kept(array_pixels(_scaled(image, policy), policy.backdrop), policy)
    if policy.transparency == "drop":
        image = _without_transparency(image)
    transparent = _is_transparent(image, policy)
    if image.mode not in MODES or (transparent and image.mode in ("L", "RGB")):
        target = "RGBA" if transparent else "RGB"
        try:
            image = image.convert(target)
        except MemoryError:
            raise
        except Exception as error:
            if transparent:
                raise CorruptImage(f"the transparency of mode {image.mode} cannot be applied") from error
            raise MediaError(f"mode {image.mode} cannot be converted to {target}") from error
    return _kept(pillow_pixels(image, policy.backdrop), policy)


def _without_transparency(image: Image.Image) -> Image.Image:
    """Return an image with a palette as the same pixels without what its info says is transparent.

    Pillow warns of that on the way to RGB, and on the way to RGBA refuses more values than a palette has.
    """
    if image.mode not in ("P", "PA") or "transparency" not in image.info:
        return image
    other = image._new(image.im)
    del other.info["transparency"]
    return other


def _is_transparent(image: Image.Image, policy: DecodePolicy) -> bool:
    """Whether an image must go through RGBA."""
    if policy.transparency == "drop":
        return False
    if image.mode == "RGB" and policy.color_key == "ignore":
        return False
    return has_alpha(image)


def has_alpha(image: Image.Image) -> bool:
    """Return whether pixels of an image may be transparent: by its mode, or by what its info says.

    Notes
    -----
    Source: vllm 0.33.0, multimodal/image.py. transformers 5.24.0 asks for a band named A, which LAB has too.
    """
    if image.mode in _WITH_ALPHA:
        return True
    return image.mode not in _WITHOUT_ALPHA and image.info.get("transparency") is not None


def _kept(pixels: Pixels, policy: DecodePolicy) -> Pixels:
    """Return the pixels with or without their alpha."""
    return dataclasses.replace(pixels, alpha=None) if policy.transparency == "drop" else pixels


def _scaled(image: Image.Image, policy: DecodePolicy) -> npt.NDArray[np.uint8]:
    """Return a grey image of 16 bits in 8, with an alpha channel where its info names a transparent value."""
    key = image.info.get("transparency")
    keyed = isinstance(key, int)
    out = np.full((image.height, image.width, 1 + keyed), 255, np.uint8)
    rows = -(-_BAND // image.width)
    for top in range(0, image.height, rows):
        band = out[top : top + rows]
        part = np.asarray(image.crop((0, top, image.width, top + len(band))))  # of the whole, NumPy makes two copies
        band[..., 0] = _scaled_values(part, policy.depth)
        if keyed:
            band[..., 1][part == key] = 0
    return out


def _scaled_values(values: Array, depth: str) -> Array:
    """Return 16 bits as 8; what is outside of them is cut off."""
    deep = np.clip(values, 0, 65535).astype(np.uint32)
    return deep >> 8 if depth == "high_byte" else (deep * 255 + 32767) // 65535
