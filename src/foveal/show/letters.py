"""Text on pictures, in the font that comes with Pillow. It has the printable characters of ASCII and little else."""

from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from foveal.types import Color

__all__ = [
    "ACCENTS",
    "GREY",
    "HAIRLINE",
    "INK",
    "PAPER",
    "badge",
    "badge_size",
    "plain",
    "text_width",
    "wrapped",
    "write",
]

PAPER: Color = (255, 255, 255)
INK: Color = (31, 36, 48)
GREY: Color = (100, 107, 121)
HAIRLINE: Color = (203, 208, 216)
ACCENTS: tuple[Color, ...] = ((37, 99, 235), (217, 98, 12), (13, 138, 128), (139, 70, 214))

BADGE = 15
"""Size of the letters of a badge."""
LONGEST_NAME = 60


def write(
    draw: ImageDraw.ImageDraw, left: float, top: float, text: str, size: int, color: Color = INK, *, bold: bool = False
) -> None:
    """Write one line, word by word: the font's own spaces are too narrow beside its digits at small sizes."""
    for word in text.split(" "):
        draw.text((left, top), word, color, _font(size), stroke_width=size / 60 if bold else 0)
        left += _font(size).getlength(word) + _space(size)


def text_width(text: str, size: int) -> int:
    """Return the width of a line as `write` writes it."""
    words = text.split(" ")
    return int(sum(_font(size).getlength(word) for word in words) + _space(size) * (len(words) - 1)) + 1


def wrapped(text: str, size: int, width: int) -> list[str]:
    """Return the lines of a text; a word that is too long stands on its own."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def plain(name: str) -> str:
    """Return a name in the characters that the font has, and not too long."""
    short = name if len(name) <= LONGEST_NAME else f"{name[:40]}...{name[-17:]}"
    return "".join(letter if " " <= letter <= "~" else "?" for letter in short)


def badge(picture: Image.Image, left: int, top: int, text: str, color: Color) -> None:
    """Draw a number on a plate whose top left corner is given."""
    draw, (width, height) = ImageDraw.Draw(picture), badge_size(text)
    draw.rounded_rectangle((left, top, left + width - 1, top + height - 1), 4, color)
    centred(draw, (left + width / 2, top + height / 2), text, BADGE)


def badge_size(text: str) -> tuple[int, int]:
    """Return width and height of a badge."""
    return text_width(text, BADGE) + 12, BADGE + 7


def centred(
    draw: ImageDraw.ImageDraw, middle: tuple[float, float], text: str, size: int, rim: Color | None = None
) -> None:
    """Write a number in white around a point, with a dark rim where it stands on a picture."""
    draw.text(middle, text, PAPER, _font(size), anchor="mm", stroke_width=2 if rim else 0.25, stroke_fill=rim)


def _space(size: int) -> float:
    return 0.3 * size


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)
