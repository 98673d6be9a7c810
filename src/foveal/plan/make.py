"""Plans: from an image's height and width and a resolved spec to everything that needs no pixels."""

from functools import lru_cache
from operator import index

from foveal.errors import ImageSizeError
from foveal.plan.counts import count_features
from foveal.plan.plan import Plan, View
from foveal.plan.tensors import side_tensors
from foveal.plan.views import Sample, blocks, make_views, normalization
from foveal.spec import schema
from foveal.spec.schema import Spec
from foveal.spec.values import show
from foveal.types import Size

__all__ = ["make_plan", "primary_dtype"]

LONGEST_SIDE = 2**31 - 1
"""No image format has longer ones."""


def make_plan(spec: Spec, height: int, width: int, sample: Sample = "one_image") -> Plan:
    """Return the plan of an image.

    Parameters
    ----------
    spec : Spec
        Resolved.
    height, width : int
        Of the image, in pixels, after its orientation is applied.
    sample : {"one_image", "many_images"}
        How many images the sample has to which it belongs; some models read them in another way.

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
    stages, views, grid = make_views(spec, height, width, sample)
    shapes = [_shape(spec.image.pack, view) for view in views]
    if any(shape[1:] != shapes[0][1:] for shape in shapes):
        parts = " and ".join(sorted({"x".join(map(str, shape[1:])) for shape in shapes}))
        raise ImageSizeError(
            f"{Size(height, width)} (height x width): it becomes {parts}, not one tensor ({spec.name})"
        )
    features = 0
    if spec.tokens is not None:
        features = count_features(spec.tokens.features, views, grid, Size(height, width))
    plan = Plan(
        spec=spec.name,
        reference=spec.reference,
        height=height,
        width=width,
        stages=stages,
        views=views,
        grid=grid,
        shape=(sum(part[0] for part in shapes), *shapes[0][1:]),
        dtype=primary_dtype(spec),
        features=features,
        tensors=(),
    )
    return side_tensors(spec, plan)


@lru_cache(maxsize=64)
def primary_dtype(spec: Spec) -> str:
    """Return the dtype that the reference gives the primary tensor: bytes stay bytes if nothing is done to them."""
    given = normalization(spec)
    if not given.rescale and not given.normalize:
        return spec.image.normalize.untouched
    return spec.primary.dtype if given.rescale and given.normalize else "float32"


def _shape(pack: object, view: View) -> tuple[int, ...]:
    """Return the shape of a view's part of the primary tensor."""
    count, block = blocks(view), view.pack.block
    match pack:
        case schema.Planar():
            return (1, 3, *view.canvas)
        case schema.Tiles() | schema.PatchPack(axes=4):
            return (count, 3, block, block)
        case schema.PatchPack(axes=3):
            return (1, count, 3 * block * block)
    return (count, 3 * view.pack.temporal * block * block)
