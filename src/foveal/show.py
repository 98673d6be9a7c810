"""Pictures of what an encoder reads, rebuilt from the tensors: packing and normalization undone."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from foveal.plan.plan import Normalization, Pack, Plan, View
from foveal.types import Size

__all__ = ["Panel", "draw_panels", "packing_text", "panels", "view_pixels"]

Picture = npt.NDArray[np.uint8]
Font = ImageFont.ImageFont | ImageFont.FreeTypeFont

_GAP = 8
_MARGIN = 24
_PAPER = (255, 255, 255)
_INK = (40, 40, 40)
_YELLOW = (255, 214, 10)

_WIDEST, _HIGHEST = 1100, 800
"""What a picture is scaled down to, so that a sheet can be read on a screen."""
_LEAST = 240
"""Longer side, in pixels, below which a picture is too small to look at."""
_ROW_WIDTH = 1600
"""Pictures stand side by side as long as they are not wider in all."""
_FINEST_CELL = 5
"""Side of a cell, in pixels of the sheet, below which a grid would hide the picture."""


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
    """Return the original and every view, each with what was done to it; views show how they are cut.

    All have one scale, unless one of them would be too small to look at; a caption says any scale but 1.

    Parameters
    ----------
    plan, values, normalization
        As for `view_pixels`.
    original : PIL.Image.Image
        Of the plan's size.
    """
    canvases = [Image.fromarray(pixels) for pixels in view_pixels(plan, values, normalization)]
    pictures = [_opaque(original), *canvases]
    (first, *others) = zip(pictures, _scales([picture.size for picture in pictures]), strict=True)
    shown = [_original_panel(plan, *first)]
    for view, (picture, scale) in zip(plan.views, others, strict=True):
        shown.append(_view_panel(plan, view, picture, scale))
    return shown


def draw_panels(shown: Sequence[Panel], title: str) -> Image.Image:
    """Return all panels on one sheet under a title: side by side, or below each other where they are wide.

    Parameters
    ----------
    shown : sequence of Panel
    title : str
    """
    rows = _rows(shown)
    widest = max(sum(panel.picture.width for panel in row) for row in rows)
    font, small = ImageFont.load_default(_letters(widest) * 1.3), ImageFont.load_default(_letters(widest))
    line, heading = round(1.4 * _letters(widest)), round(2.2 * _letters(widest))
    widths = [[_panel_width(panel, small) for panel in row] for row in rows]
    heights = [_row_height(row, line) for row in rows]
    width = max(_text_width(title, font), *(sum(row) + _MARGIN * (len(row) - 1) for row in widths)) + 2 * _MARGIN
    sheet = Image.new("RGB", (width, 2 * _MARGIN + heading + sum(heights) + _MARGIN * (len(rows) - 1)), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, _MARGIN), title, _INK, font)
    top = _MARGIN + heading
    for row, wide, high in zip(rows, widths, heights, strict=True):
        pictures_top = top + high - max(panel.picture.height for panel in row)
        left = _MARGIN
        for panel, step in zip(row, wide, strict=True):
            for number, text in enumerate(panel.caption):
                draw.text((left, top + number * line), text, _INK, small)
            sheet.paste(panel.picture, (left, pictures_top))
            left += step + _MARGIN
        top += high + _MARGIN
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


# ---- from a tensor to pictures


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


# ---- panels


def _original_panel(plan: Plan, picture: Image.Image, scale: float) -> Panel:
    drawn = _scaled(picture, scale)
    caption = [f"original, {Size(plan.height, plan.width)} (height x width){_scale_text(scale)}"]
    if any(_window(view) != view.resized for view in plan.views):
        caption.append("yellow: the part that is kept")
    for view in plan.views:
        if _window(view) != view.resized:
            _outline(drawn, view)
    return Panel(drawn, tuple(caption))


def _view_panel(plan: Plan, view: View, picture: Image.Image, scale: float) -> Panel:
    caption = [f"view '{view.name}', {view.canvas}: {packing_text(view)}", _made_text(plan, view) + _scale_text(scale)]
    drawn = _scaled(picture, scale)
    padding = _padding_text(view)
    if view.pack.kind == "planar":
        return Panel(drawn, (*caption, *filter(None, [padding])))
    if view.pack.kind == "tiles":
        gaps = "white gaps only separate tiles" if view.canvas != (view.pack.block, view.pack.block) else ""
        notes = "; ".join(filter(None, [padding, gaps]))
        return Panel(_apart(drawn, view), (*caption, *filter(None, [notes])))
    side = view.pack.block * view.pack.merge
    what = "token" if plan.features == view.canvas.height * view.canvas.width // side**2 else "block of patches"
    if side * scale < _FINEST_CELL:
        return Panel(drawn, (*caption, f"{side}x{side} pixels are one {what}: cells too small to be drawn"))
    return Panel(_lined(drawn, view, side), (*caption, f"each yellow cell ({side}x{side}) is one {what}"))


def _made_text(plan: Plan, view: View) -> str:
    """Return what happened to the whole image: the resize and the window that was kept."""
    text = "not resized" if view.resized == (plan.height, plan.width) else f"resized to {view.resized}"
    window, crop, resized = _window(view), view.crop, view.resized
    if window == resized:
        return text
    middle = abs(2 * crop.top + crop.height - resized.height) < 2 > abs(2 * crop.left + crop.width - resized.width)
    return f"{text}, {f'middle {window}' if middle else f'{window} at {crop.top},{crop.left}'} kept"


def _padding_text(view: View) -> str:
    if _window(view) == view.canvas:
        return ""
    return f"{'black' if not any(view.fill) else f'colour {view.fill}'} = padding"


def _scale_text(scale: float) -> str:
    if scale == 1:
        return ""
    return f"; drawn {scale:.0f} times as large" if scale > 1 else f"; drawn at {100 * scale:.3g} % of its size"


def _outline(drawn: Image.Image, view: View) -> None:
    """Draw the window that a view keeps onto the original."""
    across, down = drawn.width / view.resized.width, drawn.height / view.resized.height
    crop = view.crop
    left, top = round(crop.left * across), round(crop.top * down)
    right, bottom = round((crop.left + crop.width) * across) - 1, round((crop.top + crop.height) * down) - 1
    box = (left, top, max(left, right), max(top, bottom))
    ImageDraw.Draw(drawn).rectangle(box, outline=_YELLOW, width=max(2, min(drawn.size) // 150))


def _lined(drawn: Image.Image, view: View, side: int) -> Image.Image:
    """Return a picture with thin lines on the boundaries of merge blocks."""
    pixels = np.asarray(drawn).copy()
    down = _edges(view.canvas.height, side, drawn.height)[1:-1]
    across = _edges(view.canvas.width, side, drawn.width)[1:-1]
    lit = np.zeros(pixels.shape[:2], bool)
    lit[down] = True
    lit[:, across] = True
    pixels[lit] = (pixels[lit].astype(np.uint16) + np.array(_YELLOW, np.uint16)) // 2
    return Image.fromarray(pixels)


def _apart(drawn: Image.Image, view: View) -> Image.Image:
    """Return a picture with its tiles apart."""
    down = list(pairwise(_edges(view.canvas.height, view.pack.block, drawn.height)))
    across = list(pairwise(_edges(view.canvas.width, view.pack.block, drawn.width)))
    size = (drawn.width + _GAP * (len(across) - 1), drawn.height + _GAP * (len(down) - 1))
    sheet = Image.new("RGB", size, _PAPER)
    for row, (top, bottom) in enumerate(down):
        for column, (left, right) in enumerate(across):
            sheet.paste(drawn.crop((left, top, right, bottom)), (left + column * _GAP, top + row * _GAP))
    return sheet


def _edges(length: int, block: int, drawn: int) -> list[int]:
    """Return where blocks of a canvas begin and end in a picture of it that has another size."""
    return [round(edge * drawn / length) for edge in range(0, length + 1, block)]


def _window(view: View) -> Size:
    return Size(view.crop.height, view.crop.width)


# ---- scales


def _scales(sizes: Sequence[tuple[int, int]]) -> list[float]:
    """Return the scale of each picture, given (width, height): one for all, unless one would be too small to see."""
    own = [min(1.0, _WIDEST / width, _HIGHEST / height) for width, height in sizes]
    common = min(own)
    if all(common * max(size) >= _LEAST for size in sizes):
        return [common] * len(sizes)
    return [scale * max(1, _LEAST // max(size)) for scale, size in zip(own, sizes, strict=True)]


def _scaled(picture: Image.Image, scale: float) -> Image.Image:
    if scale == 1:
        return picture.copy()
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS)


def _opaque(image: Image.Image) -> Image.Image:
    """Return an image as RGB, over white where it is transparent."""
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), layer).convert("RGB")


# ---- the sheet


def _rows(shown: Sequence[Panel]) -> list[list[Panel]]:
    """Return the panels in rows that are not too wide."""
    rows: list[list[Panel]] = []
    for panel in shown:
        if rows and sum(other.picture.width for other in rows[-1]) + panel.picture.width <= _ROW_WIDTH:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _letters(width: int) -> int:
    """Return the size of letters that can be read when a sheet is shown as a whole."""
    return min(max(width // 64, 14), 26)


def _panel_width(panel: Panel, font: Font) -> int:
    return max(panel.picture.width, *(_text_width(text, font) for text in panel.caption))


def _row_height(row: Sequence[Panel], line: int) -> int:
    return line * max(len(panel.caption) for panel in row) + 6 + max(panel.picture.height for panel in row)


def _text_width(text: str, font: Font) -> int:
    return int(font.getlength(text)) + 1
