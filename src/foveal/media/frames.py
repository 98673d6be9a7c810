"""How many pictures a file holds, counted without decoding one."""

import struct
from collections.abc import Iterator
from typing import IO, Any

from PIL import Image

from foveal.types import Size

__all__ = ["announced_frames", "count_frames", "gif_extents"]

_GIF_BYTES = 32 << 20
_GIF_STEPS = 1 << 14
"""How far a GIF is walked through: that many bytes, and blocks or runs of full blocks. About a millisecond for a file
of 10 MB, and ten at worst."""

_FULL = 256
"""Bytes of a full block of a GIF, the one with its length included."""
_WINDOW = 64 * _FULL

_TIFF_PAGES = 1 << 12
_MPF_TAGS = 64
_MPF_ENTRY = 16
"""Bytes of each picture in the index."""

_MPF_IMAGES = 0xB001
_LONG = 4


class _TooLongError(Exception):
    """A walk that was given up."""


def count_frames(image: Image.Image, file: IO[bytes]) -> int | None:
    """Return the number of frames or pages of an opened file; None where it is not known at little cost.

    Where a header says how many there are, that is what is returned.
    """
    if image.format == "GIF":
        file.seek(0)
        data = file.read(_GIF_BYTES)
        try:
            return sum(1 for _ in gif_extents(data)) if len(data) < _GIF_BYTES else None
        except _TooLongError:
            return None
    if image.format == "TIFF":
        return _tiff_pages(file)
    if image.format == "JPEG":
        return _mpf_images(image.info.get("mp")) or 1
    return announced_frames(image) or 1


def announced_frames(image: Image.Image) -> int | None:
    """Return how many frames an opened file has where its opener knows it; None for formats without such a number."""
    if image.format == "HEIF":
        return int(image.n_frames)  # type: ignore[attr-defined]
    found = vars(image).get("n_frames")  # a property would look for them
    return found if isinstance(found, int) else None


def gif_extents(data: bytes) -> Iterator[Size]:
    """Yield how far each frame of a GIF reaches: its offset and size, added.

    Raises
    ------
    _TooLongError
        If there are too many blocks.
    """
    flags = data[10] if len(data) > 10 else 0
    position = 13 + _palette(flags)
    steps = _GIF_STEPS
    while steps:
        kind = data[position : position + 1]
        if kind == b",":
            if len(data) < position + 11:
                return
            left, top, width, height, flags = struct.unpack_from("<4HB", data, position + 1)
            yield Size(top + height, left + width)
            position += 11 + _palette(flags)
        elif kind == b"!":
            position += 2
        elif kind in (b"", b";"):
            return
        else:
            position, steps = position + 1, steps - 1
            continue
        position, steps = _after_blocks(data, position, steps - 1)
    raise _TooLongError


def _palette(flags: int) -> int:
    """Return the bytes of the palette that follows, if one does."""
    return 3 << ((flags & 7) + 1) if flags & 128 else 0


def _after_blocks(data: bytes, position: int, steps: int) -> tuple[int, int]:
    """Return where a chain of blocks ends, and how many steps are left.

    Nearly all blocks of pixels are full, so that their lengths lie 256 bytes apart, and a slice shows where a run of
    them ends.
    """
    while steps:
        lengths = data[position : position + _WINDOW : _FULL]
        full = len(lengths) - len(lengths.lstrip(b"\xff"))
        position, steps = position + full * _FULL, steps - 1
        if not lengths:
            return position, steps
        if full < len(lengths):
            position += 1 + lengths[full]
            if not lengths[full]:
                return position, steps
    raise _TooLongError


def _tiff_pages(file: IO[bytes]) -> int | None:
    """Return the number of directories that follow one another; None if there are very many.

    Notes
    -----
    Source: TIFF 6.0, section 2, and BigTIFF.
    """
    file.seek(0)
    head = file.read(16)
    order = ">" if head[:2] == b"MM" else "<"
    big = head[2:4] in (b"\0+", b"+\0")
    count_format, entry, next_format = ("Q", 20, "Q") if big else ("H", 12, "I")
    seen: set[int] = set()
    try:
        (offset,) = struct.unpack_from(order + next_format, head, 8 if big else 4)
        while offset and offset not in seen:
            if len(seen) == _TIFF_PAGES:
                return None
            file.seek(offset)
            (entries,) = _read(file, order + count_format)
            file.seek(entries * entry, 1)
            (after,) = _read(file, order + next_format)
            seen.add(offset)
            offset = after
    except (struct.error, OSError, ValueError, OverflowError):  # it ends early, or points nowhere
        pass
    return max(len(seen), 1)


def _read(file: IO[bytes], layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _mpf_images(index: object) -> int | None:
    """Return how many pictures the index of a multi-picture JPEG names; None where there is none that can be read.

    Notes
    -----
    Source: CIPA DC-007, Multi-Picture Format, 5.2.3.
    """
    if not isinstance(index, bytes):
        return None
    order = {b"II": "<", b"MM": ">"}.get(index[:2], "<")
    try:
        (start,) = struct.unpack_from(order + "I", index, 4)
        (count,) = struct.unpack_from(order + "H", index, start)
        for entry in range(start + 2, start + 2 + 12 * min(count, _MPF_TAGS), 12):
            tag, kind, values, value = struct.unpack_from(order + "HHII", index, entry)
            if (tag, kind, values) == (_MPF_IMAGES, _LONG, 1) and value <= len(index) // _MPF_ENTRY:
                return int(value) or None
    except struct.error:
        pass
    return None
