"""The orientation that an encoded image asks for.

That which Pillow would apply, also where the metadata are malformed. Its own parser is not used: it warns, reads all
other tags too, and for PNG decodes the pixels to look behind them. Where it raises, the orientation is 1.
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
_INLINE = 4
"""Bytes of a value that stands in its entry."""

_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_PNG_CHUNKS = 1 << 16
"""Chunks of a PNG file that are looked through for an eXIf chunk behind the pixels."""

_TRANSPOSES = {
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATIONS: dict[object, int] = {orientation: orientation for orientation in range(1, 9)}
"""By values of any type that are equal to them."""

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
    try:
        found = _from_exif(_exif(image, file))
    except (SyntaxError, struct.error, TypeError, ValueError):
        return 1
    if found is None:
        found = xmp_orientation(image.info.get("XML:com.adobe.xmp") or image.info.get("xmp") or b"")
    return _ORIENTATIONS.get(found, 1)


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


def _exif(image: Image.Image, file: IO[bytes]) -> bytes:
    """Return the EXIF block; nothing where there is none."""
    exif = image.info.get("exif")
    if exif is None and image.format == "PNG":
        exif = _late_png_exif(file)
    if exif is None and (text := image.info.get("Raw profile type exif")) is not None:
        exif = bytes.fromhex("".join(text.split("\n")[3:]))  # as old writers put it into a text chunk
    return re.sub(rb"^(?:Exif\0\0){1,2}", b"", exif or b"")


def _from_exif(exif: bytes) -> object:
    """Return the orientation in the first directory of an EXIF block, of any type; None where it is absent.

    Raises
    ------
    SyntaxError, struct.error
        Where the block has no header that Pillow takes.

    Notes
    -----
    Its rules: values lie anywhere in the block, and are no larger together; one that is cut ends the directory.
    Source: Pillow 13.0.0, src/PIL/TiffImagePlugin.py, ImageFileDirectory_v2.load; src/PIL/Image.py, Exif.load.
    """
    if not exif:
        return None
    directory = TiffImagePlugin.ImageFileDirectory_v2(exif[:8])
    order, start = ">" if exif[:1] == b"M" else "<", directory.next
    count = struct.unpack_from(order + "H", exif, start)[0] if start + 2 <= len(exif) else 0
    total, seen = 0, set()
    for entry in range(start + 2, min(start + 2 + 12 * count, len(exif) - 11), 12):
        tag, kind, values, place = struct.unpack_from(order + "HHII", exif, entry)
        unit = directory._load_dispatch.get(kind, (0, None))[0]
        size = values * unit
        if tag in seen or not size:
            continue
        if size <= _INLINE:
            place = entry + 8
        else:
            total += size
            if total > len(exif):
                continue
            if place + size > len(exif):
                break
        if tag == _ORIENTATION_TAG:
            directory.tagtype[tag], directory._tagdata[tag] = kind, exif[place : place + unit]  # the first value
            return directory[tag]
        seen.add(tag)
    return None


def xmp_orientation(xmp: str | bytes) -> int | None:
    """Return the orientation that an XMP packet names, 0 to 9; None where it names none."""
    match = _XMP.search(xmp.encode(errors="replace") if isinstance(xmp, str) else xmp)
    return int(match[1]) if match else None


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
