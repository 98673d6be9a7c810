"""What is said about a plan: how a view is made and cut, and the facts at the top of a sheet."""

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from foveal.plan.plan import BatchPlan, Plan, View
from foveal.spec.schema import PatchPack, Spec
from foveal.spec.tokens import Fixed, MergedPatches, PerTile
from foveal.types import Box, Color, Size

__all__ = [
    "block_count",
    "facts",
    "made_text",
    "numbers_text",
    "packing_text",
    "padding_text",
    "strip_notes",
    "token_side",
]

MOST_NUMBERS = 4
"""A tensor of more numbers is shown by its shape; one of fewer is a size, a grid or a count."""


def packing_text(view: View) -> str:
    """Return in words how a view's canvas is cut."""
    pack, canvas = view.pack, view.canvas
    if pack.kind in ("planar", "pixels"):
        return "not cut"
    cells = f"{canvas.height // pack.block}x{canvas.width // pack.block}"
    if pack.kind == "tiles":
        return f"{'one tile' if cells == '1x1' else f'{cells} tiles'} of {pack.block}x{pack.block}"
    text = f"{cells} patches of {pack.block}x{pack.block}"
    return f"{text}, merged {pack.merge}x{pack.merge}" if pack.merge > 1 else text


def made_text(plan: Plan, view: View) -> str:
    """Return in words how a view or a stage is made from the original."""
    own = _own_text(plan, view)
    if view.reads == "image":
        return own
    before = made_text(plan, _stage(plan, view.reads))
    return f"{before}; then {own}" if own else before


def strip_notes(plan: Plan) -> list[str]:
    """Return in words how each view is made from what it reads; those that are made alike are named together."""
    texts = [
        _own_text(plan, view)
        if view.reads == "image"
        else f"from '{view.reads}', {_own_text(plan, view) or 'as it is'}"
        for view in plan.views
    ]
    notes = []
    for text, group in groupby(zip(plan.views, texts, strict=True), key=itemgetter(1)):
        names = [view.name for view, _ in group]
        notes.append(f"{(' to ' if len(names) > 2 else ' and ').join(dict.fromkeys((names[0], names[-1])))}: {text}")
    return notes


def _own_text(plan: Plan, view: View) -> str:
    """Return what happens to what a view reads; nothing if a stage is taken as it is."""
    read, window = _read_size(plan, view), Size(view.window.height, view.window.width)
    crop, resized = view.crop, view.resized
    parts = []
    if _reaches_over(view.window, read):
        parts.append(f"padded to {window} with {_color_text(view.border)}")
    elif window != read:
        parts.append(f"a part of {window}")
    if resized != window:
        parts.append(f"resized to {resized}, {view.filter}")
    elif view.reads == "image":
        parts.append("not resized")
    if (crop.height, crop.width) != resized:
        parts.append(f"{_kept_text(view)} kept")
    if (crop.height, crop.width) != view.canvas:
        top, left = view.place
        parts.append(f"at {top},{left} on a canvas of {view.canvas} ({_color_text(view.fill)})")
    return ", ".join(parts)


def padding_text(plan: Plan, view: View) -> str:
    """Return the colour of the padding that a view or stage adds, or nothing."""
    if _reaches_over(view.window, _read_size(plan, view)):
        return _color_text(view.border)
    return _color_text(view.fill) if (view.crop.height, view.crop.width) != view.canvas else ""


