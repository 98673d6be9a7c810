"""Ops: what each step of a spec does to a view while it is drafted."""

from collections.abc import Callable
from typing import Any

from foveal.errors import ImageSizeError
from foveal.plan import sizes
from foveal.spec import steps
from foveal.types import Box, Color, Filter, Method, Size

__all__ = ["OPS", "Draft"]


class Draft:
    """A view while its steps are applied.

    Attributes
    ----------
    window : Box
        What is read; grows over the edges where an image is padded before it is resized.
    on_its_side : bool
        Whether the reference transposes the image before it resizes it.
    """

    def __init__(self, window: Box) -> None:
        self.window = window
        self.border: Color = (0, 0, 0)
        self.resized = Size(window.height, window.width)
        self.is_resized = False
        self.filter: Filter = "bilinear"
        self.method: Method = "antialias"
        self.on_its_side = False
        self.place: tuple[int, int] = (0, 0)
        self.fill: Color = (0, 0, 0)
        self._crop: Box | None = None
        self._canvas: Size | None = None

    @property
    def crop(self) -> Box:
        """The part of the resized window that is kept."""
        return self._crop or Box(0, 0, *self.resized)

    @property
    def canvas(self) -> Size:
        """The picture as it stands."""
        return self._canvas or Size(self.crop.height, self.crop.width)

    def resize(self, size: Size, filter: Filter, method: Method = "antialias") -> None:
        """Resize the whole window; the schema admits this once, and before anything is kept or put on a canvas."""
        self.resized, self.filter, self.method, self.is_resized = size, filter, method, True

    def keep(self, box: Box) -> None:
        """Keep a part of the picture."""
        self._crop = box

    def put(self, canvas: Size, place: tuple[int, int], fill: Color) -> None:
        """Put the picture on a canvas, which holds all of it."""
        if self.canvas.height > canvas.height or self.canvas.width > canvas.width:
            raise ImageSizeError(f"becomes {self.canvas}, more than its canvas of {canvas} can hold")
        self._canvas, self.place, self.fill = canvas, place, fill

    def pad(self, canvas: Size, place: tuple[int, int], fill: Color) -> None:
        """Put the picture on a canvas; an image that is not resized yet, by reading beyond its edges."""
        if canvas == self.canvas:
            return
        if self.is_resized or self._canvas:
            self.put(canvas, place, fill)
            return
        self.window = Box(self.window.top - place[0], self.window.left - place[1], *canvas)
        self.border, self.resized = fill, canvas


def _smart_resize(step: steps.SmartResize, draft: Draft, _: Size) -> None:
    if step.enabled:
        size = sizes.smart_resize(
            *draft.resized,
            factor=step.patch * step.merge,
            min_pixels=step.min_pixels,
            max_pixels=step.max_pixels,
            max_aspect=step.max_aspect,
            frames=step.frames,
            grow_short_side=step.grow_short_side,
        )
        draft.resize(size, step.filter)


def _resize(step: steps.Resize, draft: Draft, _: Size) -> None:
    if step.enabled:
        size = step.size
        fixed = Size(size.height, size.width) if size.height and size.width else None
        resized = sizes.resize(*draft.resized, shortest_edge=size.shortest_edge, size=fixed)
        draft.resize(resized, step.filter, step.method)


def _resize_bounded_edge(step: steps.ResizeBoundedEdge, draft: Draft, _: Size) -> None:
    if step.enabled:
        bound = Size(step.bound.height, step.bound.width)
        size = sizes.resize_bounded_edge(*draft.resized, bound=bound, patch=step.patch * step.merge)
        draft.resize(size, step.filter)


def _resize_longest_edge(step: steps.ResizeLongestEdge, draft: Draft, _: Size) -> None:
    if step.enabled:
        draft.resize(sizes.resize_longest_edge(*draft.resized, edge=step.edge, cap=step.cap), step.filter)


def _resize_to_multiple(step: steps.ResizeToMultiple, draft: Draft, _: Size) -> None:
    size = sizes.resize_to_multiple(*draft.resized, of=step.of) if step.enabled else Size(step.of, step.of)
    draft.resize(size, step.filter)


def _resize_longest_side(step: steps.ResizeLongestSide, draft: Draft, _: Size) -> None:
    if step.enabled:
        draft.resize(sizes.resize_longest_side(*draft.resized, side=step.side, least=step.least), step.filter)


def _navit_resize(step: steps.NavitResize, draft: Draft, _: Size) -> None:
    if step.enabled:
        limits = {"patch": step.patch, "max_patches": step.max_patches, "max_side": step.max_side}
        draft.resize(sizes.navit_resize(*draft.resized, **limits), step.filter)


