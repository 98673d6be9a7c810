"""``foveal plan``."""

import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import (
    Json,
    Model,
    Policy,
    Reference,
    Settings,
    bytes_text,
    image_name,
    image_text,
    load_model,
    naming_images,
    print_json,
    print_table,
    shape_text,
)
from foveal.errors import ImageSizeError, MediaError
from foveal.spec.values import one_line
from foveal.types import DTYPES, Size

if TYPE_CHECKING:
    import numpy.typing as npt

    from foveal.plan.plan import BatchPlan, Plan, SideTensor, View
    from foveal.preprocessor import Preprocessor

_SIZE = re.compile(r"([1-9][0-9]{0,15})x([1-9][0-9]{0,15})")
_FILE_NAME = 255
"""Longest name that a file can have."""

_NAME_SHOWN = 80

_LIKE_A_SIZE = re.compile(r"(?=.*[0-9])-?[0-9.]*\s*[xX*\u00d7,:]\s*-?[0-9.]*(px)?")

Items = Annotated[
    list[str],
    typer.Argument(
        help="Image files, URLs, or sizes as WIDTHxHEIGHT (1920x1080 is 1080 rows of 1920).", metavar="IMAGE|WxH"
    ),
]


def plan(
    model: Model,
    items: Items,
    reference: Reference = None,
    settings: Settings = None,
    policy: Policy = None,
    json: Json = False,
) -> None:
    """Show what would be computed; nothing is decoded.

    Sizes are given as width x height, and printed as height x width.
    """
    preprocessor = load_model(model, reference, settings, policy)
    batch = plan_items(preprocessor, items)
    if json:
        print_json(batch_tree(preprocessor, items, batch))
        return
    print_plan(preprocessor, items, batch)


def plan_items(preprocessor: "Preprocessor", items: Sequence[str]) -> "BatchPlan":
    """Return the plan of image files, URLs and sizes as one batch."""
    with naming_images(items):
        sizes = [_of_item(preprocessor, index, item) for index, item in enumerate(items)]
        images = [item if size is None else _blank(size) for item, size in zip(items, sizes, strict=True)]
        return preprocessor.plan(images)


def _of_item(preprocessor: "Preprocessor", index: int, item: str) -> Size | None:
    try:
        size = item_size(item)
        if size is not None:
            preprocessor.limits.check_size(size)
    except ImageSizeError as error:
        raise ImageSizeError(f"image {index} is {error}") from error
    except MediaError as error:
        raise type(error)(f"image {index}: {error}") from error
    return size


def item_size(item: str) -> Size | None:
    """Return the size that a text as 1920x1080 names; None for the name of a file, and all else."""
    if not _LIKE_A_SIZE.fullmatch(item) or (len(item) <= _FILE_NAME and os.path.exists(item)):
        return None
    match = _SIZE.fullmatch(item)
    if not match:
        raise MediaError("neither a file nor a size; a size is WIDTHxHEIGHT, each at least 1, as 1920x1080")
    return Size(int(match[2]), int(match[1]))


def _blank(size: Size) -> "npt.NDArray[Any]":
    """Return an image of a size, whose pixels are all one and the same byte."""
    import numpy as np

    return np.broadcast_to(np.uint8(0), (*size, 3))


