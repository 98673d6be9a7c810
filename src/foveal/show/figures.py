"""What a sheet shows, as values: pictures, and what is marked on them in their own pixels."""

from typing import NamedTuple

from PIL import Image

from foveal.plan.boxes import Edges, filled_part, shown_part
from foveal.plan.plan import Plan, View
from foveal.show.words import block_count, made_text, packing_text, padding_text, token_side
from foveal.spec.schema import Spec
from foveal.types import Box, Size

__all__ = ["Block", "Figure", "Outline", "blocks_of", "canvas_figure", "find_cut", "original_figure"]


class Outline(NamedTuple):
    """A part of a picture; ``group`` differs where parts overlap."""

    edges: Edges
    label: str
    group: int = 0


class Figure(NamedTuple):
    """A picture and its marks.

    Attributes
    ----------
    title : str
    notes : tuple of str
    picture : PIL.Image.Image
    outlines : tuple of Outline
    outlined : str
        What is outlined.
    seen : tuple of Edges
        Parts outside of which the picture is faded, because no view shows it; none if all is seen.
    filled : Edges, optional
        The part outside of which there is padding.
    cell : int
        Side of the cells of a grid; 0 for none.
    unit : str
        What a cell is.
    """

    title: str
    notes: tuple[str, ...]
    picture: Image.Image
    outlines: tuple[Outline, ...] = ()
    outlined: str = ""
    seen: tuple[Edges, ...] = ()
    filled: Edges | None = None
    cell: int = 0
    unit: str = ""


class Block(NamedTuple):
    """One picture that the encoder reads as a whole: a tile, or a view that is not cut into tiles.

    Attributes
    ----------
    number : int
    name : str
    view : View
    edges : Edges
        On the canvas of its view.
    picture : PIL.Image.Image
    group : int
        Differs between blocks that may overlap: crops of one stage.
    """

    number: int
    name: str
    view: View
    edges: Edges
    picture: Image.Image
    group: int = 0


def blocks_of(plan: Plan, canvases: list[Image.Image]) -> list[Block]:
    """Return what the encoder reads, in its order; ``canvases`` are those of the views."""
    blocks: list[Block] = []
    for number, (view, canvas) in enumerate(zip(plan.views, canvases, strict=True)):
        overlapping = _is_part(view) and len(_windows(plan, view.reads)) > 1
        for name, edges in _parts(view):
            picture = canvas.crop((int(edges.left), int(edges.top), int(edges.right), int(edges.bottom)))
            blocks.append(Block(len(blocks), name, view, edges, picture, number if overlapping else 0))
    return blocks


def find_cut(spec: Spec, plan: Plan) -> View | None:
    """Return the view or stage that is cut into several tiles, crops or patches."""
    name = spec.image.grid or plan.views[0].name
    for stage in plan.stages:
        if stage.name == name:
            tiles = max((block_count(view) for view in plan.views if _keeps(view, stage)), default=0)
            return stage if tiles > 1 or len(_windows(plan, name)) > 1 else None
    for view in plan.views:
        if view.name == name and view.pack.kind != "planar":
            several = len(plan.views) == 1 if view.pack.kind != "tiles" else block_count(view) > 1
            return view if several else None
    return None


def original_figure(plan: Plan, original: Image.Image, blocks: list[Block]) -> Figure:
    """Return the original, with outlines of the parts that are tiles or crops; what no view shows is faded."""
    whole = Edges(0.0, 0.0, float(plan.height), float(plan.width))
    outlines = []
    for block in blocks:
        part = _common(plan.to_original(plan.views.index(block.view), block.edges), shown_part(plan, block.view))
        if part and part != whole:
            outlines.append(Outline(part, str(block.number) if len(blocks) > 1 else "", block.group))
    seen = tuple(dict.fromkeys(shown_part(plan, view) for view in plan.views))
    notes = [f"{Size(plan.height, plan.width)}, height x width"]
    if whole not in seen:
        notes.append("faded: what the model does not see")
    return Figure(
        "original",
        tuple(notes),
        original,
        tuple(outlines),
        _outlined_text(blocks),
        seen=() if whole in seen else seen,
    )


