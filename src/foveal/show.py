"""Pictures of what an encoder reads, rebuilt from the tensors: packing and normalization undone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from foveal.plan.plan import Normalization, Pack, Plan, View
from foveal.types import Size

__all__ = ["Panel", "draw_panels", "packing_text", "panels", "view_pixels"]

Picture = npt.NDArray[np.uint8]

_GAP = 8
_MARGIN = 24
_PAPER = (250, 250, 248)
_INK = (40, 40, 40)
_LINE = (255, 214, 10)
_ORIGINAL_HEIGHT = (480, 800)
"""Least and greatest height at which the original is drawn."""


class Panel(NamedTuple):
    """A picture and the lines of text above it."""

    picture: Image.Image
    caption: tuple[str, ...]


def view_pixels(plan: Plan, values: npt.NDArray[np.generic], normalization: Normalization) -> list[Picture]:
    """Return the canvas of every view, uint8 (height, width, 3), as one image's part of the primary tensor holds it.

    Parameters
    ----------
    plan : Plan
    values : ndarray
        ``plan.shape`` elements; uint8 where the tensor holds bytes.
    normalization : Normalization
        What made the values from bytes.
    """
    flat = values.reshape(-1)
    pictures = []
    for view in plan.views:
        count = 3 * view.canvas.height * view.canvas.width * view.pack.temporal
        planes = _unpacked(flat[view.offset : view.offset + count], view.canvas, view.pack)
        pictures.append(_bytes(planes, normalization))
    return pictures


def panels(
    plan: Plan, values: npt.NDArray[np.generic], normalization: Normalization, original: Image.Image
) -> list[Panel]:
    """Return the original and every view, each with its sizes; views show how they are cut."""
    shown = [Panel(_scaled(original), ("original", f"{plan.height}x{plan.width} (height x width)"))]
    for view, pixels in zip(plan.views, view_pixels(plan, values, normalization), strict=True):
        cut = Image.fromarray(_cut(pixels, view.pack))
        shown.append(Panel(cut, (f"view '{view.name}', {view.canvas}", packing_text(view))))
    return shown


def draw_panels(shown: Sequence[Panel], title: str) -> Image.Image:
    """Return all panels side by side under a title."""
    font, small = ImageFont.load_default(20), ImageFont.load_default(14)
    line = 20
    top = _MARGIN + 36 + line * max(len(panel.caption) for panel in shown) + 8
    widths = [max(panel.picture.width, *(_text_width(text, small) for text in panel.caption)) for panel in shown]
    width = max(sum(widths) + _MARGIN * (len(widths) + 1), _text_width(title, font) + 2 * _MARGIN)
    sheet = Image.new("RGB", (width, top + max(panel.picture.height for panel in shown) + _MARGIN), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, _MARGIN - 6), title, _INK, font)
    left = _MARGIN
    for panel, wide in zip(shown, widths, strict=True):
        for number, text in enumerate(panel.caption):
            draw.text((left, _MARGIN + 36 + number * line), text, _INK, small)
        sheet.paste(panel.picture, (left, top))
        left += wide + _MARGIN
    return sheet


def packing_text(view: View) -> str:
    """Return in words how a view's canvas is cut."""
    pack, canvas = view.pack, view.canvas
    if pack.kind == "planar":
        return "not cut"
    cells = f"{canvas.height // pack.block}x{canvas.width // pack.block}"
    if pack.kind == "tiles":
        return f"{'one tile' if cells == '1x1' else f'{cells} tiles'} of {pack.block}x{pack.block}"
    text = f"{cells} patches of {pack.block}x{pack.block}"
    return f"{text}, merged {pack.merge}x{pack.merge}" if pack.merge > 1 else text


def _unpacked(flat: npt.NDArray[np.generic], canvas: Size, pack: Pack) -> npt.NDArray[np.generic]:
    """Return (height, width, 3) from the elements of a view, in the order in which they lie in the tensor."""
    if pack.kind == "planar":
        return flat.reshape(3, *canvas).transpose(1, 2, 0)
    block, merge = pack.block, pack.merge
    rows, columns = canvas.height // (block * merge), canvas.width // (block * merge)
    cells = flat.reshape(rows, columns, merge, merge, 3, pack.temporal, block, block)[:, :, :, :, :, 0]
    return cells.transpose(0, 2, 5, 1, 3, 6, 4).reshape(*canvas, 3)


def _bytes(values: npt.NDArray[np.generic], normalization: Normalization) -> Picture:
    if values.dtype == np.uint8:
        return np.ascontiguousarray(values, np.uint8)
    levels = values.astype(np.float64)
    if normalization.normalize:
        levels = levels * np.array(normalization.std) + np.array(normalization.mean)
    if normalization.rescale:
        levels = levels / normalization.factor
    return np.rint(np.clip(levels, 0, 255)).astype(np.uint8)


def _cut(pixels: Picture, pack: Pack) -> Picture:
    """Return a canvas with tiles apart, or with thin lines on the boundaries of merge blocks."""
    if pack.kind == "planar":
        return pixels
    if pack.kind == "tiles":
        return _apart(pixels, pack.block)
    lined = pixels.copy()
    side = pack.block * pack.merge
    for line in (lined[side::side], lined[:, side::side]):
        line[:] = (line.astype(np.uint16) + np.array(_LINE, np.uint16)) // 2
    return lined


def _apart(pixels: Picture, block: int) -> Picture:
    rows, columns = pixels.shape[0] // block, pixels.shape[1] // block
    pitch = block + _GAP
    sheet = np.full((rows * pitch - _GAP, columns * pitch - _GAP, 3), _PAPER, np.uint8)
    for row in range(rows):
        for column in range(columns):
            tile = pixels[row * block : (row + 1) * block, column * block : (column + 1) * block]
            sheet[row * pitch : row * pitch + block, column * pitch : column * pitch + block] = tile
    return sheet


def _scaled(original: Image.Image) -> Image.Image:
    """Return the original at a height that suits a screen."""
    least, greatest = _ORIGINAL_HEIGHT
    height = min(max(original.height, least), greatest)
    width = max(1, round(original.width * height / original.height))
    return original.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)


def _text_width(text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> int:
    return int(font.getlength(text)) + 1