def print_plan(preprocessor: "Preprocessor", items: Sequence[str], batch: "BatchPlan") -> None:
    """Print two tables: a row for each image, and a row for each of its stages and views."""
    from foveal.show import numbers_text

    typer.echo(f"{preprocessor.name}, as {preprocessor.reference} computes it; sizes are height x width\n")
    names = [tensor.name for tensor in _side(preprocessor, batch.plans[0])]
    images = []
    for name, plan in zip(_names(items), batch.plans, strict=True):
        rows, shapes = _row_tensors(preprocessor, plan), {tensor.name: tensor.shape for tensor in plan.tensors}
        side = [numbers_text(rows[each]) if each in rows else shape_text(shapes[each]) for each in names]
        size = bytes_text(plan.elements * DTYPES[plan.dtype].itemsize)
        images.append(
            (name, Size(plan.height, plan.width), *side, plan.features, shape_text(plan.shape), plan.dtype, size)
        )
    several = len(images) > 1
    if several:
        joined = _joined_shapes(preprocessor, batch)
        side = [joined.get(each, "") for each in names]
        size = bytes_text(math.prod(batch.shape) * DTYPES[batch.dtype].itemsize)
        images.append(
            ("batch", f"{len(items)} images", *side, batch.features, shape_text(batch.shape), batch.dtype, size)
        )
    print_table(("image", "size", *names, "feature tokens", batch.primary, "dtype", "bytes"), images, footer=several)
    typer.echo()
    _print_views(preprocessor, items, batch)


def _print_views(preprocessor: "Preprocessor", items: Sequence[str], batch: "BatchPlan") -> None:
    """Print how each stage and view is made; what is read, and which part of it, only where that is not all."""
    columns = ["image", "view", "reads", "part", "resized", "passes", "crop", "canvas", "cut"]
    rows = [
        [name, *_view_row(preprocessor, plan, view)]
        for name, plan in zip(_names(items), batch.plans, strict=True)
        for view in (*plan.stages, *plan.views)
    ]
    for column, usual in (("reads", "image"), ("part", "all")):
        place = columns.index(column)
        if all(row[place] == usual for row in rows):
            del columns[place]
            rows = [row[:place] + row[place + 1 :] for row in rows]
    print_table(columns, rows)


def batch_tree(preprocessor: "Preprocessor", items: Sequence[str], batch: "BatchPlan") -> dict[str, Any]:
    """Return a batch plan for machines."""
    return {
        "model": preprocessor.name,
        "reference": preprocessor.reference,
        "images": [plan_tree(preprocessor, name, plan) for name, plan in zip(items, batch.plans, strict=True)],
        "batch": {
            "primary": batch.primary,
            "shape": list(batch.shape),
            "dtype": batch.dtype,
            "bytes": math.prod(batch.shape) * DTYPES[batch.dtype].itemsize,
            "features": batch.features,
        },
    }


