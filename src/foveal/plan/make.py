"""Plans: from an image's height and width and a resolved spec to everything that needs no pixels."""

from functools import lru_cache
from operator import index

from foveal.errors import ImageSizeError
from foveal.plan.counts import count_features, side_tensor
from foveal.plan.plan import Plan
from foveal.plan.views import make_views, normalization, shape
from foveal.spec.schema import Spec
from foveal.spec.values import show

__all__ = ["make_plan", "primary_dtype"]

LONGEST_SIDE = 2**31 - 1
"""No image format has longer ones."""


def make_plan(spec: Spec, height: int, width: int) -> Plan:
    """Return the plan of an image.

    Parameters
    ----------
    spec : Spec
        Resolved.
    height, width : int
        Of the image, in pixels, after its orientation is applied.

    Raises
    ------
    ImageSizeError
        If the size is not positive or a rule of the spec refuses it. The text begins with the size,
        ``12x4000 (height x width): ...``, so that a caller can put ``image 2 is`` before it.
    """
    height, width = index(height), index(width)
    if not (0 < height <= LONGEST_SIDE and 0 < width <= LONGEST_SIDE):
        size = f"{show(height)}x{show(width)} (height x width)"
        raise ImageSizeError(f"{size}: both must be from 1 to {LONGEST_SIDE} ({spec.name})")
    views = make_views(spec, height, width)
    shapes = [shape(view) for view in views]
    return Plan(
        spec=spec.name,
        reference=spec.reference,
        height=height,
        width=width,
        views=views,
        shape=(sum(part[0] for part in shapes), *shapes[0][1:]),
        dtype=primary_dtype(spec),
        features=count_features(spec.tokens.features, views),
        tensors=tuple(side_tensor(tensor, views) for tensor in spec.tensors if tensor.value != "primary"),
    )


@lru_cache(maxsize=64)
def primary_dtype(spec: Spec) -> str:
    """Return the dtype that the reference gives the primary tensor: bytes stay bytes if nothing is done to them."""
    given = normalization(spec)
    if not given.rescale and not given.normalize:
        return spec.image.normalize.untouched
    return spec.primary.dtype if given.rescale and given.normalize else "float32"
