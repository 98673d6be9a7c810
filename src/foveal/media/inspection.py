"""What an image is, without decoding it."""

from collections.abc import Callable
from typing import IO

import msgspec
import numpy as np
from PIL import Image, ImageFile, TiffImagePlugin

from foveal.media.arrays import array_options, as_channels_last
from foveal.media.decode import has_alpha
from foveal.media.frames import count_frames
from foveal.media.header import header_of, open_header
from foveal.media.limits import Limits, checked_limits
from foveal.media.policy import DecodePolicy, decode_policy
from foveal.media.sources import EncodedFile, ImageItem, encoded_file, naming
from foveal.types import Size

__all__ = ["Inspection", "inspect"]

_ARRAY_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MODE_BITS = {"1": 1, "I": 32, "F": 32}

_BITS_PER_SAMPLE = 258
_BOXES = 1 << 13
"""Bytes in which a file says how many bits its channels have, where Pillow does not tell."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of an image says.

    Attributes
    ----------
    format : str or None
        Name of the encoded format, ``JPEG`` for multi-picture files too. None for an array, and for a Pillow image that
        was not read from a file.
    height, width : int
        Of what is processed, turned as the policy says.
    stored : Size
        Before it is turned.
    mode : str
        Pillow's name of what its decoder gives for the first frame, as ``RGB``, ``P`` or ``I;16``.
    bits : int
        Of a channel as it is stored, or of a palette's index.
    orientation : int
        1 to 8, as EXIF counts: what the policy applies. 1 for Pillow images and arrays, which are taken as they are,
        and for TIFF, which Pillow turns while it loads it, whatever the policy: ``stored`` is its size then.
    frames : int or None
        Frames of an animation, pages, or pictures of a multi-picture file. None where that is not known without
        walking through much of a file, or through a Pillow image: a GIF of 32 MiB or of very many blocks, a TIFF of
        4,096 pages.
    has_alpha : bool
        Whether pixels may be transparent: an alpha channel, or a transparent colour.
    bytes : int or None
        Of the encoded image. None for Pillow images and arrays.
    """

    format: str | None
    height: int
    width: int
    stored: Size
    mode: str
    bits: int
    orientation: int
    frames: int | None
    has_alpha: bool
    bytes: int | None


def inspect(
    source: ImageItem,
    *,
    policy: str | DecodePolicy | None = None,
    limits: Limits | None = None,
    input_data_format: str | None = None,
) -> Inspection:
    """Say what an image is, from its header alone.

    Parameters
    ----------
    source : path, ``data:`` URL, bytes-like, binary file, PIL.Image.Image or numpy.ndarray
    policy : str or DecodePolicy, optional
        Which formats are read, which frame, and whether the image is turned.
    limits : Limits, optional
        Those of an image hold here too; `Limits.default` if not given.
    input_data_format : str, optional
        ``channels_first`` for arrays (channels, height, width).

    Returns
    -------
    Inspection

    Raises
    ------
    UnsupportedFormat
        Where the format is not read.
    CorruptImage
        Where the header is truncated or damaged.
    MediaTooLarge
        Where a limit is exceeded.
    MediaError
        Where it is no image, or cannot be read.
    """
    chosen = decode_policy(policy)
    limits = Limits.default() if limits is None else checked_limits(limits)
    if isinstance(source, np.ndarray):
        found = _of_array(source, array_options(input_data_format, None).channels_first)
    elif isinstance(source, Image.Image):
        found = _of_pillow(source)
    else:
        found = _of_file(encoded_file(source, limits), chosen, limits)
    limits.check_size(Size(found.height, found.width))
    return found


def _of_array(array: np.ndarray, channels_first: bool) -> Inspection:
    height, width, channels = as_channels_last(array, channels_first).shape
    return Inspection(
        format=None,
        height=height,
        width=width,
        stored=Size(height, width),
        mode=_ARRAY_MODES[channels],
        bits=8 * array.itemsize,
        orientation=1,
        frames=1,
        has_alpha=channels == 4,
        bytes=None,
    )