def plan_tree(preprocessor: "Preprocessor", name: str, plan: "Plan") -> dict[str, Any]:
    """Return one image's plan for machines.

    Sizes and boxes are objects. ``stages`` are pictures that views read, made as views are. ``tensors`` has the numbers
    of those small tensors that have one row for an image; ``side_tensors`` the dtypes and shapes of all, of this
    image's part. Keys are added over time, and never change their meaning.
    """
    return {
        "image": image_text(name),
        "height": plan.height,
        "width": plan.width,
        "stages": [_view_tree(plan, stage) for stage in plan.stages],
        "views": [_view_tree(plan, view) for view in plan.views],
        "grid": {"rows": plan.grid[0], "columns": plan.grid[1]},
        "shape": list(plan.shape),
        "dtype": plan.dtype,
        "bytes": plan.elements * DTYPES[plan.dtype].itemsize,
        "features": plan.features,
        "tensors": {name: values.tolist() for name, values in _row_tensors(preprocessor, plan).items()},
        "side_tensors": [
            {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
            for tensor in _side(preprocessor, plan)
        ],
    }


def _side(preprocessor: "Preprocessor", plan: "Plan") -> "list[SideTensor]":
    """Return the small tensors of an image that a call returns, without those that are for engines alone."""
    returned = {tensor.name for tensor in preprocessor.spec.tensors if tensor.hf}
    return [tensor for tensor in plan.tensors if tensor.name in returned]


def _row_tensors(preprocessor: "Preprocessor", plan: "Plan") -> "dict[str, npt.NDArray[Any]]":
    """Return the small tensors that have one row for an image, as a call with this image alone returns them."""
    from foveal.plan.batch import make_batch_plan
    from foveal.plan.tensors import batch_tensors

    tensors = batch_tensors(preprocessor.spec, make_batch_plan(preprocessor.spec, [plan]))
    padded = {tensor.name for tensor in preprocessor.spec.tensors if tensor.join == "blocks"}
    rows = [tensor.name for tensor in _side(preprocessor, plan) if tensor.shape[0] == 1 and tensor.name not in padded]
    return {name: tensors[name] for name in rows}


def _joined_shapes(preprocessor: "Preprocessor", batch: "BatchPlan") -> dict[str, str]:
    """Return the shapes that tensors of more than a row for an image have in a batch."""
    from foveal.plan.tensors import batch_tensors

    rows = _row_tensors(preprocessor, batch.plans[0])
    tensors = batch_tensors(preprocessor.spec, batch)
    return {name: shape_text(tensor.shape) for name, tensor in tensors.items() if name not in rows}


def _view_tree(plan: "Plan", view: "View") -> dict[str, Any]:
    return {
        "name": view.name,
        "reads": view.reads,
        "window": view.window._asdict(),
        "border": list(view.border),
        "resized": view.resized._asdict(),
        "resample": _resample(view),
        "crop": view.crop._asdict(),
        "canvas": view.canvas._asdict(),
        "place": {"top": view.place[0], "left": view.place[1]},
        "fill": list(view.fill),
        "pack": {
            "kind": view.pack.kind,
            "block": view.pack.block,
            "merge": view.pack.merge,
            "temporal": view.pack.temporal,
            "allotted": view.pack.allotted and view.pack.allotted._asdict(),
        },
        "offset": view.offset,
    }


def _resample(view: "View") -> dict[str, Any] | None:
    """Return filter, method and order of the passes; None where the size stays."""
    if view.resized == (view.window.height, view.window.width):
        return None
    first = "vertical" if view.vertical_first else "horizontal"
    return {
        "filter": view.filter,
        "method": view.method,
        "first_pass": first if view.method == "antialias" else None,
    }


def _view_row(preprocessor: "Preprocessor", plan: "Plan", view: "View") -> tuple[object, ...]:
    resample, crop = _resample(view), view.crop
    kept = Size(crop.height, crop.width)
    placed = kept != view.canvas or any(view.place)
    return (
        view.name,
        view.reads,
        _part_text(plan, view),
        view.resized,
        _passes_text(resample) if resample else "none",
        "all" if kept == view.resized else f"{kept} at {crop.top},{crop.left}",
        f"{view.canvas}, placed at {view.place[0]},{view.place[1]}" if placed else view.canvas,
        _cut_text(preprocessor, plan, view),
    )


def _part_text(plan: "Plan", view: "View") -> str:
    """Return the window of what is read that is resized."""
    read = Size(plan.height, plan.width)
    if view.reads != "image":
        read = next(stage.canvas for stage in plan.stages if stage.name == view.reads)
    top, left, height, width = view.window
    return "all" if view.window == (0, 0, *read) else f"{Size(height, width)} at {top},{left}"


def _passes_text(resample: dict[str, Any]) -> str:
    how = {
        "antialias": f"{resample['first_pass']} first",
        "linear": "without antialias",
        "fixed_taps": "fixed taps, on values",
    }
    return f"{resample['filter']}, {how[resample['method']]}"


def _cut_text(preprocessor: "Preprocessor", plan: "Plan", view: "View") -> str:
    """Return how a canvas is cut; of a stage, the grid that counts are made of, if it is this one's."""
    from foveal.show import packing_text

    if view.pack.kind != "pixels":
        return packing_text(view)
    rows, columns = plan.grid
    return f"grid of {rows}x{columns}" if view.name == preprocessor.spec.image.grid else "not cut"


def _names(items: Sequence[str]) -> list[str]:
    """Return what stands for an image in a table: a file's name without its directories."""
    return [one_line(image_name(item), _NAME_SHOWN) for item in items]
