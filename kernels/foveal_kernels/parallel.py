"""The kernels of `view.py` on Numba's own threads: row bands of one view, an iteration of `prange` each.

The same functions on the same bands give the same bits. They are compiled only where Numba's threads are asked for: a
parallel kernel takes three times as long to compile, and its threading layers have conditions of their own.
"""

from numba import prange

from .compile import parallel_kernel
from .view import Scratch, place, resample_horizontal_first, resample_linear, resample_vertical_first

__all__ = ["place_bands", "resample_horizontal_first_bands", "resample_linear_bands", "resample_vertical_first_bands"]


@parallel_kernel
def resample_horizontal_first_bands(dot, source, horizontal, vertical, canvas, emitter, scratch, out, edges):
    """Run `resample_horizontal_first` for every band.

    Parameters
    ----------
    dot, source, horizontal, vertical, canvas, emitter, out
        As for `resample_horizontal_first`.
    scratch : Scratch
        A row of memory and one of addresses for every band.
    edges : intp[bands + 1]
        Canvas rows at which the bands begin, and the row behind the last.
    """
    for i in prange(edges.shape[0] - 1):
        own = Scratch(scratch.memory[i], scratch.addresses[i])
        resample_horizontal_first(dot, source, horizontal, vertical, canvas, emitter, own, out, edges[i], edges[i + 1])


@parallel_kernel
def resample_vertical_first_bands(dot, source, horizontal, vertical, canvas, emitter, scratch, staged_rows, out, edges):
    """Run `resample_vertical_first` for every band; arguments as for `resample_horizontal_first_bands`."""
    for i in prange(edges.shape[0] - 1):
        own = Scratch(scratch.memory[i], scratch.addresses[i])
        resample_vertical_first(
            dot, source, horizontal, vertical, canvas, emitter, own, staged_rows, out, edges[i], edges[i + 1]
        )


@parallel_kernel
def resample_linear_bands(source, across, down, canvas, emitter, scratch, out, edges):
    """Run `resample_linear` for every band; arguments as for `resample_horizontal_first_bands`."""
    for i in prange(edges.shape[0] - 1):
        own = Scratch(scratch.memory[i], scratch.addresses[i])
        resample_linear(source, across, down, canvas, emitter, own, out, edges[i], edges[i + 1])


@parallel_kernel
def place_bands(source, canvas, emitter, scratch, out, edges):
    """Run `place` for every band; arguments as for `resample_horizontal_first_bands`."""
    for i in prange(edges.shape[0] - 1):
        own = Scratch(scratch.memory[i], scratch.addresses[i])
        place(source, canvas, emitter, own, out, edges[i], edges[i + 1])
