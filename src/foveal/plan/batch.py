"""Batches: the plans of several images and the primary tensor that they share."""

from collections.abc import Sequence

from foveal.errors import ImageSizeError, OptionError
from foveal.plan.make import primary_dtype
from foveal.plan.plan import BatchPlan, Plan
from foveal.spec.schema import Spec

__all__ = ["make_batch_plan"]


def make_batch_plan(spec: Spec, plans: Sequence[Plan]) -> BatchPlan:
    """Return the plan of a batch whose images follow one another on the first axis.

    Raises
    ------
    OptionError
        If there are no images.
    ImageSizeError
        If the images' parts differ in more than the first axis.
    """
    if not plans:
        raise OptionError("there are no images")
    trailing = plans[0].shape[1:]
    for number, plan in enumerate(plans):
        if plan.shape[1:] != trailing:
            raise ImageSizeError(
                f"image {number} is {plan.height}x{plan.width} (height x width): it becomes {_text(plan)}, "
                f"and image 0 becomes {_text(plans[0])}, which do not fit into one tensor ({spec.name})"
            )
    shape = (sum(plan.shape[0] for plan in plans), *trailing)
    return BatchPlan(spec.primary.name, tuple(plans), shape, primary_dtype(spec))


def _text(plan: Plan) -> str:
    return "x".join(map(str, plan.shape[1:]))