def facts(spec: Spec, batch: BatchPlan, tensors: Mapping[str, Any], cut: View | None) -> list[tuple[str, str]]:
    """Return what a sheet says at its top, as pairs of a label and a value.

    Parameters
    ----------
    spec : Spec
    batch : BatchPlan
        Of one image.
    tensors : mapping of ndarray
        The result of the call.
    cut : View, optional
        The view or stage that is cut into tiles or patches.
    """
    (plan,) = batch.plans
    main = cut or plan.views[0]
    found = [("original, height x width", str(Size(plan.height, plan.width))), ("resized to", str(main.resized))]
    if main.canvas != main.resized:
        found.append(("canvas", str(main.canvas)))
    found.append(("read as", _read_as(plan)))
    if spec.tokens is not None:
        found.append(("image tokens", _tokens_text(spec, plan)))
    found.append(("reference", spec.reference))
    found.append((batch.primary, f"{shape_text(tensors[batch.primary].shape)} {tensors[batch.primary].dtype}"))
    room, used = tensors[batch.primary].size // (plan.elements // plan.shape[0]), plan.shape[0]
    if room > used:
        found.append(("zero padding", f"{room - used} of {room} {'tiles' if len(plan.shape) == 4 else 'rows'}"))
    return found + [(name, numbers_text(tensor)) for name, tensor in tensors.items() if name != batch.primary]


def numbers_text(tensor: Any) -> str:
    """Return the numbers of a tensor that has few, else its shape and dtype."""
    if tensor.size <= MOST_NUMBERS:
        between = "x" if tensor.size < MOST_NUMBERS else ", "
        return between.join(map(str, tensor.reshape(-1).tolist()))
    return f"{shape_text(tensor.shape)} {tensor.dtype}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a tensor's shape as NumPy prints it."""
    return str(tuple(map(int, shape)))


def block_count(view: View) -> int:
    """Return the number of pictures that the encoder reads of a view: its tiles, or the whole."""
    if view.pack.kind != "tiles":
        return 1
    return (view.canvas.height // view.pack.block) * (view.canvas.width // view.pack.block)


def token_side(spec: Spec) -> int:
    """Return the side of the block of pixels that becomes one token, where tokens are counted so; else 0."""
    rule = spec.tokens.features if spec.tokens else None
    if isinstance(rule, PerTile) and isinstance(spec.image.pack, PatchPack):
        return rule.patch * rule.pool
    return rule.patch * rule.merge if isinstance(rule, MergedPatches) else 0


def _tokens_text(spec: Spec, plan: Plan) -> str:
    count = sum(map(block_count, plan.views))
    each = spec.tokens is not None and isinstance(spec.tokens.features, PerTile | Fixed) and count > 1
    return f"{plan.features} ({plan.features // count} each)" if each else str(plan.features)


def _read_as(plan: Plan) -> str:
    """Return the pictures that the encoder reads, views of one kind counted together."""
    parts: dict[str, int] = {}
    for view in plan.views:
        text = f"of {view.canvas}" if view.pack.kind == "planar" else packing_text(view)
        parts[text] = parts.get(text, 0) + 1
    return " + ".join(_counted(text, count) for text, count in parts.items())


def _counted(text: str, count: int) -> str:
    if text.startswith("of "):
        return f"{'one picture' if count == 1 else f'{count} pictures'} {text}"
    return text if count == 1 else f"{count} pictures, each {text}"


def _kept_text(view: View) -> str:
    crop, resized = view.crop, view.resized
    middle = abs(2 * crop.top + crop.height - resized.height) < 2 > abs(2 * crop.left + crop.width - resized.width)
    size = Size(crop.height, crop.width)
    return f"the middle {size}" if middle else f"{size} at {crop.top},{crop.left}"


def _color_text(color: Color) -> str:
    named = {(0, 0, 0): "black", (255, 255, 255): "white"}
    return named.get(color, "rgb({}, {}, {})".format(*color))


def _reaches_over(window: Box, read: Size) -> bool:
    below, beyond = window.top + window.height, window.left + window.width
    return min(window.top, window.left) < 0 or below > read.height or beyond > read.width


def _read_size(plan: Plan, view: View) -> Size:
    return Size(plan.height, plan.width) if view.reads == "image" else _stage(plan, view.reads).canvas


def _stage(plan: Plan, name: str) -> View:
    return next(stage for stage in plan.stages if stage.name == name)
