"""One entry for all that can be an image. Opening reads the header; pixels are decoded when they are asked for."""

import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from PIL import Image

from foveal.errors import MediaError, OptionError
from foveal.media.arrays import ArrayOptions, array_options, as_channels_last, check_values
from foveal.media.decode import decode_array, decode_encoded, decode_pillow
from foveal.media.header import Header, read_header
from foveal.media.pixels import Pixels
from foveal.types import Size

__all__ = ["ImageItem", "Source", "open_source"]

ImageItem = str | os.PathLike[str] | bytes | bytearray | memoryview | Image.Image | npt.NDArray[np.generic]
"""What `open_source` takes."""

_PATH_LENGTH, _NAME_LENGTH = 4096, 255
"""What Linux allows at most."""

_URL = re.compile(r"data:|[A-Za-z][A-Za-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An image that was opened but not decoded.

    Attributes
    ----------
    size : Size
        Height and width of what `decode` returns, orientation applied.
    load : callable
        Makes the pixels; safe to call from any thread, any number of times.
    """

    size: Size
    load: Callable[[], Pixels]

    def decode(self) -> Pixels:
        """Return the pixels.

        Raises
        ------
        MediaError
        """
        return self.load()


def open_source(
    item: ImageItem, *, input_data_format: str | None = None, value_range: Sequence[float] | None = None
) -> Source:
    """Open an image without decoding it.

    Paths and bytes are encoded images: their orientation is applied. Pillow images and arrays are taken as they are.
    Transparent pixels are composited on white.

    Parameters
    ----------
    item : path, bytes-like, PIL.Image.Image or numpy.ndarray
        Arrays are uint8 (height, width) or (height, width, 1, 3 or 4), with any strides.
    input_data_format : {"channels_last", "channels_first"}, optional
        Axis order of arrays; channels last by default.
    value_range : (0, 1) or (0, 255), optional
        What floating-point arrays hold. They are scaled to 0..255, clipped, and rounded half to even.

    Raises
    ------
    MediaError
        Its text follows well on ``image 2: ``.
    OptionError
        Where an option has a value that no array could be read with, or is given for an item that is not an array.
    """
    options = array_options(input_data_format, value_range)
    if isinstance(item, np.ndarray):
        return _from_array(item, options)
    if isinstance(item, Image.Image):
        kind, opened = "a Pillow image", partial(_from_pillow, item)
    elif isinstance(item, bytes | bytearray | memoryview):
        kind, opened = "an encoded image", partial(_from_bytes, item)
    elif isinstance(item, str | os.PathLike):
        kind, opened = "an encoded image", partial(_from_path, item)
    else:
        name = type(item).__name__[:40]
        raise MediaError(f"a {name} is not an image; expected a path, bytes, a PIL image or a NumPy array")
    for option, value in (("input_data_format", input_data_format), ("value_range", value_range)):
        if value is not None:
            raise OptionError(f"{option} is for arrays, this is {kind}")
    return opened()


def _from_array(array: npt.NDArray[np.generic], options: ArrayOptions) -> Source:
    view = as_channels_last(array, options.channels_first)
    check_values(view, options.value_range)
    return Source(Size(view.shape[0], view.shape[1]), partial(decode_array, view, options.value_range))


def _from_pillow(image: Image.Image) -> Source:
    size = Size(image.height, image.width)
    if not size.height * size.width:
        raise MediaError(f"the image has no pixels ({size}, height x width)")
    return Source(size, partial(decode_pillow, image, size))


def _from_bytes(item: bytes | bytearray | memoryview) -> Source:
    try:
        data = bytes(item)
    except ValueError as error:
        raise MediaError("the memoryview was released") from error
    open_file = partial(io.BytesIO, data)
    header = read_header(open_file())
    return Source(header.size, partial(decode_encoded, open_file, header))


def _from_path(item: str | os.PathLike[str]) -> Source:
    try:
        path = os.fsdecode(item)
    except Exception as error:  # __fspath__ is the caller's own code
        raise MediaError(f"a {type(item).__name__[:40]} is not a path") from error
    name = _shown(path)
    open_file = partial(_open_path, path)
    with _naming(name), open_file() as file:
        header = read_header(file)
    return Source(header.size, partial(_decode_path, open_file, header, name))


def _decode_path(open_file: Callable[[], IO[bytes]], header: Header, name: str) -> Pixels:
    with _naming(name):
        return decode_encoded(open_file, header)


def _open_path(path: str) -> IO[bytes]:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return open(path, "rb")
    except OSError as error:
        raise MediaError(f"cannot be opened: {(error.strerror or type(error).__name__).lower()}") from error
    except ValueError as error:
        raise MediaError("cannot be opened: not a file name") from error
    raise MediaError("cannot be opened: not a regular file")  # a pipe would wait for a writer


def _shown(path: str) -> str:
    """Return the file's name as it may appear in a message: no directories, one line, nothing that was never a path."""
    if _URL.match(path):
        raise MediaError("a URL is not read; pass a path or the bytes of the file")
    name = Path(path).name or "the path"
    if len(path) > _PATH_LENGTH or len(name) > _NAME_LENGTH:
        raise MediaError(f"a str of {len(path)} characters is not a path")
    return "".join(character if character.isprintable() else "?" for character in name)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Put the file's name before the messages of the block."""
    try:
        yield
    except MediaError as error:
        raise MediaError(f"{name}: {error}") from error.__cause__
