"""``foveal plan``."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import (
    Json,
    Model,
    Reference,
    Settings,
    bytes_text,
    load_model,
    naming_images,
    print_json,
    print_table,
    shape_text,
)
from foveal.errors import FovealError, ImageSizeError, MediaError
from foveal.types import DTYPES, Size

if TYPE_CHECKING:
    from foveal.plan.plan import BatchPlan, Plan, View
    from foveal.preprocessor import Preprocessor

_SIZE = re.compile(r"([1-9][0-9]{0,15})x([1-9][0-9]{0,15})")
_FILE_NAME = 255
"""Longest name that a file can have."""

_LIKE_A_SIZE = re.compile(r"-?[0-9]+\s*[xX*\u00d7,:]\s*-?[0-9]+")

Items = Annotated[
    list[str],
    typer.Argument(help="Image files, or sizes as WIDTHxHEIGHT (1920x1080 is 1080 rows of 1920).", metavar="IMAGE|WxH"),
]


def plan(
    model: Model, items: Items, reference: Reference = None, settings: Settings = None, json: Json = False
) -> None:
    """Show what would be computed; nothing is decoded.

    Sizes are given as width x height, and printed as height x width.
    """
    preprocessor = load_model(model, reference, settings)
    batch = plan_items(preprocessor, items)
    if json:
        print_json(batch_tree(preprocessor, items, batch))
        return
    print_plan(preprocessor, items, batch)


def plan_items(preprocessor: "Preprocessor", items: Sequence[str]) -> "BatchPlan":
    """Return the plan of image files and sizes as one batch."""
    from foveal.plan.batch import make_batch_plan

    with naming_images(items):
        plans = [_plan_item(preprocessor, index, item) for index, item in enumerate(items)]
    return make_batch_plan(preprocessor.spec, plans)


def _plan_item(preprocessor: "Preprocessor", index: int, item: str) -> "Plan":
    try:
        return preprocessor.plan(*item_size(item))
    except ImageSizeError as error:
        raise ImageSizeError(f"image {index} is {error}") from error
    except FovealError as error:
        raise type(error)(f"image {index}: {error}") from error


def item_size(item: str) -> Size:
    """Return the size of an image file, or of a text as 1920x1080 that is not the name of a file."""
    if _LIKE_A_SIZE.fullmatch(item) and (len(item) > _FILE_NAME or not os.path.exists(item)):
        match = _SIZE.fullmatch(item)
        if not match:
            raise MediaError("neither a file nor a size; a size is WIDTHxHEIGHT, each at least 1, as 1920x1080")
        return Size(int(match[2]), int(match[1]))
    from foveal.media.sources import open_source

    return open_source(item).size


def print_plan(preprocessor: "Preprocessor", items: Sequence[str], batch: "BatchPlan") -> None:
    """Print two tables: a row for each image, and a row for each of its views."""
    typer.echo(f"{preprocessor.name}, as {preprocessor.reference} computes it; sizes are height x width\n")
    images = [
        (
            name,
            Size(plan.height, plan.width),
            *(_rows_text(tensor.values) for tensor in plan.tensors),
            plan.features,
            shape_text(plan.shape),
            plan.dtype,
            bytes_text(plan.elements * DTYPES[plan.dtype].itemsize),
        )
        for name, plan in zip(_names(items), batch.plans, strict=True)
    ]
    side = [tensor.name for tensor in batch.plans[0].tensors]
    several = len(images) > 1
    if several:
        elements = sum(plan.elements for plan in batch.plans)
        size = bytes_text(elements * DTYPES[batch.dtype].itemsize)
        images.append(
            (
                "batch",
                f"{len(items)} images",
                *("" for _ in side),
                batch.features,
                shape_text(batch.shape),
                batch.dtype,
                size,
            )
        )
    print_table(("image", "size", *side, "feature tokens", batch.primary, "dtype", "bytes"), images, footer=several)
    typer.echo()
    views = [
        (name, *_view_row(plan, view))
        for name, plan in zip(_names(items), batch.plans, strict=True)
        for view in plan.views
    ]
    print_table(("image", "view", "resized", "passes", "crop", "canvas", "cut"), views)


def batch_tree(preprocessor: "Preprocessor", items: Sequence[str], batch: "BatchPlan") -> dict[str, Any]:
    """Return a batch plan for machines."""
    item = DTYPES[batch.dtype].itemsize
    return {
        "model": preprocessor.name,
        "reference": preprocessor.reference,
        "images": [plan_tree(name, plan) for name, plan in zip(items, batch.plans, strict=True)],
        "batch": {
            "primary": batch.primary,
            "shape": list(batch.shape),
            "dtype": batch.dtype,
            "bytes": sum(plan.elements for plan in batch.plans) * item,
            "features": batch.features,
        },
    }


def plan_tree(name: str, plan: "Plan") -> dict[str, Any]:
    """Return one image's plan for machines."""
    return {
        "image": name,
        "height": plan.height,
        "width": plan.width,
        "views": [_view_tree(plan, view) for view in plan.views],
        "shape": list(plan.shape),
        "dtype": plan.dtype,
        "bytes": plan.elements * DTYPES[plan.dtype].itemsize,
        "features": plan.features,
        "tensors": {tensor.name: [list(row) for row in tensor.values] for tensor in plan.tensors},
    }


def _view_tree(plan: "Plan", view: "View") -> dict[str, Any]:
    return {
        "name": view.name,
        "resized": view.resized._asdict(),
        "resample": _resample(plan, view),
        "crop": view.crop._asdict(),
        "canvas": view.canvas._asdict(),
        "place": {"top": view.place[0], "left": view.place[1]},
        "fill": list(view.fill),
        "pack": {
            "kind": view.pack.kind,
            "block": view.pack.block,
            "merge": view.pack.merge,
            "temporal": view.pack.temporal,
        },
        "offset": view.offset,
    }


def _resample(plan: "Plan", view: "View") -> dict[str, Any] | None:
    """Return filter and order of the passes; None where the size stays."""
    if view.resized == (plan.height, plan.width):
        return None
    return {"filter": view.filter, "first_pass": "vertical" if view.vertical_first else "horizontal"}


def _view_row(plan: "Plan", view: "View") -> tuple[object, ...]:
    from foveal.show import packing_text

    resample, crop = _resample(plan, view), view.crop
    window = Size(crop.height, crop.width)
    placed = window != view.canvas or any(view.place)
    return (
        view.name,
        view.resized,
        f"{resample['filter']}, {resample['first_pass']} first" if resample else "none",
        "all" if window == view.resized else f"{window} at {crop.top},{crop.left}",
        f"{view.canvas}, placed at {view.place[0]},{view.place[1]}" if placed else view.canvas,
        packing_text(view),
    )


def _names(items: Sequence[str]) -> list[str]:
    """Return what stands for an image in a table: a file's name without its directories."""
    return [Path(item).name or item for item in items]


def _rows_text(rows: Sequence[Sequence[int]]) -> str:
    return ", ".join("x".join(map(str, row)) for row in rows)
