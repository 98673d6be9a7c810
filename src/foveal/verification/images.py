"""The images of a certificate: a caller's files and folders, or a set that is drawn."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from foveal.errors import MediaError, OptionError
from foveal.media.header import FORMATS
from foveal.spec.values import one_line

__all__ = ["Subject", "drawn", "given"]

SIZES = (
    (480, 640),
    (640, 480),
    (336, 336),
    (1080, 1920),
    (900, 1201),
    (97, 1031),
    (1031, 97),
    (1400, 90),
    (37, 23),
    (1, 1),
    (2, 700),
)
"""Height and width: ordinary ones, odd ones, flat ones whose vertical pass comes first, and some that rules refuse."""

MODES = ("L", "LA", "RGBA", "P", "P with transparency", "CMYK", "1")
MODE_SIZE = (93, 141)


@dataclass(frozen=True)
class Subject:
    """An image by name, decoded when it is its turn."""

    name: str
    load: Callable[[], Image.Image]


def given(images: object) -> list[Subject]:
    """Return the images that a caller names: paths of files and folders, and Pillow images, alone or in a list.

    Raises
    ------
    MediaError
        If a path does not exist, or a folder holds no image.
    OptionError
        If something else is given.
    """
    entries = list(images) if isinstance(images, list | tuple) else [images]
    subjects = [subject for index, entry in enumerate(entries) for subject in _subjects(index, entry)]
    if not subjects:
        raise MediaError("there is no image")
    return subjects


def _subjects(index: int, entry: object) -> Iterator[Subject]:
    if isinstance(entry, Image.Image):
        yield Subject(f"image {index}", partial(_itself, entry))
        return
    if not isinstance(entry, str | os.PathLike):
        kind = type(entry).__name__[:40]
        raise OptionError(f"image {index} is of type {kind}: expected the path of a file or folder, or a Pillow image")
    path = Path(entry)
    shown = one_line(str(path), 120)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() in _suffixes())
        if not files:
            raise MediaError(f"image {index} ({shown}): the folder holds no image")
        yield from (Subject(str(file), partial(_decoded, file)) for file in files)
    elif path.exists():
        yield Subject(str(path), partial(_decoded, path))
    else:
        raise MediaError(f"image {index} ({shown}): no such file or folder")


def _suffixes() -> set[str]:
    return {suffix for suffix, kind in Image.registered_extensions().items() if kind in FORMATS}


def _itself(image: Image.Image) -> Image.Image:
    return image


def _decoded(path: Path) -> Image.Image:
    """Return a file's image as Pillow decodes it, upright.

    Raises
    ------
    MediaError
    """
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
            image.load()
            return ImageOps.exif_transpose(image)
    except MemoryError:
        raise
    except Exception as error:
        reason = str(error).replace(str(path), path.name) or type(error).__name__
        raise MediaError(f"cannot be read: {one_line(' '.join(reason.split()), 160)}") from None


def drawn(modes: bool) -> list[Subject]:
    """Return the built-in set.

    Parameters
    ----------
    modes : bool
        Whether images that are not RGB belong to it: not where the reference leaves them as they are.
    """
    shapes: Sequence[tuple[int, int, str]] = [(*size, "RGB") for size in SIZES]
    if modes:
        shapes = [*shapes, *((*MODE_SIZE, mode) for mode in MODES)]
    return [Subject(f"drawn {number}", partial(_draw, *shape)) for number, shape in enumerate(shapes, 1)]


def _draw(height: int, width: int, mode: str) -> Image.Image:
    """Draw slopes, noise, and bars of black and white, which filters overshoot."""
    y, x = np.arange(height)[:, None], np.arange(width)[None, :]
    noise = np.random.default_rng([height, width]).integers(0, 80, (height, width, 4))
    slopes = np.stack(
        np.broadcast_arrays(
            175 * y // height, 175 * x // width, 175 * (x + y) // (height + width), 175 - 175 * x // width
        ),
        axis=-1,
    )
    rgba = (slopes + noise).astype(np.uint8)
    rgba[(x + 2 * y) % 41 < 3] = 255
    rgba[(3 * x + y) % 53 < 3, :3] = 0
    image = Image.fromarray(np.ascontiguousarray(rgba[..., :3]))
    if mode == "P with transparency":
        image = image.quantize(32)
        image.info["transparency"] = bytes(range(0, 256, 8))
        return image
    if mode in ("LA", "RGBA"):
        return _with_alpha(image, rgba[..., 3]).convert(mode)
    return image.convert(mode)


def _with_alpha(image: Image.Image, alpha: npt.NDArray[np.uint8]) -> Image.Image:
    image.putalpha(Image.fromarray(np.ascontiguousarray(alpha)))
    return image
