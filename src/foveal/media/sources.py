"""One entry for all that can be an image. Opening reads the header; pixels are decoded when they are asked for."""

import inspect
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from foveal.errors import CorruptImage, MediaError, MediaTooLarge, OptionError
from foveal.media.arrays import ArrayOptions, array_options, as_channels_last, check_values
from foveal.media.costs import PLAIN_BYTES
from foveal.media.data_url import decode_data_url
from foveal.media.decode import decode_array, decode_encoded, decode_pillow, load_pillow
from foveal.media.digest import digest_array, digest_bytes, digest_file, digest_pillow
from foveal.media.header import Header, read_header
from foveal.media.limits import Limits
from foveal.media.pixels import Pixels
from foveal.media.policy import DEFAULT, DecodePolicy
from foveal.media.urls import url_scheme
from foveal.types import Size

__all__ = ["EncodedFile", "ImageItem", "Source", "encoded_file", "naming", "open_source"]

ImageItem = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes] | Image.Image | npt.NDArray[np.generic]
"""What `open_source` takes."""

Kind = Literal["encoded", "pillow", "array"]

_PATH_LENGTH, _NAME_LENGTH = 4096, 255
"""What Linux allows at most."""

_FILE_NAME = re.compile(r"[^<>{}]{1,100}\.[A-Za-z0-9]{1,8}", re.DOTALL)
"""A name that is shown though there is no such file."""

_PIECE = 16 << 20
"""Bytes that are asked for at a time from objects that may give more than the limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An image that was opened but not decoded.

    Attributes
    ----------
    size : Size
        Height and width of what `decode` returns, orientation applied.
    kind : {"encoded", "pillow", "array"}
    load : callable
        Makes the pixels; safe to call from any thread, any number of times.
    hash : callable
        Makes the digest; likewise.
    file : EncodedFile, optional
        An encoded image as it was given; None for Pillow images and arrays.
    bytes_a_pixel : int
        What decoding counts in `Limits.decoded_bytes`.
    decodes : bool
        Whether making the pixels takes long: a file, or a Pillow image of one that was opened and not yet loaded.
    """

    size: Size
    kind: Kind
    load: Callable[[], Pixels]
    hash: Callable[[], str]
    file: "EncodedFile | None" = None
    bytes_a_pixel: int = PLAIN_BYTES
    decodes: bool = False

    def decode(self) -> Pixels:
        """Return the pixels.

        Raises
        ------
        MediaError
        """
        return self.load()

    def digest(self) -> str:
        """Return the digest of what was given, 64 hexadecimal digits; see `foveal.media.digest`.

        Raises
        ------
        MediaError
            Where a file cannot be read or changed, or a Pillow image cannot be loaded.
        """
        return self.hash()


def open_source(
    item: ImageItem,
    *,
    input_data_format: str | None = None,
    value_range: Sequence[float] | None = None,
    limits: Limits | None = None,
    policy: DecodePolicy = DEFAULT,
) -> Source:
    """Open an image without decoding it.

    Paths, bytes, file objects and ``data:`` URLs are encoded images: the policy decides about their orientation and
    frame. Pillow images and arrays are taken as they are.

    Parameters
    ----------
    item : path, ``data:`` URL, bytes-like, binary file, PIL.Image.Image or numpy.ndarray
        Arrays are uint8 (height, width) or (height, width, 1, 3 or 4), with any strides. A file object is read now,
        from its beginning where it can be rewound, and then stands where it stood.
    input_data_format : {"channels_last", "channels_first"}, optional
        Axis order of arrays; channels last by default.
    value_range : (0, 1) or (0, 255), optional
        What floating-point arrays hold. They are scaled to 0..255, clipped, and rounded half to even.
    limits : Limits, optional
        Those of an image are checked here; `Limits.default` if not given.
    policy : DecodePolicy, optional

    Raises
    ------
    MediaError
        Its text follows well on ``image 2: ``.
    ImageSizeError
        Its text follows well on ``image 2 is ``.
    OptionError
        Where an option has a value that no array could be read with, or is given for an item that is not an array.
    """
    limits = Limits.default() if limits is None else limits
    options = array_options(input_data_format, value_range)
    if isinstance(item, np.ndarray):
        source = _from_array(item, options, policy)
    else:
        for option, value in (("input_data_format", input_data_format), ("value_range", value_range)):
            if value is not None:
                kind = "a Pillow image" if isinstance(item, Image.Image) else "an encoded image"
                raise OptionError(f"{option} is for arrays, this is {kind}")
        if isinstance(item, Image.Image):
            source = _from_pillow(item, policy)
        else:
            source = _from_encoded(encoded_file(item, limits), limits, policy)
    limits.check_size(source.size)
    return source


