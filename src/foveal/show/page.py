"""One sheet: the facts, the original, the canvas that is cut, and what the encoder reads, in its order."""

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw

from foveal.plan.plan import BatchPlan, Plan, View
from foveal.plan.views import normalization
from foveal.show.figures import Block, Figure, blocks_of, canvas_figure, find_cut, original_figure
from foveal.show.letters import (
    ACCENTS,
    GREY,
    HAIRLINE,
    INK,
    PAPER,
    badge,
    badge_size,
    centred,
    plain,
    text_width,
    wrapped,
    write,
)
from foveal.show.marks import GRID, fit, marked, notes, resized
from foveal.show.pixels import stage_pixels, view_pixels
from foveal.show.words import facts, strip_notes, token_side
from foveal.spec.schema import Spec
from foveal.types import Color

__all__ = ["draw"]

WIDTH = 1400
"""Of what is on the sheet, in pixels: its letters can be read where it is shown on a whole screen."""
MARGIN = 56
GAP = 32
NARROW = 300
"""Width of the column of a tall picture: lines of text still fit."""
HIGHEST = 720
"""Of a picture, and of the pictures in reading order together."""
TITLE, VALUE, HEADING, NOTE, NAME = 34, 21, 20, 16, 14

SMALLEST_BLOCK, WANTED_BLOCK, LARGEST_BLOCK = 48, 180, 336
"""Sides of the pictures in reading order: below ``WANTED_BLOCK`` only to keep them within `HIGHEST`."""
BLOCK_GAP = 14
BLOCK_HEAD = 26
PATCH_SIDE = 56
"""About the side of a patch that is drawn large."""


def draw(spec: Spec, batch: BatchPlan, tensors: Mapping[str, Any], original: Image.Image, name: str) -> Image.Image:
    """Return a sheet that shows what a model sees of an image.

    Parameters
    ----------
    spec : Spec
    batch : BatchPlan
        Of this image alone.
    tensors : mapping of ndarray
        The result of the call; the pictures are rebuilt from its primary tensor.
    original : PIL.Image.Image
        Upright, of the plan's size.
    name : str
        Of the image.
    """
    (plan,) = batch.plans
    pixels = view_pixels(plan, tensors[batch.primary], normalization(spec))
    canvases = [Image.fromarray(picture) for picture in pixels]
    blocks = blocks_of(plan, canvases)
    cut = find_cut(spec, plan)
    shown = [original_figure(plan, _opaque(original), blocks)]
    if cut in plan.stages:
        shown.append(canvas_figure(spec, plan, cut, Image.fromarray(stage_pixels(plan, cut, pixels)), blocks))
    elif cut or len(blocks) == 1:
        view = cut or plan.views[0]
        shown.append(canvas_figure(spec, plan, view, canvases[plan.views.index(view)], blocks))
    head = _header(f"{spec.name} sees {plain(name)}", facts(spec, batch, tensors, cut))
    return _framed(_stacked([head, *_body(spec, plan, shown, blocks, cut)], GAP))


def _opaque(image: Image.Image) -> Image.Image:
    """Return an image as RGB, over white where it is transparent."""
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), layer).convert("RGB")


# ---- what stands where


def _body(spec: Spec, plan: Plan, shown: list[Figure], blocks: list[Block], cut: View | None) -> list[Image.Image]:
    """Return the parts below the header: figures, and beside or below them what the encoder reads."""
    widths = [_column(figure.picture) for figure in shown]
    used = sum(widths) + GAP * (len(widths) - 1)
    parts = [_row(shown, widths)] if used <= WIDTH else [_row([figure], [WIDTH]) for figure in shown]
    rest = WIDTH - used - GAP
    beside = rest >= WIDTH // 3
    room = rest if beside else WIDTH
    if len(blocks) > 1:
        last = _strip(plan, blocks, room)
    elif cut:
        last = _close_up(spec, cut, blocks[0].picture, room)
    else:
        return parts
    return [_beside([*parts, last], GAP)] if beside else [*parts, last]