def _limit_patches(step: steps.LimitPatches, draft: Draft, _: Size) -> None:
    size = sizes.limit_patches(*draft.resized, patch=step.patch, max_patches=step.max_patches)
    if not (size.height and size.width):
        raise ImageSizeError(f"would be resized to {size}")
    patches = -(-max(size) // (step.patch * step.merge)) * step.merge
    if patches >= step.max_side:
        raise ImageSizeError(f"would have {patches} patches along an edge: it must be less than {step.max_side}")
    draft.resize(size, step.filter)


def _fit_patches(step: steps.FitPatches, draft: Draft, _: Size) -> None:
    if step.enabled:
        size = sizes.fit_patches(*draft.resized, patch=step.patch, max_patches=step.max_patches)
        draft.resize(size, step.filter)


def _fit_pooled_patches(step: steps.FitPooledPatches, draft: Draft, _: Size) -> None:
    if step.enabled:
        limits = {"patch": step.patch, "pool": step.pool, "max_features": step.max_features}
        draft.resize(sizes.fit_pooled_patches(*draft.resized, **limits), step.filter)


def _resize_to_canvas(step: steps.ResizeToCanvas, draft: Draft, canvas: Size) -> None:
    limit = None if step.grow else step.grow_limit
    size = sizes.resize_to_canvas(*draft.resized, canvas=canvas, grow_limit=limit, precision=step.precision)
    draft.resize(size, step.filter)


def _fit_canvas(step: steps.FitCanvas, draft: Draft, canvas: Size) -> None:
    size = sizes.fit_canvas(*draft.resized, canvas=canvas, round_up=step.round == "up", least=step.least)
    draft.resize(size, step.filter)


def _hd_resize(step: steps.HdResize, draft: Draft, canvas: Size) -> None:
    draft.on_its_side = draft.resized.width < draft.resized.height
    draft.resize(sizes.hd_resize(*draft.resized, canvas=canvas), step.filter)


def _stretch_to_canvas(step: steps.StretchToCanvas, draft: Draft, canvas: Size) -> None:
    draft.resize(canvas, step.filter, step.method)


def _fixed_taps(step: steps.FixedTaps, draft: Draft, _: Size) -> None:
    if draft.resized.height % step.tile or draft.resized.width % step.tile:
        raise ImageSizeError(f"{draft.resized} is not made of whole tiles of {step.tile}")
    draft.resize(Size(step.tile, step.tile), "bicubic", "fixed_taps")


def _center_crop(step: steps.CenterCrop, draft: Draft, _: Size) -> None:
    """Keep the middle, or put a smaller image into the middle of black.

    Source: transformers 5.24.0, image_processing_backends.py (torchvision) and image_transforms.py (pillow).
    """
    if not step.enabled:
        return
    height, width = draft.resized
    canvas = Size(step.size.height, step.size.width)
    box = Box(
        max(height - canvas.height, 0) // 2,
        max(width - canvas.width, 0) // 2,
        min(height, canvas.height),
        min(width, canvas.width),
    )
    odd = 1 if step.odd_pad == "before" else 0
    draft.keep(box)
    draft.put(canvas, ((canvas.height - box.height + odd) // 2, (canvas.width - box.width + odd) // 2), (0, 0, 0))


def _pad_to_canvas(step: steps.PadToCanvas, draft: Draft, canvas: Size) -> None:
    draft.put(canvas, _middle(draft.canvas, canvas) if step.anchor == "center" else (0, 0), step.fill)


def _pad_to_square(step: steps.PadToSquare, draft: Draft, _: Size) -> None:
    """Pad on both sides; of an odd number of pixels the odd one goes below or to the right.

    Source: transformers 5.24.0, models/llava/image_processing_llava.py, and
    models/deepseek_vl/image_processing_deepseek_vl.py (after the resize).
    """
    if not all(0 <= level <= 255 for level in step.fill) and step.enabled:
        raise ImageSizeError(f"would be padded with the colour {list(step.fill)}: levels go from 0 to 255")
    side = max(draft.canvas)
    if step.enabled and draft.canvas != (side, side):
        if not all(0 <= level <= 255 for level in step.fill):
            raise ImageSizeError(f"would be padded with {list(step.fill)}, which is no colour")
        draft.pad(Size(side, side), _middle(draft.canvas, Size(side, side)), step.fill)


def _pad_to_multiple(step: steps.PadToMultiple, draft: Draft, _: Size) -> None:
    if step.enabled:
        side = step.patch * step.merge
        draft.put(Size(*(-(-length // side) * side for length in draft.canvas)), (0, 0), step.fill)


def _middle(size: Size, canvas: Size) -> tuple[int, int]:
    return (canvas.height - size.height) // 2, (canvas.width - size.width) // 2


OPS: dict[type, Callable[[Any, Draft, Size], None]] = {
    steps.SmartResize: _smart_resize,
    steps.Resize: _resize,
    steps.ResizeBoundedEdge: _resize_bounded_edge,
    steps.ResizeLongestEdge: _resize_longest_edge,
    steps.ResizeToMultiple: _resize_to_multiple,
    steps.ResizeLongestSide: _resize_longest_side,
    steps.NavitResize: _navit_resize,
    steps.LimitPatches: _limit_patches,
    steps.FitPatches: _fit_patches,
    steps.FitPooledPatches: _fit_pooled_patches,
    steps.ResizeToCanvas: _resize_to_canvas,
    steps.FitCanvas: _fit_canvas,
    steps.HdResize: _hd_resize,
    steps.StretchToCanvas: _stretch_to_canvas,
    steps.FixedTaps: _fixed_taps,
    steps.CenterCrop: _center_crop,
    steps.PadToCanvas: _pad_to_canvas,
    steps.PadToSquare: _pad_to_square,
    steps.PadToMultiple: _pad_to_multiple,
}