# ---- arrays and Pillow images


def _from_array(array: npt.NDArray[np.generic], options: ArrayOptions, policy: DecodePolicy) -> Source:
    view = as_channels_last(array, options.channels_first)
    check_values(view, options.value_range)
    return Source(
        Size(view.shape[0], view.shape[1]),
        "array",
        partial(decode_array, view, options.value_range, policy),
        partial(digest_array, array, options.channels_first, options.value_range),
    )


def _from_pillow(image: Image.Image, policy: DecodePolicy) -> Source:
    size = Size(image.height, image.width)
    if not size.height * size.width:
        raise CorruptImage(f"the image has no pixels ({size}, height x width)")
    load, digest = partial(decode_pillow, image, size, policy), partial(_pillow_digest, image, size)
    return Source(size, "pillow", load, digest, decodes=bool(getattr(image, "tile", None)))


def _pillow_digest(image: Image.Image, size: Size) -> str:
    load_pillow(image, size)
    return digest_pillow(image)


# ---- encoded images


class EncodedFile(NamedTuple):
    """An encoded image that can be read any number of times.

    Attributes
    ----------
    open : callable
        Opens it; raises a `MediaError` where it is not what it was any more.
    size : int
        In bytes.
    name : str
        To put before messages; empty where it has none.
    digest : callable
    """

    open: Callable[[], IO[bytes]]
    size: int
    name: str
    digest: Callable[[], str]


def _from_encoded(file: EncodedFile, limits: Limits, policy: DecodePolicy) -> Source:
    with naming(file.name), file.open() as opened:
        header = read_header(opened, formats=policy.formats, limits=limits, frame=policy.frame)
    if policy.orientation == "ignore":
        header = header._replace(orientation=1)
    load, digest = partial(_decode, file, header, policy), partial(_digest, file)
    return Source(header.size, "encoded", load, digest, file, header.bytes_a_pixel, True)


def _decode(file: EncodedFile, header: Header, policy: DecodePolicy) -> Pixels:
    with naming(file.name):
        return decode_encoded(file.open, header, policy)


def _digest(file: EncodedFile) -> str:
    with naming(file.name):
        return file.digest()


def encoded_file(item: object, limits: Limits) -> EncodedFile:
    """Return an item that holds an encoded image as something to read.

    Raises
    ------
    MediaError
        Where it is no such item, cannot be read, or is larger than the limit.
    """
    if isinstance(item, bytes | bytearray | memoryview):
        return _of_bytes(item, limits)
    if isinstance(item, str | os.PathLike):
        return _of_path(item, limits)
    if callable(getattr(item, "read", None)):
        return _of_bytes(_read_all(item, limits.input_bytes), limits)
    kind = type(item).__name__[:40]
    raise MediaError(
        f"an object of type {kind} is not an image; expected a path, a URL, bytes, a binary file, a PIL image or a "
        "NumPy array"
    )


def _of_bytes(item: bytes | bytearray | memoryview, limits: Limits) -> EncodedFile:
    try:
        limits.check_bytes(item.nbytes if isinstance(item, memoryview) else len(item))
        data = bytes(item)
    except MediaError:
        raise
    except ValueError as error:
        raise MediaError("the memoryview was released") from error
    return EncodedFile(partial(io.BytesIO, data), len(data), "", partial(digest_bytes, data))


def _of_path(item: str | os.PathLike[str], limits: Limits) -> EncodedFile:
    try:
        path = os.fsdecode(item)
    except Exception as error:  # __fspath__ is the caller's own code
        raise MediaError(f"an object of type {type(item).__name__[:40]} gives no path") from error
    scheme = url_scheme(path)
    if scheme == "data":
        return _of_bytes(_of_data_url(path, limits), limits)
    if scheme is not None:
        raise MediaError("a URL is not read here; pass a path, a data URL or the bytes of the file")
    name = _shown(path)
    if isinstance(item, str) and not _may_be_named(path):
        raise _no_path(path)
    with naming(name):
        status = _status(path)
        limits.check_bytes(status.st_size)
    open_file = partial(_open_path, path, _stamp(status))
    return EncodedFile(open_file, status.st_size, name, partial(_file_digest, open_file))


