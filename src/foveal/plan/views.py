"""From a spec's steps to the views of one image: what is read, resampled, kept, and placed where."""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from foveal.errors import ImageSizeError
from foveal.plan import canvas as canvases
from foveal.plan import windows
from foveal.plan.ops import OPS, Draft
from foveal.plan.plan import Normalization, Pack, View
from foveal.spec import schema, steps
from foveal.types import Box, Reference, Size

MOST_PIXELS = 2**28
"""Of a resized image, of which a model may keep but a part: as bytes it would be 800 MB in the references."""

__all__ = ["Sample", "Views", "blocks", "make_views", "normalization", "pass_order"]

Sample = Literal["one_image", "many_images"]
"""How many images the sample has to which an image belongs."""

PIXELS = Pack("pixels")


class Views(NamedTuple):
    """Stages and views of an image, and the rows and columns of what is cut."""

    stages: tuple[View, ...]
    views: tuple[View, ...]
    grid: tuple[int, int]


def make_views(spec: schema.Spec, height: int, width: int, sample: Sample = "one_image") -> Views:
    """Return the stages and views of an image; views in the order in which the encoder reads them.

    Raises
    ------
    ImageSizeError
        If a rule of the spec refuses the size.
    """
    pack, image = _pack(spec), spec.image
    pictures = {"image": Size(height, width)}
    stages = []
    for part in image.stages:
        stage = _view(spec, part, PIXELS, pictures["image"], pictures[part.reads], None)
        pictures[part.name] = stage.canvas
        stages.append(stage)
    parts = [part for part in image.views if part.enabled]
    found = {part.name: list(_parts(spec, part, pack, pictures)) for part in parts if part.when in ("always", sample)}
    name = image.grid or image.views[0].name
    cut = next((view.canvas for view in (*stages, *itertools.chain(*found.values())) if view.name == name), None)
    grid = _grid(pack, cut) if cut else (1, 1)
    for part in parts:
        if part.when == "multi_tile" and grid[0] * grid[1] > 1:
            found[part.name] = list(_parts(spec, part, pack, pictures))
    views = [view for part in parts for view in found.get(part.name, ())]
    return Views(tuple(stages), _with_offsets(views), grid)


def normalization(spec: schema.Spec) -> Normalization:
    """Return the arithmetic between a canvas byte and a value; bfloat16 only where a spec's steps are both on.

    Source: transformers 5.24.0, models/llama4/image_processing_llama4.py.
    """
    given = spec.image.normalize
    compute = given.compute if given.rescale and given.normalize else "float32"
    return Normalization(given.rescale, given.factor, given.normalize, given.mean, given.std, compute)


def pass_order(reference: Reference, source: Size, result: Size) -> bool:
    """Return whether the vertical pass of a resize runs before the horizontal one.

    Source: Pillow 13.0.0, src/libImaging/Resample.c; earlier Pillow and torchvision never do it.
    """
    shorter, narrower = source.height - result.height, source.width - result.width
    return reference == "pillow" and narrower != 0 and shorter > 0 and shorter > 2 * narrower


def blocks(view: View) -> int:
    """Return the number of tiles or patches of a view; a planar view is one."""
    rows, columns = _grid(view.pack, view.canvas)
    return rows * columns


