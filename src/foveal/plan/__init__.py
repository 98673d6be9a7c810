"""Plans: what will be computed for an image, from its height and width alone."""

from foveal.plan.batch import make_batch_plan
from foveal.plan.make import make_plan
from foveal.plan.plan import BatchPlan, Normalization, Pack, Plan, SideTensor, View
from foveal.plan.views import normalization

__all__ = [
    "BatchPlan",
    "Normalization",
    "Pack",
    "Plan",
    "SideTensor",
    "View",
    "make_batch_plan",
    "make_plan",
    "normalization",
]