def _of_data_url(url: str, limits: Limits) -> bytes:
    data = decode_data_url(url, limits.input_bytes)
    if not data:
        fragment = "; a '#' begins its fragment, which is no part of them" if "#" in url else ""
        raise CorruptImage(f"the data URL holds no bytes{fragment}")
    return data


# ---- paths


def _status(path: str) -> os.stat_result:
    try:
        status = os.stat(path)
    except OSError as error:
        raise _cannot_be_opened(error) from error
    except ValueError as error:
        raise MediaError("cannot be opened: not a file name") from error
    if stat.S_ISDIR(status.st_mode):
        raise MediaError("cannot be opened: is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise MediaError("cannot be opened: not a regular file")  # a pipe would wait for a writer
    return status


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return what tells a file from another one, or from itself after it was written to."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _open_path(path: str, stamp: tuple[int, ...]) -> IO[bytes]:
    """Open a file that must not have changed: size, identity and pixels are read one after the other."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise _cannot_be_opened(error) from error
    if _stamp(os.fstat(file.fileno())) != stamp:
        file.close()
        raise MediaError("the file changed after it was opened")
    return file


def _cannot_be_opened(error: OSError) -> MediaError:
    return MediaError(f"cannot be opened: {_reason(error)}")


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _file_digest(open_file: Callable[[], IO[bytes]]) -> str:
    with open_file() as file:
        return digest_file(file)


def _may_be_named(path: str) -> bool:
    """Whether a text is the path of something, or its name looks like that of a file; base64 and markup never do."""
    return _FILE_NAME.fullmatch(Path(path).name) is not None or os.path.lexists(path)


def _no_path(path: str) -> MediaError:
    return MediaError(f"a str of {len(path)} characters is neither the path of a file nor a URL")


def _shown(path: str) -> str:
    """Return the file's name as it may appear in a message: no directories, one line."""
    name = Path(path).name or "the path"
    if len(path) > _PATH_LENGTH or len(name) > _NAME_LENGTH:
        raise _no_path(path)
    return "".join(character if character.isprintable() else "?" for character in name)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the file's name, where there is one, before the messages of the block; what the system says is one too."""
    try:
        yield
    except MediaError as error:
        if not name:
            raise
        raise type(error)(f"{name}: {error}") from error.__cause__
    except OSError as error:
        raise MediaError(f"{name or 'the image'}: cannot be read: {_reason(error)}") from error


# ---- file objects


def _read_all(file: Any, limit: int) -> bytes:
    """Return what a binary file holds, and leave it where it stood, if it can be rewound.

    Raises
    ------
    MediaError
    """
    if getattr(file, "closed", False) is True:
        raise MediaError("the file object is closed")
    try:
        position = _rewound(file)
        try:
            return _read_pieces(file, limit)
        finally:
            if position is not None:
                file.seek(position)
    except (MediaError, MemoryError):
        raise
    except io.UnsupportedOperation as error:
        raise MediaError("the file object was not opened for reading") from error
    except Exception as error:  # the object's own code
        raise MediaError(f"the file object cannot be read: its methods raise {type(error).__name__[:40]}") from error


def _rewound(file: Any) -> int | None:
    """Return where a file stood, after moving to its beginning; None where that is not possible."""
    try:
        position = int(file.tell())
        file.seek(0)
    except (AttributeError, OSError):
        return None
    return position


def _read_pieces(file: Any, limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit
    while (piece := file.read(min(_PIECE, left + 1))) != b"":
        if not isinstance(piece, bytes):
            raise MediaError(_not_bytes(piece))
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise MediaTooLarge(f"the file object holds more than the limit of {limit} bytes (Limits.input_bytes)")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _not_bytes(piece: object) -> str:
    """Return what is wrong with a file that does not give bytes."""
    if inspect.isawaitable(piece):
        if inspect.iscoroutine(piece):
            piece.close()
        return "the file object is asynchronous; pass the bytes that its read() gives when it is awaited"
    if isinstance(piece, str):
        return "the file object gives str, not bytes; open it in binary mode"
    if piece is None:
        return "the file object has no bytes yet (its read() gives None); pass one that waits for them"
    return f"the file object gives {type(piece).__name__[:40]}, not bytes"
