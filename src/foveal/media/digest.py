"""Digests of images as they were given: the bytes of a file, or the picture that an object holds.

A digest is 64 hexadecimal digits. That of an encoded image is the plain BLAKE3 of its bytes. All others are BLAKE3 in
its mode for deriving keys, with a context that says what is hashed, so that no file can be made that has the digest of
a picture; and what they hash is framed: every field follows its length.

One thread hashes a picture, without holding the GIL: at 5 GB/s a second one gains nothing below 16 MB.
"""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy as np
import numpy.typing as npt
from blake3 import blake3
from PIL import Image

from foveal.errors import MediaError
from foveal.media.arrays import Array, ValueRange
from foveal.media.pillow_memory import pillow_pixels

__all__ = ["digest_array", "digest_bytes", "digest_file", "digest_pillow", "framed_digest"]

_FILE_PIECE = 1 << 20
_PICTURE_PIECE = 1 << 18
"""Bytes that are read, or made visible, at a time: they stay in the cache until they are hashed."""

_VISIBLE: dict[str, tuple[int, ...]] = {
    "L": (255,),
    "LA": (255, 0, 0, 255),
    "RGB": (255, 255, 255, 0),
    "RGBA": (255,) * 4,
}
"""Which bytes of a pixel are visible, in Pillow's memory; the others are hashed as zero."""

_PACKED = {"RGBX": "RGB"}
"""How other modes are packed that have a band which is not visible."""

Piece = bytes | memoryview


def framed_digest(domain: str, fields: Sequence[bytes], size: int = 0, content: Iterable[Piece] = ()) -> str:
    """Return the digest of a sequence of fields, which no other sequence shares, nor one of another domain.

    Parameters
    ----------
    domain : str
        What is hashed, and the version of its framing.
    fields : sequence of bytes
    size : int
        Bytes of the last field, ``content``, whose pieces are taken one after the other.
    content : iterable of bytes or of memoryviews of bytes
    """
    parts = [part for field in fields for part in (_length(len(field)), field)]
    hasher = blake3(b"".join((*parts, _length(size))), derive_key_context=f"foveal {domain}")
    for piece in content:
        size -= len(piece)
        hasher.update(piece)
    if size:
        raise AssertionError("the content is not of the size that was announced")
    return hasher.hexdigest()


def _length(size: int) -> bytes:
    return size.to_bytes(8, "little")


def digest_bytes(data: bytes) -> str:
    """Return the digest of an encoded image."""
    return blake3(data).hexdigest()


def digest_file(file: IO[bytes]) -> str:
    """Return the digest of the rest of a file, read in pieces.

    A mapped file would end the process where somebody else cut it short meanwhile.
    """
    hasher = blake3()
    piece = memoryview(bytearray(_FILE_PIECE))
    while count := file.readinto(piece):  # type: ignore[attr-defined]
        hasher.update(piece[:count])
    return hasher.hexdigest()


def digest_pillow(image: Image.Image) -> str:
    """Return the digest of a Pillow image: mode, size, palette, transparency, and bytes that are visible.

    Its method ``load`` was called, which sets a palette that was changed.

    Raises
    ------
    MediaError
        Where the transparency is of no kind that Pillow knows, or the mode has no bytes.
    """
    fields = [image.mode.encode(), _numbers(image.height, image.width), _palette(image), _transparency(image)]
    if image.mode in _VISIBLE:
        size = image.height * image.width * len(_VISIBLE[image.mode])
        return framed_digest("pillow image 1", fields, size, _visible(image))
    try:
        data = image.tobytes("raw", _PACKED[image.mode]) if image.mode in _PACKED else image.tobytes()
    except MemoryError:
        raise
    except Exception as error:
        raise MediaError(f"the pixels of mode {image.mode} cannot be read") from error
    return framed_digest("pillow image 1", fields, len(data), [data])


def digest_array(array: Array, channels_first: bool, value_range: ValueRange | None) -> str:
    """Return the digest of an array: dtype, shape, order of its axes, range of its values, and elements.

    Strides make no difference. Floats of more than 64 bits count as those of 64, which is how they are scaled; their
    elements have bytes that are part of no value.
    """
    array = np.asarray(array)
    fields = [array.dtype.str.encode(), _numbers(*array.shape), _numbers(channels_first), _numbers(value_range or 0)]
    if array.dtype.kind == "f" and array.itemsize > 8:
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    return framed_digest("array 1", fields, array.nbytes, _elements(array))


def _numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


# ---- Pillow images


def _palette(image: Image.Image) -> bytes:
    """Return the palette with the name of its mode; nothing where there is none."""
    if image.mode not in ("P", "PA"):
        return b""
    mode = str(image.im.getpalettemode())
    return mode.encode() + b":" + bytes(image.im.getpalette(mode, mode))


def _transparency(image: Image.Image) -> bytes:
    """Return what the image's info says is transparent, with its kind; nothing where it says nothing."""
    found = image.info.get("transparency")
    if found is None:
        return b""
    if isinstance(found, bytes):
        return b"alpha of a palette:" + found
    if isinstance(found, int):
        return f"index:{int(found)}".encode()
    if isinstance(found, tuple) and all(isinstance(value, int) for value in found):
        return f"color:{tuple(map(int, found))}".encode()
    raise MediaError(f"the image's transparency is a {type(found).__name__[:40]}; expected a number, a color or bytes")


def _visible(image: Image.Image) -> Iterator[Piece]:
    """Yield the bytes of the pixels, row by row, with zero for those that are not visible."""
    visible = np.array(_VISIBLE[image.mode], np.uint8)
    pixels = pillow_pixels(image)
    if pixels.step != len(visible):  # Pillow's memory is not understood, and this is a copy
        yield _widened(image, len(visible)).reshape(-1).data
        return
    for piece in _row_pieces(pixels.rows, image.width * pixels.step):
        yield piece.data if visible.all() else _masked(piece, visible).data


def _row_pieces(rows: npt.NDArray[np.uint64], pitch: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield rows as they lie in memory, several at a time where they follow one another."""
    count = max(1, _PICTURE_PIECE // pitch)
    gaps = np.flatnonzero(np.diff(rows) != pitch) + 1
    for first, last in zip((0, *gaps.tolist()), (*gaps.tolist(), len(rows)), strict=True):
        for start in range(first, last, count):
            size = pitch * (min(start + count, last) - start)
            yield np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(rows[start])))


def _masked(piece: npt.NDArray[np.uint8], visible: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.bitwise_and(piece.view(np.uint32), visible.view(np.uint32)).view(np.uint8)


def _widened(image: Image.Image, step: int) -> npt.NDArray[np.uint8]:
    """Return a copy of the pixels, laid out as in Pillow's memory."""
    values = np.asarray(image)
    out = np.zeros((image.height, image.width, step), np.uint8)
    if image.mode == "LA":
        out[:, :, 0], out[:, :, 3] = values[:, :, 0], values[:, :, 1]
    else:
        out[:, :, : values.shape[2]] = values
    return out


# ---- arrays


def _elements(array: Array) -> Iterator[Piece]:
    """Yield the elements in the order of the axes."""
    if array.flags.c_contiguous:
        yield _raw(array)
        return
    count = max(1, _PICTURE_PIECE * len(array) // array.nbytes)
    for start in range(0, len(array), count):
        yield _raw(np.ascontiguousarray(array[start : start + count]))


def _raw(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