def _grid(pack: Pack, canvas: Size) -> tuple[int, int]:
    return (canvas.height // pack.block, canvas.width // pack.block) if pack.block else (1, 1)


def _with_offsets(views: Sequence[View]) -> tuple[View, ...]:
    """Place views one after the other in the image's part of the primary tensor."""
    offset, placed = 0, []
    for view in views:
        placed.append(msgspec.structs.replace(view, offset=offset) if offset else view)
        offset += 3 * view.canvas.height * view.canvas.width * view.pack.temporal
    return tuple(placed)


def _parts(spec: schema.Spec, part: schema.View, pack: Pack, pictures: dict[str, Size]) -> Iterator[View]:
    """Yield the views of a part: one, or one for each window that a rule cuts."""
    read = pictures[part.reads]
    if part.windows is None:
        yield _view(spec, part, pack, pictures["image"], read, None)
        return
    try:
        boxes = _windows(part.windows, read)
    except ImageSizeError as error:
        raise _named(error, pictures["image"], spec, part.windows) from None
    for number, box in enumerate(boxes):
        view = _view(spec, part, pack, pictures["image"], read, box)
        yield msgspec.structs.replace(view, name=f"{part.name} {number}")


def _view(spec: schema.Spec, part: schema.Stage, pack: Pack, image: Size, read: Size, window: Box | None) -> View:
    draft = Draft(window or Box(0, 0, *read))
    rule: object = part.canvas
    try:
        canvas = _canvas(part.canvas, read)
        for step in part.steps:
            rule = step
            OPS[type(step)](step, draft, canvas)
            if math.prod(draft.resized) > MOST_PIXELS:
                raise ImageSizeError(f"would be resized to {draft.resized}, more than {MOST_PIXELS} pixels")
        rule = pack
        _check_pack(pack, draft.canvas)
    except ImageSizeError as error:
        raise _named(error, image, spec, rule) from None
    return View(
        name=part.name,
        reads=part.reads,
        window=draft.window,
        border=draft.border,
        resized=draft.resized,
        filter=draft.filter,
        method=draft.method,
        vertical_first=draft.method == "antialias" and _vertical_first(spec.reference, draft),
        crop=draft.crop,
        canvas=draft.canvas,
        place=draft.place,
        fill=draft.fill,
        pack=pack,
        offset=0,
    )


def _vertical_first(reference: Reference, draft: Draft) -> bool:
    """Whether the vertical pass runs first; of an image that the reference lays on its side, the other way round."""
    source = Size(draft.window.height, draft.window.width)
    if not draft.on_its_side:
        return pass_order(reference, source, draft.resized)
    return not pass_order(reference, Size(*reversed(source)), Size(*reversed(draft.resized)))


def _named(error: ImageSizeError, image: Size, spec: schema.Spec, rule: object) -> ImageSizeError:
    """Return an error with the size of the image, the spec and the name of the rule."""
    name = rule.kind if isinstance(rule, Pack) else type(rule).__struct_config__.tag  # type: ignore[attr-defined]
    return ImageSizeError(f"{image} (height x width): {error} ({spec.name}, {name})")


def _canvas(rule: schema.AnyCanvas | None, size: Size) -> Size:
    """Return the canvas that a rule chooses for a picture."""
    match rule:
        case None:
            return size
        case steps.BestFit():
            return canvases.best_fit(*size, **msgspec.structs.asdict(rule))
        case steps.BestResolution():
            return canvases.best_resolution(*size, pinpoints=rule.pinpoints)
        case steps.DynamicHd():
            return canvases.dynamic_hd(*size, **msgspec.structs.asdict(rule))
        case steps.HdTransform():
            return canvases.hd_transform(*size, **msgspec.structs.asdict(rule))
        case steps.OverlappingTiles():
            return canvases.overlapping_tiles(*size, **msgspec.structs.asdict(rule))
    if not rule.enabled:
        return Size(rule.tile, rule.tile)
    match rule:
        case steps.LeastUpscale():
            return canvases.least_upscale(*size, tile=rule.tile, max_tiles=rule.max_tiles)
        case steps.CoveringGrid() if rule.covering:
            return canvases.covering_grid(*size, tile=rule.tile, max_tiles=rule.max_tiles)
    order = rule.order if isinstance(rule, steps.ClosestAspectRatio) else "columns"
    return canvases.closest_aspect_ratio(
        *size, tile=rule.tile, min_tiles=rule.min_tiles, max_tiles=rule.max_tiles, order=order
    )


def _windows(rule: schema.AnyWindows, size: Size) -> list[Box]:
    """Return the parts that a rule cuts from a picture."""
    if isinstance(rule, steps.OverlappingCrops):
        return windows.overlapping_crops(*size, **msgspec.structs.asdict(rule))
    if not rule.enabled:
        return []
    return windows.pan_and_scan(*size, min_crop=rule.min_crop, max_crops=rule.max_crops, min_ratio=rule.min_ratio)


def _check_pack(pack: Pack, canvas: Size) -> None:
    block = pack.block * pack.merge
    if block and (canvas.height % block or canvas.width % block):
        raise ImageSizeError(f"becomes {canvas}, of which both must be multiples of {block}")


@lru_cache(maxsize=64)
def _pack(spec: schema.Spec) -> Pack:
    match spec.image.pack:
        case schema.Planar():
            return Pack("planar")
        case schema.Tiles(tile=tile):
            return Pack("tiles", tile)
        case schema.PatchPack(patch=patch, channels="last"):
            return Pack("channels_last_patches", patch)
        case schema.PatchPack(patch=patch):
            return Pack("patches", patch)
        case schema.MergePatches(patch=patch, merge=merge, temporal=temporal):
            return Pack("merge_patches", patch, merge, temporal)
