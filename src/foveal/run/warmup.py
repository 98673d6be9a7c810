"""Compile before the first request: every kernel that a preprocessor can need, whatever size an image has."""

from collections.abc import Iterator

import msgspec
import numpy as np

from foveal.media.pixels import Pixels
from foveal.plan.plan import Normalization, Plan
from foveal.run.buffers import aligned_empty
from foveal.run.execute import digit_counts, prepare, run_view
from foveal.types import DTYPES, Box, Size

__all__ = ["warmup_steps"]


def warmup_steps(plan: Plan, normalization: Normalization, dtype: str) -> Iterator[str]:
    """Run every kernel of a plan's model once on a small image, one kernel after each step.

    Parameters
    ----------
    plan : Plan
        Of any size.
    normalization : Normalization
    dtype : str
        Of the primary tensor.

    Yields
    ------
    str
        What is being compiled, or loaded from the cache, next.
    """
    pack = plan.views[0].pack
    size = Size(*[max(pack.block * pack.merge, 16)] * 2)
    view = msgspec.structs.replace(
        plan.views[0], resized=size, crop=Box(0, 0, *size), canvas=size, place=(0, 0), offset=0, vertical_first=False
    )
    out = aligned_empty((3 * pack.temporal * size.height * size.width,), DTYPES[dtype])
    yield f"emit {dtype}"
    prepare(view, size, plan.reference, normalization, dtype)
    yield "place without resizing"
    run_view(view, plan.reference, normalization, _blank(size), dtype, out.ctypes.data)
    larger = _blank(Size(2 * size.height, size.width))
    for digits in digit_counts(plan.reference):
        yield f"resize, horizontal pass first, {digits} digits"
        run_view(view, plan.reference, normalization, larger, dtype, out.ctypes.data, digits=digits)
    if plan.reference == "pillow":
        yield "resize, vertical pass first"
        flipped = msgspec.structs.replace(view, vertical_first=True)
        run_view(flipped, plan.reference, normalization, larger, dtype, out.ctypes.data)


def _blank(size: Size) -> Pixels:
    image = np.zeros((*size, 3), np.uint8)
    rows = (image.ctypes.data + np.arange(size.height) * image.strides[0]).astype(np.uint64)
    return Pixels(*size, rows, 3, (0, 1, 2), None, (255, 255, 255), image)
