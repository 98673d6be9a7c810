"""What decoding an image costs where its height and width do not say it: memory by format, and seconds."""

import re
import struct
from typing import IO

from PIL import Image, ImageFile

from foveal.errors import MediaTooLarge

__all__ = ["bytes_a_pixel", "check_decoder", "check_scans"]

PLAIN_BYTES = 4
"""What Pillow holds for a pixel of most modes, and the most for any."""

FORMAT_BYTES = {"WEBP": 16, "AVIF": 12, "JPEG2000": 24, "HEIF": 8}
"""Of formats whose decoders always hold more than Pillow's pixels: what they take at most, measured."""

PYTHON_BYTES = 256
"""For each pixel that Pillow decodes in Python, up to 3 microseconds in which no other thread runs: for the time, so
that the images of a request together take no more than seconds."""

PYTHON_PIXELS = 1 << 22
_PYTHON_FILE_PIXEL, _PYTHON_FILE_REST = 8, 1 << 16
"""Bytes of a file for each of those pixels, and beside them. The most compact code for nothing has no end otherwise."""

MAX_SCANS = 100
"""Of a JPEG. A progressive one has about ten; each is a pass over all pixels, whatever its bytes."""

_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""What may end the data of a scan: no stuffed byte, no restart, no fill byte."""

_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL = {0xC0, 0xC1, 0xC5, 0xC9, 0xCD}
_SCAN, _END, _FIRST_SEGMENT = 0xDA, 0xD9, 0xC0


def bytes_a_pixel(image: ImageFile.ImageFile) -> int:
    """Return what decoding an image that was opened counts for each pixel, in `Limits.decoded_bytes`."""
    return PYTHON_BYTES if _is_python(image) else FORMAT_BYTES.get(str(image.format), PLAIN_BYTES)


def check_decoder(image: ImageFile.ImageFile, file: IO[bytes]) -> None:
    """Refuse an image that Pillow would decode in Python for too long: QOI, run-length BMP, PPM of unusual depths.

    Raises
    ------
    MediaTooLarge
    """
    if not _is_python(image):
        return
    pixels = image.height * image.width
    if pixels > PYTHON_PIXELS:
        raise MediaTooLarge(
            f"the image has {pixels} pixels, more than the limit of {PYTHON_PIXELS} for {image.format} of this kind, "
            "which Pillow decodes in Python"
        )
    most, size = _PYTHON_FILE_PIXEL * pixels + _PYTHON_FILE_REST, file.seek(0, 2)
    if size > most:
        raise MediaTooLarge(
            f"the {image.format} has {size} bytes, more than the limit of {most} for its {pixels} pixels, "
            "which Pillow decodes in Python"
        )


def _is_python(image: ImageFile.ImageFile) -> bool:
    return any(tile[0] in Image.DECODERS for tile in image.tile)


def check_scans(data: bytes) -> None:
    """Refuse a JPEG file of too many scans.

    Raises
    ------
    MediaTooLarge

    Notes
    -----
    The data of a sequential file whose first scan has all components are not walked through: libjpeg reads no other.
    Markers are found as libjpeg finds them, so that it meets no scan that is not counted.
    Source: ITU-T T.81, B.1 and B.2; libjpeg-turbo 3.1, jdmarker.c and jdinput.c.
    """
    scans, components, sequential = 0, 0, False
    marker = _MARKER.search(data, 2)
    while marker and data[marker.end() - 1] != _END:
        kind, start = data[marker.end() - 1], marker.end()
        if kind in _FRAMES:
            sequential, components = kind in _SEQUENTIAL, _byte(data, start + 7)
        if kind == _SCAN:
            scans += 1
            if scans > MAX_SCANS:
                raise MediaTooLarge(f"the JPEG has more than the limit of {MAX_SCANS} scans")
            if scans == 1 and sequential and _byte(data, start + 2) == components:
                return
        marker = _MARKER.search(data, start + _length(data, start))


def _byte(data: bytes, place: int) -> int:
    return data[place] if place < len(data) else 0


def _length(data: bytes, start: int) -> int:
    """Return how many bytes a segment has behind its marker; those below SOF0 stand alone."""
    if start + 2 > len(data) or data[start - 1] < _FIRST_SEGMENT:
        return 0
    return int(struct.unpack_from(">H", data, start)[0])
