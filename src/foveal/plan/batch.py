"""Batches: the plans of several images and the primary tensor that they share."""

import math
from collections.abc import Sequence

import msgspec

from foveal.errors import ImageSizeError, OptionError
from foveal.plan.make import primary_dtype
from foveal.plan.plan import BatchPlan, Plan, View
from foveal.plan.slots import first_block, slots
from foveal.spec.schema import Spec
from foveal.types import Size

__all__ = ["make_batch_plan"]


def make_batch_plan(
    spec: Spec, plans: Sequence[Plan], samples: Sequence[int] | None = None, numbers: Sequence[int] | None = None
) -> BatchPlan:
    """Return the plan of a batch.

    Parameters
    ----------
    spec : Spec
    plans : sequence of Plan
        Of all images.
    samples : sequence of int, optional
        Number of images of each sample; one for each by default.
    numbers : sequence of int, optional
        What errors call the images, where others were left out; their places by default.

    Raises
    ------
    OptionError
        If there are no images, or the samples hold another number of them.
    ImageSizeError
        If the images' parts do not fit into one tensor.
    """
    if not plans:
        raise OptionError("there are no images")
    samples = tuple(samples) if samples is not None else (1,) * len(plans)
    if sum(samples) != len(plans) or min(samples) < 0:
        counts = ", ".join(map(str, samples[:8]))
        raise OptionError(f"samples of {counts} images do not make up {len(plans)} images")
    numbers = range(len(plans)) if numbers is None else numbers
    batch = spec.image.batch
    if batch.join == "largest":
        plans = _in_the_largest(plans)
    trailing = plans[0].shape[1:]
    for number, plan in zip(numbers, plans, strict=True):
        if plan.shape[1:] != trailing:
            raise ImageSizeError(
                f"image {number} is {plan.height}x{plan.width} (height x width): it becomes {_text(plan)}, "
                f"and image {numbers[0]} becomes {_text(plans[0])}, which do not fit into one tensor ({spec.name})"
            )
    places, leading = slots(batch, [plan.shape[0] for plan in plans], samples)
    for number, plan in zip(numbers, plans, strict=True):
        if batch.join == "room" and plan.shape[0] > batch.room:
            raise ImageSizeError(
                f"image {number} is {plan.height}x{plan.width} (height x width): it becomes {plan.shape[0]} parts, "
                f"and the tensor has room for {batch.room} ({spec.name})"
            )
    element = math.prod(trailing)
    offsets = tuple(element * first_block(slot, leading) for slot in places)
    shape = (*leading, *trailing)
    return BatchPlan(spec.primary.name, tuple(plans), samples, shape, offsets, primary_dtype(spec))


def _in_the_largest(plans: Sequence[Plan]) -> list[Plan]:
    """Return the plans with their canvas in the top left of the largest height and width of all."""
    height, width = max(plan.shape[2] for plan in plans), max(plan.shape[3] for plan in plans)
    return [_allotted(plan, Size(height, width)) for plan in plans]


def _allotted(plan: Plan, size: Size) -> Plan:
    if plan.shape[2:] == size:
        return plan
    views = tuple(_with_room(view, size) for view in plan.views)
    return msgspec.structs.replace(plan, views=views, shape=(*plan.shape[:2], *size))


def _with_room(view: View, size: Size) -> View:
    return msgspec.structs.replace(view, pack=msgspec.structs.replace(view.pack, allotted=size))


def _text(plan: Plan) -> str:
    return "x".join(map(str, plan.shape[1:]))
