"""Pictures at the size in which they are drawn, with their marks."""

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from foveal.plan.boxes import Edges
from foveal.show.figures import Figure, Outline
from foveal.show.letters import ACCENTS, PAPER, badge, badge_size
from foveal.types import Color

__all__ = ["GRID", "fit", "marked", "notes", "resized"]

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Corners = tuple[int, int, int, int]
"""Left, top, right and bottom edge of a box, in pixels."""

GRID: Color = (255, 205, 60)
BLACK: Color = (0, 0, 0)

LEAST = 300
"""Longer side, in pixels of the sheet, below which a picture is enlarged."""
FINEST_CELL = 5
"""Side of a cell, in pixels of the sheet, below which a grid would hide the picture."""
THINNEST = 20
"""Shorter side, in pixels of the sheet, below which outlines would hide a picture."""
BRIGHT = 110
"""Mean of the channels above which stripes are dark."""
NEST = 4
"""Distance of outlines that would lie on each other."""


def fit(picture: Image.Image, width: int, height: int) -> float:
    """Return the scale in which a picture fits into a box: reduced as needed; a tiny one enlarged by a whole number."""
    scale = min(width / picture.width, height / picture.height)
    if scale < 1:
        return scale
    return max(1, min(int(scale), -(-LEAST // max(picture.size))))


def notes(figure: Figure, scale: float) -> list[str]:
    """Return what is said about a figure that is drawn at a scale."""
    said = list(figure.notes)
    if figure.outlines and _outlines_fit(figure, scale):
        said.append(f"outlined: {figure.outlined}")
    if figure.cell:
        small = "" if _cells_fit(figure, scale) else ", too small to be drawn"
        said.append(f"a cell of {figure.cell}x{figure.cell} is one {figure.unit}{small}")
    if scale > 1:
        said.append(f"drawn {scale:.0f} times as large")
    if scale < 1:
        said.append(f"drawn at {100 * scale:.2g} %")
    return said


def resized(picture: Image.Image, scale: float) -> Image.Image:
    """Return a picture at a scale; enlarged, its pixels stay squares."""
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    if size == picture.size:
        return picture.copy()
    return picture.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS)


def marked(figure: Figure, scale: float) -> Image.Image:
    """Return a figure's picture at a scale, with all of its marks."""
    pixels = np.asarray(resized(figure.picture, scale)).copy()
    down, across = pixels.shape[0] / figure.picture.height, pixels.shape[1] / figure.picture.width
    if figure.seen:
        _blend(pixels, _outside(pixels, [_corners(part, down, across) for part in figure.seen]), PAPER, 0.7)
    if figure.filled:
        stripes = _outside(pixels, [_corners(figure.filled, down, across)]) & _stripes(pixels)
        bright = pixels.mean(axis=2) > BRIGHT
        _blend(pixels, stripes & bright, BLACK, 0.28)
        _blend(pixels, stripes & ~bright, PAPER, 0.36)
    if figure.cell and _cells_fit(figure, scale):
        _blend(pixels, _lines(pixels, figure.cell * down, figure.cell * across), GRID, 0.55)
    drawn = Image.fromarray(pixels)
    if _outlines_fit(figure, scale):
        _draw_outlines(drawn, figure.outlines, [_corners(outline.edges, down, across) for outline in figure.outlines])
    return drawn


def _cells_fit(figure: Figure, scale: float) -> bool:
    return figure.cell * scale >= FINEST_CELL


def _outlines_fit(figure: Figure, scale: float) -> bool:
    return min(figure.picture.size) * scale >= THINNEST


def _draw_outlines(drawn: Image.Image, outlines: tuple[Outline, ...], boxes: list[Corners]) -> None:
    """Draw outlines on the boundaries of their parts, so that neighbours share one; then the numbers."""
    draw = ImageDraw.Draw(drawn)
    inside = [
        _inside(drawn, box, NEST * (outline.group % len(ACCENTS))) for outline, box in zip(outlines, boxes, strict=True)
    ]
    for half, colors in ((2, [PAPER] * len(outlines)), (1, [_color(outline) for outline in outlines])):
        for box, color in zip(inside, colors, strict=True):
            _frame(draw, box, half, color)
    for outline, (left, top, right, bottom) in zip(outlines, inside, strict=True):
        width, height = badge_size(outline.label)
        if outline.label and right - left >= width + 12 and bottom - top >= height + 12:
            badge(drawn, left + 6, top + 6, outline.label, _color(outline))


def _color(outline: Outline) -> Color:
    return ACCENTS[outline.group % len(ACCENTS)]


def _inside(drawn: Image.Image, box: Corners, by: int) -> Corners:
    """Return a box smaller by some pixels, and so that the lines of its frame are whole."""
    left, top, right, bottom = box
    return (
        max(left + by, 2),
        max(top + by, 2),
        min(right - by, drawn.width - 2),
        min(bottom - by, drawn.height - 2),
    )


def _frame(draw: ImageDraw.ImageDraw, box: Corners, half: int, color: Color) -> None:
    """Draw a frame of which half the width lies on either side of the edges."""
    left, top, right, bottom = box
    low, high = half, half - 1
    for edges in (
        (left - low, top - low, right + high, top + high),
        (left - low, bottom - low, right + high, bottom + high),
        (left - low, top - low, left + high, bottom + high),
        (right - low, top - low, right + high, bottom + high),
    ):
        if edges[0] <= edges[2] and edges[1] <= edges[3]:
            draw.rectangle(edges, color)


def _corners(edges: Edges, down: float, across: float) -> Corners:
    """Return a box in a picture that is drawn at another size."""
    return round(edges.left * across), round(edges.top * down), round(edges.right * across), round(edges.bottom * down)


def _blend(pixels: Pixels, where: Mask, color: Color, part: float) -> None:
    pixels[where] = np.rint(pixels[where] * (1 - part) + np.array(color) * part).astype(np.uint8)


def _outside(pixels: Pixels, boxes: list[Corners]) -> Mask:
    outside = np.ones(pixels.shape[:2], bool)
    for left, top, right, bottom in boxes:
        outside[top : max(bottom, top + 1), left : max(right, left + 1)] = False
    return outside


def _stripes(pixels: Pixels) -> Mask:
    height, width = pixels.shape[:2]
    stripes: Mask = (np.arange(height)[:, np.newaxis] + np.arange(width)) % 10 < 2
    return stripes


def _lines(pixels: Pixels, down: float, across: float) -> Mask:
    """Return the boundaries between cells, one pixel wide."""
    lines = np.zeros(pixels.shape[:2], bool)
    lines[_boundaries(down, pixels.shape[0])] = True
    lines[:, _boundaries(across, pixels.shape[1])] = True
    return lines


def _boundaries(step: float, length: int) -> list[int]:
    return [round(number * step) for number in range(1, round(length / step)) if round(number * step) < length]
