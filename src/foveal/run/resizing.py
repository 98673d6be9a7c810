"""The resize alone, as the references do it: for comparisons and tests."""

from functools import partial
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError
from foveal.media.policy import DecodePolicy, decode_policy
from foveal.media.sources import ImageItem, open_source
from foveal.plan.plan import BatchPlan, Pack, Plan, View
from foveal.plan.views import pass_order
from foveal.run.execute import BYTES, run_batch
from foveal.types import Box, Filter, Reference, Size

__all__ = ["resize", "resize_plan"]

PILLOW_ONLY = ("box", "hamming")


def resize(
    image: ImageItem,
    size: tuple[int, int],
    filter: Filter = "bicubic",
    reference: Reference = "pillow",
    out: npt.NDArray[Any] | None = None,
    threads: int | None = None,
    policy: str | DecodePolicy | None = None,
) -> npt.NDArray[np.uint8]:
    """Resize an image as Pillow or torchvision do for uint8, bit for bit; with antialiasing, but for nearest.

    Parameters
    ----------
    image : path, bytes, PIL.Image.Image or numpy.ndarray
    size : tuple of int
        Height and width of the result.
    filter : {"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"}
        torchvision has no box and no hamming. Its nearest is the one that transformers asks for, "nearest-exact".
    reference : {"pillow", "pillow<13", "torchvision"}
    out : uint8[3, height, width], optional
    threads : int, optional
    policy : str or DecodePolicy, optional
        As of a preprocessor.

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
    if reference == "torchvision" and filter in PILLOW_ONLY:
        raise OptionError(f"filter is {filter!r}: torchvision has no such filter for tensors, only Pillow has")
    height, width = size
    if min(size) < 1:
        raise OptionError(f"size is {height}x{width} (height x width): it must be at least 1x1")
    source, target = open_source(image, policy=decode_policy(policy)), Size(height, width)
    plan = resize_plan(source.size, target, filter, reference, "uint8")
    batch = BatchPlan("image", (plan,), (1,), plan.shape, (0,), "uint8")
    return run_batch(batch, BYTES, [partial(source.decode)], "uint8", out, threads)


def resize_plan(source: Size, target: Size, filter: Filter, reference: Reference, dtype: str) -> Plan:
    """Return the plan of an image that is resized as a whole, and written channel by channel."""
    view = View(
        name="image",
        reads="image",
        window=Box(0, 0, *source),
        border=(0, 0, 0),
        resized=target,
        filter=filter,
        method="antialias",
        vertical_first=pass_order(reference, source, target),
        crop=Box(0, 0, *target),
        canvas=target,
        place=(0, 0),
        fill=(0, 0, 0),
        pack=Pack("planar"),
        offset=0,
    )
    return Plan("resize", reference, *source, (), (view,), (1, 1), (3, *target), dtype, 0, ())
