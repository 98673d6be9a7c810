"""The resize alone, as the references do it: for comparisons and tests."""

from functools import partial
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError
from foveal.media.sources import ImageItem, open_source
from foveal.plan.plan import BatchPlan, Normalization, Pack, Plan, View
from foveal.plan.views import pass_order
from foveal.run.execute import run_batch
from foveal.spec.schema import Filter, Reference
from foveal.types import Box, Size

__all__ = ["resize"]

BYTES = Normalization(rescale=False, factor=1.0, normalize=False, mean=(0.0,) * 3, std=(1.0,) * 3)


def resize(
    image: ImageItem,
    size: tuple[int, int],
    filter: Filter = "bicubic",
    reference: Reference = "pillow",
    out: npt.NDArray[Any] | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.uint8]:
    """Resize an image with antialiasing, bit for bit as Pillow or torchvision do for uint8.

    Parameters
    ----------
    image : path, bytes, PIL.Image.Image or numpy.ndarray
    size : tuple of int
        Height and width of the result.
    filter : {"bilinear", "bicubic", "lanczos"}
    reference : {"pillow", "pillow<13", "torchvision"}
    out : uint8[3, height, width], optional
    threads : int, optional

    Returns
    -------
    uint8[3, height, width]

    Raises
    ------
    OptionError
        If the size, filter or reference is not possible.
    MediaError
        If the image cannot be read.
    """
    if filter not in get_args(Filter) or reference not in get_args(Reference):
        raise OptionError(f"filter must be one of {get_args(Filter)}, reference one of {get_args(Reference)}")
    height, width = size
    if min(size) < 1:
        raise OptionError(f"size is {height}x{width} (height x width): it must be at least 1x1")
    source = open_source(image)
    target = Size(height, width)
    vertical_first = pass_order(reference, source.size, target)
    view = View("image", target, filter, vertical_first, Box(0, 0, *size), target, (0, 0), (0, 0, 0), Pack("planar"), 0)
    plan = Plan("resize", reference, *source.size, (view,), (3, *size), "uint8", 0, ())
    batch = BatchPlan("image", (plan,), plan.shape, "uint8")
    return run_batch(batch, BYTES, [partial(source.decode)], "uint8", out, threads)
