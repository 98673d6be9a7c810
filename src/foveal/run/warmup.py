"""Compile before the first request: every kernel that a preprocessor can need, whatever size an image has."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from foveal.media.arrays import array_pixels
from foveal.media.pixels import ON_WHITE, Backdrop
from foveal.plan.plan import Normalization, Plan, View
from foveal.run.buffers import aligned_empty
from foveal.run.execute import BYTES, digit_counts, run_view
from foveal.types import DTYPES, Box, Size
from foveal_kernels.compile import cache_directories, compiled

__all__ = ["misplaced", "warmup_steps"]


def warmup_steps(
    plans: Sequence[Plan], normalization: Normalization, dtype: str, backdrop: Backdrop = ON_WHITE
) -> Iterator[str]:
    """Run every kernel of a model's plans once on a small image, one kernel after each step.

    Parameters
    ----------
    plans : sequence of Plan
        In which all of the model's stages and views are there, in every pass order that it asks for.
    normalization : Normalization
    dtype : str
        Of the primary tensor.
    backdrop : Backdrop
        Of the policy that images will have.

    Yields
    ------
    str
        What is being compiled, or loaded from the cache, next.
    """
    done = set()
    for plan in plans:
        stages, views = (
            ((stage, BYTES, "uint8") for stage in plan.stages),
            ((view, normalization, dtype) for view in plan.views),
        )
        for view, values, kind in (*stages, *views):
            for name, small, digits in _kernels(view, plan.reference, kind):
                if name not in done:
                    done.add(name)
                    yield name
                    _run(small, plan.reference, values, kind, digits)
        for view in (*plan.stages, *plan.views):
            if backdrop.after_resize and view.method != "fixed_taps" and "composite" not in done:
                done.add("composite")
                yield "composite after the resize"
                small = _small(view)
                _run(_reading(small, small.canvas), plan.reference, BYTES, "uint8", None, backdrop)


def misplaced() -> tuple[Path, Path | None] | None:
    """Return where this process could not keep what it compiled, and where that is instead.

    Returns
    -------
    pair of Path, optional
        The wanted directory, and the one that has it, None for none; None where all is as it should be.
    """
    wanted, *others = cache_directories()
    if not compiled() or os.access(wanted, os.W_OK):
        return None
    return wanted, others[0] if others else None


def _kernels(view: View, reference: str, dtype: str) -> Iterator[tuple[str, View, int | None]]:
    """Yield the kernels of a view: what each is called, a small view that needs it, and how many digits."""
    small = _small(view)
    size = small.canvas
    if view.method == "fixed_taps":
        yield "interpolate values", _reading(small, Size(2 * size.height, 2 * size.width)), None
        return
    yield f"emit {dtype} as {view.pack.kind}, without resizing", _reading(small, size), None
    larger = _reading(small, Size(2 * size.height, size.width))
    if view.method == "linear":
        yield "resize, two taps", larger, None
        return
    orders = [False, True] if reference == "pillow" or view.vertical_first else [False]
    for vertical_first in orders:
        for digits in digit_counts(reference):
            name = f"resize, {'vertical' if vertical_first else 'horizontal'} pass first, {digits} digits"
            yield name, msgspec.structs.replace(larger, vertical_first=vertical_first), digits


def _small(view: View) -> View:
    pack = msgspec.structs.replace(view.pack, allotted=None)
    block = max(pack.block * pack.merge, 1)
    size = Size(*[-(-16 // block) * block] * 2)  # whole blocks, and a whole vector wide
    everything = {"resized": size, "crop": Box(0, 0, *size), "canvas": size, "place": (0, 0)}
    return msgspec.structs.replace(view, pack=pack, offset=0, **everything)


def _reading(view: View, size: Size) -> View:
    return msgspec.structs.replace(view, window=Box(0, 0, *size))


def _run(
    view: View,
    reference: str,
    normalization: Normalization,
    dtype: str,
    digits: int | None,
    backdrop: Backdrop | None = None,
) -> None:
    """Run a view on pixels without alpha, or, where there is a backdrop, with alpha."""
    array = np.zeros((view.window.height, view.window.width, 4 if backdrop else 3), np.uint8)
    pixels = array_pixels(array, backdrop or ON_WHITE)
    out = aligned_empty((3 * view.pack.temporal * view.canvas.height * view.canvas.width,), DTYPES[dtype])
    run_view(view, reference, normalization, pixels, dtype, out.ctypes.data, digits=digits)