def _of_pillow(image: Image.Image) -> Inspection:
    # Properties would look for frames, and move in the caller's file.
    frames = vars(image).get("n_frames", vars(image).get("_n_frames") if hasattr(type(image), "n_frames") else 1)
    return Inspection(
        format=image.format,
        height=image.height,
        width=image.width,
        stored=Size(image.height, image.width),
        mode=image.mode,
        bits=_bits_of_mode(image.mode),
        orientation=1,
        frames=frames if isinstance(frames, int) else None,
        has_alpha=has_alpha(image),
        bytes=None,
    )


def _of_file(encoded: EncodedFile, policy: DecodePolicy, limits: Limits) -> Inspection:
    with naming(encoded.name), encoded.open() as file:
        image = open_header(file, policy.formats, limits)
        header = header_of(image, file, limits, policy.frame)
        if policy.orientation == "ignore":
            header = header._replace(orientation=1)
        return Inspection(
            format=header.format,
            height=header.size.height,
            width=header.size.width,
            stored=header.stored,
            mode=image.mode,
            bits=_bits(image, file),
            orientation=header.orientation,
            frames=count_frames(image, file),
            has_alpha=has_alpha(image),
            bytes=encoded.size,
        )


# ---- bits of a channel


def _bits(image: ImageFile.ImageFile, file: IO[bytes]) -> int:
    """Return the bits of a channel as stored; what the mode has where the file does not say."""
    read = _STORED_BITS.get(str(image.format))
    try:
        found = read(image, file) if read else None
    except (IndexError, TypeError, ValueError):  # it ends early, or is damaged behind what Pillow looks at
        found = None
    return found or _bits_of_mode(image.mode)


def _bits_of_mode(mode: str) -> int:
    return 16 if mode.startswith("I;16") else _MODE_BITS.get(mode, 8)


def _png_bits(image: ImageFile.ImageFile, file: IO[bytes]) -> int:
    file.seek(24)
    return file.read(1)[0]


def _tiff_bits(image: ImageFile.ImageFile, file: IO[bytes]) -> int | None:
    assert isinstance(image, TiffImagePlugin.TiffImageFile)
    return int(max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,))))


def _ppm_bits(image: ImageFile.ImageFile, file: IO[bytes]) -> int | None:
    arguments = image.tile[0].args
    if isinstance(arguments, tuple) and isinstance(arguments[-1], int) and arguments[-1] > 0:
        return arguments[-1].bit_length()  # of the largest value
    return 16 if arguments == "I;16B" else None


def _byte_after(name: bytes, place: int, bits: Callable[[int], int]) -> Callable[[ImageFile.ImageFile, IO[bytes]], int]:
    """Return a reader of bits from one byte at some place behind a name that is early in the file."""

    def read(image: ImageFile.ImageFile, file: IO[bytes]) -> int:
        file.seek(0)
        data = file.read(_BOXES)
        return bits(data[data.index(name) + len(name) + place])

    return read


_STORED_BITS: dict[str, Callable[[ImageFile.ImageFile, IO[bytes]], int | None]] = {
    "PNG": _png_bits,
    "TIFF": _tiff_bits,
    "PPM": _ppm_bits,
    # Ssiz of the first component, behind the markers SOC and SIZ. Source: ITU-T T.800, A.5.1.
    "JPEG2000": _byte_after(b"\xff\x4f\xff\x51", 38, lambda byte: (byte & 127) + 1),
    # high_bitdepth and twelve_bit. Source: AV1 Codec ISO Media File Format Binding 1.2, 2.3.3.
    "AVIF": _byte_after(b"av1C", 2, lambda byte: 8 + 2 * (byte >> 6 & 1) + 2 * (byte >> 5 & 1)),
    # bit_depth_luma_minus8. Source: ISO/IEC 14496-15, 8.3.3.1.
    "HEIF": _byte_after(b"hvcC", 17, lambda byte: (byte & 7) + 8),
}