def canvas_figure(spec: Spec, plan: Plan, view: View, canvas: Image.Image, blocks: list[Block]) -> Figure:
    """Return the canvas of a view or stage, with the tiles, crops or patches into which it is cut.

    Parameters
    ----------
    spec : Spec
    plan : Plan
    view : View
        The view or stage that is cut, or the only view.
    canvas : PIL.Image.Image
    blocks : list of Block
    """
    outlines = [
        Outline(_moved(block, view), str(block.number), block.group)
        for block in blocks
        if block.view == view or _keeps(block.view, view)
    ]
    several = len(outlines) > 1
    cell = 0 if several or view.pack.kind == "tiles" else token_side(spec) or view.pack.block * view.pack.merge
    notes = [made_text(plan, view)]
    filled = filled_part(plan, view)
    padded = filled != (0, 0, *view.canvas)
    if padded:
        notes.append(f"hatched: padding, {padding_text(plan, view) or 'of an earlier step'}")
    return Figure(
        _cut_text(view, blocks) if several or (cell and view.pack.block) else "what the encoder reads",
        tuple(notes),
        canvas,
        tuple(outlines) if several else (),
        _outlined_text(blocks),
        filled=filled if padded else None,
        cell=cell,
        unit="token" if token_side(spec) else "block of patches" if view.pack.merge > 1 else "patch",
    )


def _cut_text(cut: View, blocks: list[Block]) -> str:
    """Return into what a view or a stage is cut."""
    if cut.pack.kind != "pixels":
        return f"cut into {packing_text(cut)}"
    parts = [block for block in blocks if _keeps(block.view, cut)]
    if parts[0].view.pack.kind == "tiles":
        return f"{cut.name}, cut into {packing_text(parts[0].view)}"
    return f"{cut.name}, cut into {len(parts)} overlapping crops of {parts[0].view.canvas}"


def _outlined_text(blocks: list[Block]) -> str:
    return "the part that is kept" if len(blocks) == 1 else "what is read, by number"


def _parts(view: View) -> list[tuple[str, Edges]]:
    """Return names and edges of the tiles of a view, or of all of it."""
    if block_count(view) == 1:
        return [(view.name, Edges(0, 0, *view.canvas))]
    side, (height, width) = view.pack.block, view.canvas
    return [
        (f"row {top // side}, column {left // side}", Edges(top, left, top + side, left + side))
        for top in range(0, height, side)
        for left in range(0, width, side)
    ]


def _keeps(view: View, stage: View) -> bool:
    """Whether a view takes a stage, or a part of it, as it is."""
    return view.reads == stage.name and _is_part(view)


def _is_part(view: View) -> bool:
    """Whether a view is a part of what it reads, as it is."""
    return view.canvas == view.resized == (view.window.height, view.window.width)


def _windows(plan: Plan, name: str) -> set[Box]:
    """Return the parts of a stage that views take as they are; none of the image."""
    return {view.window for view in plan.views if view.reads == name != "image" and _is_part(view)}


def _moved(block: Block, cut: View) -> Edges:
    """Return the edges of a block on the canvas of what is cut."""
    if block.view == cut:
        return block.edges
    top, left, *_ = block.view.window
    return Edges(block.edges.top + top, block.edges.left + left, block.edges.bottom + top, block.edges.right + left)


def _common(first: Edges, second: Edges) -> Edges | None:
    """Return what two boxes have in common."""
    top, left = max(first.top, second.top), max(first.left, second.left)
    bottom, right = min(first.bottom, second.bottom), min(first.right, second.right)
    return Edges(top, left, bottom, right) if top < bottom and left < right else None
