"""What the header of an encoded image says, read without decoding a pixel."""

import struct
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import IO, Any, NamedTuple

from PIL import Image, ImageFile

from foveal.errors import CorruptImage, MediaError, MediaTooLarge, UnsupportedFormat
from foveal.media.costs import bytes_a_pixel, check_decoder
from foveal.media.frames import announced_frames, count_frames, gif_extents
from foveal.media.limits import Limits
from foveal.media.openers import FORMATS, BoundedFile, candidates, opener
from foveal.media.orientation import oriented_size, read_orientation
from foveal.types import Size

__all__ = ["FORMATS", "Header", "header_of", "open_header", "open_image", "read_header"]

_LIMITS = Limits()
_PREFIX = 64
_GIF_PREFIX = 4096
"""In which the first frame of any sensible GIF is announced."""


class Header(NamedTuple):
    """What is known before decoding.

    Attributes
    ----------
    format : str
    stored : Size
        As Pillow decodes it.
    orientation : int
        1 to 8, still to be applied.
    bytes_a_pixel : int
        What decoding counts.
    """

    format: str
    stored: Size
    orientation: int
    bytes_a_pixel: int

    @property
    def size(self) -> Size:
        """Size after the orientation is applied."""
        return oriented_size(self.stored, self.orientation)


def read_header(
    file: IO[bytes], *, formats: Sequence[str] = FORMATS, limits: Limits = _LIMITS, frame: int = 0
) -> Header:
    """Read format, size and orientation of one frame.

    Raises
    ------
    UnsupportedFormat
        Where the format is not read, or not one of ``formats``.
    CorruptImage
        Where the header is.
    MediaTooLarge
        Where it announces more pixels or frames than the limits.
    MediaError
        Where there is no such frame.
    """
    return header_of(open_header(file, formats, limits), file, limits, frame)


def header_of(image: ImageFile.ImageFile, file: IO[bytes], limits: Limits, frame: int) -> Header:
    """Return what the header of an opened file says of one frame.

    Raises
    ------
    MediaError
        As for `read_header`.
    """
    size = _frame_size(image, file, frame, limits) if frame else Size(image.height, image.width)
    return Header(str(image.format), size, read_orientation(image, file), bytes_a_pixel(image))


def open_header(file: IO[bytes], formats: Sequence[str], limits: Limits) -> ImageFile.ImageFile:
    """Open an encoded image within bounds, to look at its header; it cannot be decoded.

    Limits are checked before Pillow sees the file, where the first bytes tell the size, and after.

    Raises
    ------
    MediaError
        As for `read_header`.
    """
    image = _open(BoundedFile(file), formats, limits)
    limits.check_pixels(image.height, image.width)
    check_decoder(image, file)
    limits.check_frames(announced_frames(image) or 1)
    return image


def open_image(file: IO[bytes]) -> ImageFile.ImageFile:
    """Open an encoded image lazily, to decode it; its header was read before.

    Raises
    ------
    MediaError
    """
    return _open(file, FORMATS, None)


def _open(file: Any, formats: Sequence[str], limits: Limits | None) -> ImageFile.ImageFile:
    prefix = file.read(_PREFIX)
    if not prefix:
        raise CorruptImage("the file is empty")
    broken = None
    for name in candidates(prefix):
        if name not in formats:
            raise UnsupportedFormat(f"{name} is not one of the formats that are accepted ({', '.join(formats)})")
        file.seek(0)
        if limits is not None and (size := _announced(name, prefix, file)):
            limits.check_pixels(*size)
            file.seek(0)
        open_file = opener(name, for_header=limits is not None)
        try:
            image = open_file(file, "")
        except (MemoryError, MediaError):
            raise
        except Image.DecompressionBombError as error:
            raise MediaTooLarge(
                f"Pillow refuses so many pixels in {name}: more than twice PIL.Image.MAX_IMAGE_PIXELS"
            ) from error
        except Exception as error:
            broken = broken or (name, error)
            continue
        if not image.height * image.width:
            raise CorruptImage(f"the image has no pixels ({image.height}x{image.width}, height x width)")
        return image
    if broken is not None:
        raise CorruptImage(f"the {broken[0]} header is truncated or corrupt") from broken[1]
    raise UnsupportedFormat(f"not an image of a format that is read ({', '.join(formats)})")


def _announced(name: str, prefix: bytes, file: IO[bytes]) -> tuple[int, int] | None:
    """Return height and width from the first bytes, for openers that allocate or read much before they tell them.

    Notes
    -----
    Source: PNG 1.2, 4.1.1; GIF89a, 18 and 20; RFC 9649 (WebP), 2.5 to 2.7.
    """
    try:
        if name == "PNG" and prefix[12:16] == b"IHDR":
            height, width = reversed(struct.unpack_from(">II", prefix, 16))
            return height, width
        if name == "GIF":
            return _gif_size(prefix, file)
        if name == "WEBP":
            return _webp_size(prefix)
    except struct.error:  # the opener will say that the header is truncated
        pass
    return None


def _gif_size(prefix: bytes, file: IO[bytes]) -> tuple[int, int]:
    """Return the canvas, enlarged to the first frame as Pillow does."""
    width, height = struct.unpack_from("<HH", prefix, 6)
    first = next(gif_extents(file.read(_GIF_PREFIX)), (0, 0))
    return max(height, first[0]), max(width, first[1])


def _webp_size(prefix: bytes) -> tuple[int, int] | None:
    number = partial(int.from_bytes, byteorder="little")
    kind = prefix[12:16]
    if kind == b"VP8X":
        return number(prefix[27:30]) + 1, number(prefix[24:27]) + 1
    if kind == b"VP8L":
        bits = number(prefix[21:25])
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    return number(prefix[28:30]) & 0x3FFF, number(prefix[26:28]) & 0x3FFF


def _frame_size(image: ImageFile.ImageFile, file: IO[bytes], frame: int, limits: Limits) -> Size:
    """Return the size of another frame than the first, without decoding those before it.

    Notes
    -----
    Pages of a TIFF and pictures of a HEIF have sizes of their own, and a GIF's canvas grows where a frame reaches over
    it.
    Source: Pillow 13.0.0, src/PIL/GifImagePlugin.py, _seek.
    """
    if frame >= limits.frames:
        raise MediaTooLarge(f"frame {frame} is asked for, beyond the limit of {limits.frames} (Limits.frames)")
    count = 1 if image.format == "JPEG" else count_frames(image, file)  # of a multi-picture JPEG the first is read
    if count is None:
        raise MediaTooLarge(f"frame {frame} was asked for, but the {image.format} has too many parts to look for it")
    if frame >= count:
        has = f"{count} frames, numbered from 0" if count > 1 else "one frame"
        raise MediaError(f"frame {frame} was asked for, but the image has {has}")
    size = Size(image.height, image.width)
    if image.format == "GIF":
        file.seek(0)
        reach = [size, *islice(gif_extents(file.read()), frame + 1)]
        size = Size(max(extent.height for extent in reach), max(extent.width for extent in reach))
    if image.format in ("TIFF", "HEIF"):
        try:
            image.seek(frame)
        except (MemoryError, MediaError):
            raise
        except Exception as error:
            raise CorruptImage(f"the {image.format} frames are truncated or corrupt") from error
        size = Size(image.height, image.width)
    limits.check_pixels(*size)
    return size
