"""The orientation that an encoded image asks for.

Read with a parser of our own: Pillow's warns of malformed EXIF or raises, and for PNG it decodes the pixels to look
behind them. Malformed metadata means orientation 1.
"""

import dataclasses
import re
import struct
from typing import IO

import numpy as np
from PIL import Image, TiffImagePlugin

from foveal.media.pixels import Pixels
from foveal.types import Size

__all__ = ["oriented_size", "read_orientation", "transposed", "turned", "xmp_orientation"]

_ORIENTATION_TAG = 0x0112
_SHORT = 3
_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_PNG_CHUNKS = 1 << 16
"""Chunks of a PNG file that are looked through for an eXIf chunk behind the pixels."""

_TRANSPOSES = {
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_LEFT_RIGHT = {2, 3}
_UPSIDE_DOWN = {3, 4}


def oriented_size(size: Size, orientation: int) -> Size:
    """Return the size after the orientation is applied."""
    return Size(size.width, size.height) if orientation in _TRANSPOSES else size


def read_orientation(image: Image.Image, file: IO[bytes]) -> int:
    """Return the orientation, 1 to 8, of an image that was opened but not loaded.

    Notes
    -----
    EXIF first, then XMP where EXIF does not say. TIFF is turned by Pillow while it loads.
    Source: Pillow 13.0.0, src/PIL/Image.py, Image.getexif; src/PIL/ImageOps.py, exif_transpose.
    """
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return 1
    exif = image.info.get("exif") or _legacy_png_profile(image)
    if exif is None and image.format == "PNG":
        exif = _late_png_exif(file)
    found = _from_exif(exif) if exif else None
    if found is None:
        found = xmp_orientation(image.info.get("XML:com.adobe.xmp") or image.info.get("xmp") or b"")
    return found if found is not None and 1 <= found <= 8 else 1


def transposed(image: Image.Image, orientation: int) -> Image.Image:
    """Return the image with the orientations applied that swap height and width."""
    method = _TRANSPOSES.get(orientation)
    return image if method is None else image.transpose(method)


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """Return the pixels with the orientations applied that need no other memory: mirrored, upside down, or both."""
    rows, step = pixels.rows, pixels.step
    if orientation in _UPSIDE_DOWN:
        rows = rows[::-1].copy()
    if orientation in _LEFT_RIGHT:
        last = (pixels.width - 1) * step
        rows, step = (rows.view(np.int64) + last).view(np.uint64), -step
    return dataclasses.replace(pixels, rows=rows, step=step)


def _from_exif(exif: bytes) -> int | None:
    """Return the orientation in the first directory of an EXIF block; None where it is absent or cannot be read."""
    data = re.sub(rb"^(?:Exif\0\0){1,2}", b"", exif)
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None:
        return None
    try:
        (start,) = struct.unpack_from(order + "I", data, 4)
        (count,) = struct.unpack_from(order + "H", data, start)
        for entry in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind, values, value = struct.unpack_from(order + "HHIH", data, entry)
            if (tag, kind, values) == (_ORIENTATION_TAG, _SHORT, 1):
                return int(value)
    except struct.error:
        pass
    return None


def xmp_orientation(xmp: str | bytes) -> int | None:
    """Return the orientation that an XMP packet names, 0 to 9; None where it names none."""
    match = _XMP.search(xmp.encode(errors="replace") if isinstance(xmp, str) else xmp)
    return int(match[1]) if match else None


def _legacy_png_profile(image: Image.Image) -> bytes | None:
    """Return the EXIF block that old writers put into a PNG text chunk: three lines, then hexadecimal digits."""
    text = image.info.get("Raw profile type exif")
    if not isinstance(text, str):
        return None
    try:
        return bytes.fromhex("".join(text.split("\n")[3:]))
    except ValueError:
        return None


def _late_png_exif(file: IO[bytes]) -> bytes | None:
    """Return the eXIf chunk of a PNG file that has it behind its pixels, where the format allows it."""
    position = 8
    for _ in range(_PNG_CHUNKS):
        file.seek(position)
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND":
            return None
        length = int.from_bytes(head[:4], "big")
        if head[4:] == b"eXIf":
            return file.read(length)
        position += 12 + length
    return None