def _column(picture: Image.Image) -> int:
    """Return the width of the column of a picture: narrow, half or all of the sheet."""
    half = (WIDTH - GAP) // 2
    if picture.width > 2 * picture.height and picture.width > half:
        return WIDTH
    return NARROW if picture.width * fit(picture, half, HIGHEST) < NARROW else half


def _row(shown: Sequence[Figure], widths: Sequence[int]) -> Image.Image:
    """Return figures side by side, their pictures in line."""
    scales = [fit(figure.picture, width - 2, HIGHEST) for figure, width in zip(shown, widths, strict=True)]
    captions = [
        _caption(figure.title, notes(figure, scale), width)
        for figure, width, scale in zip(shown, widths, scales, strict=True)
    ]
    high = max(caption.height for caption in captions)
    columns = [
        _stacked([_padded(caption, width, high), _bordered(marked(figure, scale))], 0)
        for figure, width, scale, caption in zip(shown, widths, scales, captions, strict=True)
    ]
    return _beside(columns, GAP)


def _strip(plan: Plan, blocks: Sequence[Block], width: int) -> Image.Image:
    """Return the pictures that the encoder reads, in order."""
    title = f"what the encoder reads: {len(blocks)} pictures, in this order"
    side, across = _arranged(len(blocks), width)
    cards = [_card(block, side) for block in blocks]
    rows = [_beside(cards[start : start + across], BLOCK_GAP) for start in range(0, len(cards), across)]
    return _stacked([_caption(title, strip_notes(plan), width), _stacked(rows, BLOCK_GAP)], 0)


