"""What happens to an image: one row a kind of image, one column a policy; every cell is what the code did with a file.

A file is made by code and read under each preset. The outcome is an error, or pixels; pixels are named by the one
candidate of the row that they are equal to, and a row with none is a mistake that stops the generator.
"""

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from foveal.errors import FovealError
from foveal.media.policy import DEFAULT, PRESETS, DecodePolicy
from foveal.media.sources import open_source

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "media"))

from hostile import zeros_png
from reading import encoded, exif, noise, picture, read_rgb

__all__ = ["KINDS", "POLICIES", "Kind", "image_table", "outcome", "short_image_table"]

POLICIES: dict[str, DecodePolicy] = {"default": DEFAULT, **PRESETS}

Pixels = npt.NDArray[np.uint8]
Candidates = Mapping[str, Callable[[bytes], Pixels]]

HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\n"


@dataclass(frozen=True)
class Kind:
    """A kind of image.

    Attributes
    ----------
    name : str
    data : bytes
    candidates : dict
        What its pixels may be, by the name for the table's cell.
    brief : bool
        Whether it is in the short table too.
    """

    name: str
    data: bytes
    candidates: Candidates
    brief: bool = False


def image_table() -> str:
    """Return the whole table in Markdown."""
    return _table(KINDS)


def short_image_table() -> str:
    """Return the table of the few kinds that are most often met."""
    return _table([kind for kind in KINDS if kind.brief])


def _table(kinds: list[Kind]) -> str:
    names = ["default", *(f"`{name}`" for name in PRESETS)]
    rows = [["image", *names], ["---"] * (1 + len(names))]
    with _without_heif():
        rows += [[kind.name, *(outcome(kind, policy) for policy in POLICIES.values())] for kind in kinds]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def outcome(kind: Kind, policy: DecodePolicy) -> str:
    """Return what a policy makes of a kind of image, in the words of a cell."""
    try:
        found = read_rgb(open_source(kind.data, policy=policy).decode())
    except FovealError as error:
        return "needs `pillow-heif`" if "pip install pillow-heif" in str(error) else f"`{type(error).__name__}`"
    for name, expected in kind.candidates.items():
        if np.array_equal(found, expected(kind.data)):
            return name
    raise ValueError(f"{kind.name}: the pixels are none of {', '.join(kind.candidates)}")


@contextmanager
def _without_heif() -> Iterator[None]:
    """Have the same table whether the optional package is installed or not."""
    kept = sys.modules.get("pillow_heif")
    sys.modules["pillow_heif"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["pillow_heif"]
        if kept is not None:
            sys.modules["pillow_heif"] = kept


# ---- what the pixels may be


def _opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def _plain(data: bytes) -> Pixels:
    return np.asarray(_opened(data).convert("RGB"))


def _dropped(data: bytes) -> Pixels:
    """Return the stored colours, with nothing said about transparency."""
    image = _opened(data)
    image.info.pop("transparency", None)
    return np.asarray(image.convert("RGB"))


def _on_white(data: bytes) -> Pixels:
    image = _opened(data).convert("RGBA")
    return np.asarray(Image.alpha_composite(Image.new("RGBA", image.size, (255,) * 4), image).convert("RGB"))


def _turned(data: bytes) -> Pixels:
    return np.asarray(_opened(data).transpose(Image.Transpose.ROTATE_270).convert("RGB"))


def _turned_back(data: bytes) -> Pixels:
    return np.asarray(_opened(data).transpose(Image.Transpose.ROTATE_90).convert("RGB"))


def _deep(rule: Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint32]]) -> Callable[[bytes], Pixels]:
    def expected(data: bytes) -> Pixels:
        grey = rule(np.asarray(_opened(data)).astype(np.uint32)).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)

    return expected


