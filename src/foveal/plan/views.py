"""From a spec's steps to the views of one image: what is resampled, kept, and placed where."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from foveal.errors import ImageSizeError
from foveal.plan.canvas import best_fit
from foveal.plan.plan import Normalization, Pack, View
from foveal.plan.sizes import fit_canvas, resize, smart_resize
from foveal.spec import schema
from foveal.spec.schema import Filter
from foveal.types import Box, Color, Size

MOST_PIXELS = 2**28
"""Of a resized image, of which a model may keep but a part: as bytes it would be 800 MB in the references."""

__all__ = ["make_views", "normalization", "pass_order", "shape", "tiles"]


def make_views(spec: schema.Spec, height: int, width: int) -> tuple[View, ...]:
    """Return the views of an image, in the order in which the encoder reads them.

    Raises
    ------
    ImageSizeError
        If a rule of the spec refuses the size.
    """
    pack = _pack(spec)
    views: list[View] = []
    offset = 0
    for part in spec.image.views:
        if part.when == "multi_tile" and sum(map(tiles, views)) <= 1:
            continue
        view = _view(spec, part, pack, Size(height, width), offset)
        views.append(view)
        offset += math.prod(shape(view))
    return tuple(views)


def normalization(spec: schema.Spec) -> Normalization:
    """Return the arithmetic between a canvas byte and a value; bfloat16 only where a spec's steps are both on.

    Source: transformers 5.24.0, models/llama4/image_processing_llama4.py.
    """
    given = spec.image.normalize
    compute = given.compute if given.rescale and given.normalize else "float32"
    return Normalization(given.rescale, given.factor, given.normalize, given.mean, given.std, compute)


def pass_order(reference: schema.Reference, source: Size, result: Size) -> bool:
    """Return whether the vertical pass of a resize runs before the horizontal one.

    Source: Pillow 13.0.0, src/libImaging/Resample.c; earlier Pillow and torchvision never do it.
    """
    shorter, narrower = source.height - result.height, source.width - result.width
    return reference == "pillow" and narrower != 0 and shorter > 0 and shorter > 2 * narrower


def tiles(view: View) -> int:
    """Return the number of tiles of a view; a planar view is one."""
    side = view.pack.block
    return (view.canvas.height // side) * (view.canvas.width // side) if view.pack.kind == "tiles" else 1


def shape(view: View) -> tuple[int, ...]:
    """Return the shape of a view's part of the primary tensor."""
    pack, canvas = view.pack, view.canvas
    if pack.kind == "planar":
        return (1, 3, canvas.height, canvas.width)
    if pack.kind == "tiles":
        return (tiles(view), 3, pack.block, pack.block)
    patches = (canvas.height // pack.block) * (canvas.width // pack.block)
    return (patches, 3 * pack.temporal * pack.block * pack.block)


class _Draft:
    """A view while its steps are applied."""

    __slots__ = ("box", "canvas", "fill", "filter", "place", "resized")

    def __init__(self, source: Size) -> None:
        self.resized: Size = source
        self.filter: Filter = "bilinear"
        self.box: Box | None = None
        self.canvas: Size | None = None
        self.place: tuple[int, int] = (0, 0)
        self.fill: Color = (0, 0, 0)


def _view(spec: schema.Spec, part: schema.View, pack: Pack, source: Size, offset: int) -> View:
    draft = _Draft(source)
    canvas = source
    if part.canvas is not None:
        rule = part.canvas
        canvas = best_fit(*source, tile=rule.tile, max_tiles=rule.max_tiles, largest=rule.largest)
    name = part.name
    try:
        for step in part.steps:
            name = type(step).__struct_config__.tag  # type: ignore[assignment]
            _STEPS[type(step)](step, draft, canvas)
            if math.prod(draft.resized) > MOST_PIXELS:
                raise ImageSizeError(f"would be resized to {draft.resized}, more than {MOST_PIXELS} pixels")
        box = draft.box or Box(0, 0, *draft.resized)
        canvas = draft.canvas or Size(box.height, box.width)
        name = pack.kind
        _check_pack(pack, canvas)
    except ImageSizeError as error:
        raise ImageSizeError(f"{source} (height x width): {error} ({spec.name}, {name})") from None
    return View(
        name=part.name,
        resized=draft.resized,
        filter=draft.filter,
        vertical_first=pass_order(spec.reference, source, draft.resized),
        crop=box,
        canvas=canvas,
        place=draft.place,
        fill=draft.fill,
        pack=pack,
        offset=offset,
    )


def _smart_resize(step: schema.SmartResize, draft: _Draft, _: Size) -> None:
    draft.filter = step.filter
    if step.enabled:
        draft.resized = smart_resize(
            *draft.resized,
            factor=step.patch * step.merge,
            min_pixels=step.min_pixels,
            max_pixels=step.max_pixels,
            max_aspect=step.max_aspect,
        )


def _resize(step: schema.Resize, draft: _Draft, _: Size) -> None:
    draft.filter = step.filter
    if step.enabled:
        size = step.size
        fixed = Size(size.height, size.width) if size.height and size.width else None
        draft.resized = resize(*draft.resized, shortest_edge=size.shortest_edge, size=fixed)


def _center_crop(step: schema.CenterCrop, draft: _Draft, _: Size) -> None:
    """Keep the middle, or put a smaller image into the middle of black.

    Source: transformers 5.24.0, image_processing_backends.py (torchvision) and image_transforms.py (pillow).
    """
    if not step.enabled:
        return
    height, width = draft.resized
    canvas = Size(step.size.height, step.size.width)
    draft.box = Box(
        max(height - canvas.height, 0) // 2,
        max(width - canvas.width, 0) // 2,
        min(height, canvas.height),
        min(width, canvas.width),
    )
    odd = 1 if step.odd_pad == "before" else 0
    draft.canvas = canvas
    draft.place = ((canvas.height - draft.box.height + odd) // 2, (canvas.width - draft.box.width + odd) // 2)


def _resize_to_canvas(step: schema.ResizeToCanvas, draft: _Draft, canvas: Size) -> None:
    draft.filter = step.filter
    draft.resized = fit_canvas(*draft.resized, canvas=canvas, grow_limit=None if step.grow else step.grow_limit)


def _pad_to_canvas(step: schema.PadToCanvas, draft: _Draft, canvas: Size) -> None:
    draft.canvas = canvas
    draft.fill = step.fill


_STEPS: dict[type, Callable[[Any, _Draft, Size], None]] = {
    schema.SmartResize: _smart_resize,
    schema.Resize: _resize,
    schema.CenterCrop: _center_crop,
    schema.ResizeToCanvas: _resize_to_canvas,
    schema.PadToCanvas: _pad_to_canvas,
}


def _check_pack(pack: Pack, canvas: Size) -> None:
    block = pack.block * pack.merge
    if block and (canvas.height % block or canvas.width % block):
        raise ImageSizeError(f"height and width must be multiples of {block} where nothing is resized")


@lru_cache(maxsize=64)
def _pack(spec: schema.Spec) -> Pack:
    given = spec.image.pack
    if isinstance(given, schema.Planar):
        return Pack("planar")
    if isinstance(given, schema.Tiles):
        return Pack("tiles", given.tile)
    return Pack("merge_patches", given.patch, given.merge, given.temporal)