def _arranged(count: int, width: int) -> tuple[int, int]:
    """Return the side of pictures and how many stand in a row: the fewest rows in which they are not too small."""
    best = (SMALLEST_BLOCK, (width + BLOCK_GAP) // (SMALLEST_BLOCK + BLOCK_GAP))
    for rows in range(1, count + 1):
        across = -(-count // rows)
        side = min((width + BLOCK_GAP) // across - BLOCK_GAP, LARGEST_BLOCK)
        if rows * (side + BLOCK_HEAD + BLOCK_GAP) <= HIGHEST:
            best = max(best, (side, across))
        if best[0] >= WANTED_BLOCK:
            break
    return best


def _card(block: Block, side: int) -> Image.Image:
    """Return one picture with its number and its name above it."""
    picture = _bordered(resized(block.picture, (side - 2) / max(block.picture.size)))
    sheet = Image.new("RGB", (side, picture.height + BLOCK_HEAD), PAPER)
    badge(sheet, 0, 0, str(block.number), ACCENTS[block.group % len(ACCENTS)])
    left = badge_size(str(block.number))[0] + 8
    if text_width(block.name, NAME) <= side - left:
        write(ImageDraw.Draw(sheet), left, 3, block.name, NAME, GREY)
    sheet.paste(picture, (0, BLOCK_HEAD))
    return sheet


def _close_up(spec: Spec, view: View, canvas: Image.Image, width: int) -> Image.Image:
    """Return the top left of a canvas that is cut into patches, with their numbers."""
    block = view.pack.block
    cell = (token_side(spec) or block * view.pack.merge) // block
    side = PATCH_SIDE // block * block or PATCH_SIDE
    across, down = (width - 2) // side, HIGHEST // side
    rows = min(2 * cell, down, view.canvas.height // block)
    columns = min(across // cell * cell or across, view.canvas.width // block)
    part = resized(canvas.crop((0, 0, columns * block, rows * block)), side / block)
    draw = ImageDraw.Draw(part)
    for step, thickness, color in ((1, 1, HAIRLINE), (cell, 3 if cell > 1 else 1, GRID)):
        for column in range(step, columns, step):
            draw.line((column * side, 0, column * side, part.height), color, thickness)
        for row in range(step, rows, step):
            draw.line((0, row * side, part.width, row * side), color, thickness)
    for row in range(rows):
        for column in range(columns):
            middle = ((column + 0.5) * side, (row + 0.5) * side)
            centred(draw, middle, str(_patch_number(view, row, column)), HEADING - 3, INK)
    said = ["top left corner; the numbers are those of the patches in the tensor"]
    if cell > 1:
        said.append(f"in a yellow frame: {cell}x{cell} patches, one {'token' if token_side(spec) else 'merge block'}")
    return _stacked([_caption("close-up: the order of the patches", said, width), _bordered(part)], 0)


def _patch_number(view: View, row: int, column: int) -> int:
    merge, across = view.pack.merge, view.canvas.width // view.pack.block
    block = row // merge * (across // merge) + column // merge
    return block * merge**2 + row % merge * merge + column % merge


# ---- text


def _header(title: str, pairs: Sequence[tuple[str, str]]) -> Image.Image:
    """Return the title and the facts, as many beside each other as fit."""
    high = NOTE + VALUE + 28
    places, left, row = [], 0, 0
    for label, value in pairs:
        wide = max(text_width(label, NOTE), text_width(value, VALUE))
        if left and left + wide > WIDTH:
            left, row = 0, row + 1
        places.append((left, TITLE + 26 + row * high))
        left += wide + 40
    bottom = TITLE + 26 + (row + 1) * high - 4
    sheet = Image.new("RGB", (WIDTH, bottom + 1), PAPER)
    draw = ImageDraw.Draw(sheet)
    write(draw, 0, 0, title, min(TITLE, TITLE * WIDTH // text_width(title, TITLE)), bold=True)
    for (label, value), (left, top) in zip(pairs, places, strict=True):
        write(draw, left, top, label, NOTE, GREY)
        write(draw, left, top + NOTE + 6, value, VALUE)
    draw.line((0, bottom, WIDTH, bottom), HAIRLINE, 1)
    return sheet


def _caption(title: str, said: Sequence[str], width: int) -> Image.Image:
    lines = [(line, HEADING, INK) for line in wrapped(title, HEADING, width)]
    lines += [(line, NOTE, GREY) for note in said for line in wrapped(note, NOTE, width)]
    height = sum(_line_height(size) for _, size, _ in lines) + 10
    sheet = Image.new("RGB", (width, height), PAPER)
    draw, top = ImageDraw.Draw(sheet), 0
    for line, size, color in lines:
        write(draw, 0, top, line, size, color, bold=size == HEADING)
        top += _line_height(size)
    return sheet


def _line_height(size: int) -> int:
    return round(1.38 * size)


# ---- putting together


def _bordered(picture: Image.Image, color: Color = HAIRLINE) -> Image.Image:
    """Return a picture with a thin line around it, so that white padding is seen."""
    sheet = Image.new("RGB", (picture.width + 2, picture.height + 2), color)
    sheet.paste(picture, (1, 1))
    return sheet


def _padded(part: Image.Image, width: int, height: int) -> Image.Image:
    sheet = Image.new("RGB", (width, height), PAPER)
    sheet.paste(part, (0, 0))
    return sheet


def _stacked(parts: Sequence[Image.Image], gap: int) -> Image.Image:
    height = sum(part.height for part in parts) + gap * (len(parts) - 1)
    sheet = Image.new("RGB", (max(part.width for part in parts), height), PAPER)
    top = 0
    for part in parts:
        sheet.paste(part, (0, top))
        top += part.height + gap
    return sheet


def _beside(parts: Sequence[Image.Image], gap: int) -> Image.Image:
    width = sum(part.width for part in parts) + gap * (len(parts) - 1)
    sheet = Image.new("RGB", (width, max(part.height for part in parts)), PAPER)
    left = 0
    for part in parts:
        sheet.paste(part, (left, 0))
        left += part.width + gap
    return sheet


def _framed(part: Image.Image) -> Image.Image:
    sheet = Image.new("RGB", (WIDTH + 2 * MARGIN, part.height + 2 * MARGIN), PAPER)
    sheet.paste(part, (MARGIN, MARGIN))
    return sheet