AS_STORED: Candidates = {"read": _plain}
TRANSPARENT: Candidates = {"on white": _on_white, "alpha dropped": _dropped}
FILLED: Candidates = {"grey where data are missing": _plain}
KEYED: Candidates = {"on white": _on_white, "colour key ignored": _dropped}
DEEP: Candidates = {
    "above 255: white": _deep(lambda values: np.minimum(values, 255)),
    "upper 8 bits": _deep(lambda values: values >> 8),
    "scaled, rounded": _deep(lambda values: (values * 255 + 32767) // 65535),
}
ORIENTED: Candidates = {"turned upright": _turned, "as stored": _plain}
TURNED_BY_PILLOW: Candidates = {"turned upright": _plain, "as stored": _turned_back}
FIRST: Candidates = {"first frame": _plain}


# ---- the images


def _faded(mode: str) -> Image.Image:
    """Return a picture with colours beneath all degrees of transparency."""
    image = picture(mode)
    image.putalpha(Image.fromarray(noise(7, 11, None, seed=1)))
    return image


def _quantized() -> Image.Image:
    """Return a picture of few values, so that a transparent colour is met."""
    return Image.fromarray(noise(7, 11, None) // 64 * 64)


def _ramp() -> Image.Image:
    return Image.fromarray(np.linspace(0, 65535, 77, dtype=np.uint16).reshape(7, 11))


def _animated(format: str) -> bytes:
    frames = [picture("RGB"), Image.new("RGB", (11, 7), (9, 8, 7))]
    options = {"lossless": True} if format == "WEBP" else {}
    return encoded(frames[0], format, save_all=True, append_images=frames[1:], **options)


def _keyed_color() -> bytes:
    grey = _quantized()
    image = Image.merge("RGB", [grey, grey, Image.new("L", grey.size, 9)])
    return encoded(image, "PNG", transparency=(64, 64, 9))


PHOTO = encoded(picture("RGB", 40, 60), "JPEG")
PNG = encoded(picture("RGB", 40, 60), "PNG")

KINDS = [
    Kind("JPEG, grey or colour", PHOTO, AS_STORED),
    Kind("JPEG, CMYK", encoded(picture("CMYK"), "JPEG"), AS_STORED),
    Kind("JPEG, EXIF orientation 6", encoded(picture("RGB"), "JPEG", exif=exif(6)), ORIENTED, brief=True),
    Kind("JPEG, malformed EXIF", encoded(picture("RGB"), "JPEG", exif=b"Exif\0\0junk"), AS_STORED),
    Kind("PNG, 1 bit", encoded(picture("1"), "PNG"), AS_STORED),
    Kind("PNG, palette", encoded(picture("P"), "PNG"), AS_STORED),
    Kind("PNG, RGBA", encoded(_faded("RGB"), "PNG"), TRANSPARENT, brief=True),
    Kind("PNG, grey and alpha", encoded(_faded("L"), "PNG"), TRANSPARENT),
    Kind("PNG, palette with alpha", encoded(picture("P"), "PNG", transparency=bytes(range(0, 256, 16))), TRANSPARENT),
    Kind("PNG, grey with a transparent value", encoded(_quantized(), "PNG", transparency=64), KEYED),
    Kind("PNG, RGB with a transparent colour", _keyed_color(), KEYED, brief=True),
    Kind("PNG, grey, 16 bits", encoded(_ramp(), "PNG"), DEEP, brief=True),
    Kind("PNG, animated", _animated("PNG"), FIRST),
    Kind("GIF, animated", _animated("GIF"), FIRST, brief=True),
    Kind("WebP, animated", _animated("WEBP"), FIRST),
    Kind("WebP, RGBA", encoded(_faded("RGB"), "WEBP", lossless=True, exact=True), TRANSPARENT),
    Kind("TIFF", encoded(picture("RGB"), "TIFF"), AS_STORED, brief=True),
    Kind("TIFF, orientation 6", encoded(picture("RGB"), "TIFF", tiffinfo={0x0112: 6}), TURNED_BY_PILLOW),
    Kind("BMP", encoded(picture("RGB"), "BMP"), AS_STORED),
    Kind("PPM", encoded(picture("RGB"), "PPM"), AS_STORED),
    Kind("QOI", encoded(picture("RGB"), "QOI"), AS_STORED),
    Kind("AVIF", encoded(picture("RGB"), "AVIF"), AS_STORED),
    Kind("JPEG 2000", encoded(picture("RGB", 40, 33), "JPEG2000"), AS_STORED),
    Kind("HEIC, also where it is named .jpg", HEIC, AS_STORED, brief=True),
    Kind("EPS, and all else that a program renders", EPS, AS_STORED),
    Kind("JPEG that ends early, without its end marker", PHOTO[: len(PHOTO) // 2], AS_STORED, brief=True),
    Kind("JPEG that ends early, with an end marker", PHOTO[: len(PHOTO) // 2] + b"\xff\xd9", FILLED),
    Kind("PNG that ends early", PNG[: len(PNG) // 2], AS_STORED),
    Kind("bytes behind the end", PHOTO + b"trailing", AS_STORED),
    Kind("one pixel high, 1x96", encoded(picture("RGB", 1, 96), "PNG"), AS_STORED),
    Kind("1x5000", encoded(Image.new("RGB", (5000, 1)), "PNG"), AS_STORED),
    Kind("PNG of 40,000x40,000 zeros", zeros_png(40_000, 40_000), AS_STORED, brief=True),
]
