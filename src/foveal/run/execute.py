"""Plans and pixels to tensors: the one place that validates what kernels get, and calls them.

An index out of bounds in a kernel is a segmentation fault, so sizes, dtypes and memory order are settled here.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.errors import MediaError, OutputError, TargetError
from foveal.media.pixels import Pixels
from foveal.plan.plan import BatchPlan, Normalization, Plan, View
from foveal.run.buffers import aligned_empty, scratch
from foveal.run.layout import layout_of
from foveal.run.schedule import bands, run_all, thread_count
from foveal.run.tables import arithmetic, axis_weights, compiled_emit, pack_axis, weight_bytes
from foveal.types import DTYPES, Size
from foveal_kernels import target
from foveal_kernels import view as kernels
from foveal_kernels.emit import layout_words
from foveal_kernels.resample import Dot, Weights
from foveal_kernels.source import Source, is_interleaved, row_bytes
from foveal_kernels.view import Canvas, Emitter, Scratch
from foveal_kernels.weights import DIGITS, digits_needed

__all__ = ["digit_counts", "instruction_level", "prepare", "run_batch", "run_view"]


def instruction_level() -> str:
    """Return the name of this process's instruction level: vnni, avx2 or generic."""
    try:
        return str(target.level())
    except ValueError as error:
        raise TargetError(str(error)) from None


# ---- a batch


def run_batch(
    batch: BatchPlan,
    normalization: Normalization,
    load: Sequence[Callable[[], Pixels]],
    dtype: str,
    out: npt.NDArray[Any] | None = None,
    threads: int | None = None,
) -> npt.NDArray[Any]:
    """Decode the images of a batch and write their primary tensor.

    Parameters
    ----------
    batch : BatchPlan
    normalization : Normalization
    load : sequence of callables
        Decodes each image; called on worker threads.
    dtype : str
        One of `foveal.types.PRIMARY_DTYPES`.
    out : ndarray, optional
        C-contiguous array of the batch's shape and the dtype, to be written instead of a new one.
    threads : int, optional
        Threads to use at most; all that are available by default.

    Returns
    -------
    ndarray
        ``out``, or a new array that starts at a multiple of 64 bytes.

    Raises
    ------
    OutputError
        If ``out`` has a wrong shape, dtype or memory order.
    """
    count = thread_count(threads)
    result = _allocated(batch.shape, dtype) if out is None else _checked(out, batch.shape, dtype)
    offsets = accumulate((plan.elements for plan in batch.plans[:-1]), initial=0)
    images = enumerate(zip(batch.plans, load, offsets, strict=True))
    jobs = [_Image(position, *image, result, out is not None, normalization, dtype) for position, image in images]
    if count == 1 or len(jobs) >= count:
        run_all([job.run for job in jobs], count)
        return result
    pixels = run_all([job.decode for job in jobs], count)
    run_all([task for job, image in zip(jobs, pixels, strict=True) for task in job.banded(image, count)], count)
    return result


class _Image(NamedTuple):
    """One image of a batch: what to decode and where to write it.

    It holds the array and not its address: after an interrupt a thread may still write when the caller has gone.
    """

    position: int
    plan: Plan
    load: Callable[[], Pixels]
    offset: int
    out: npt.NDArray[Any]
    foreign: bool
    normalization: Normalization
    dtype: str

    def decode(self) -> Pixels:
        """Decode, and check that the picture is as large as its header said and lies beside a caller's ``out``."""
        pixels = self.load()
        if (pixels.height, pixels.width) != (self.plan.height, self.plan.width):
            raise MediaError(
                f"image {self.position}: decoded to {pixels.height}x{pixels.width} (height x width), "
                f"its header says {self.plan.height}x{self.plan.width}"
            )
        if self.foreign and _overlap(pixels, self.out):
            raise OutputError(f"out shares memory with image {self.position}")
        return pixels

    def run(self) -> None:
        """Decode and write all views on this thread."""
        pixels = self.decode()
        for view in self.plan.views:
            self._view(view, pixels)

    def banded(self, pixels: Pixels, threads: int) -> list[Callable[[], None]]:
        """Return one task for each row band of each view."""
        tasks: list[Callable[[], None]] = []
        for view in self.plan.views:
            work = max(3 * view.canvas.height * view.canvas.width, pixels.height * pixels.width)
            for start, stop in bands(view.canvas.height, work, threads, max(view.pack.block * view.pack.merge, 1)):
                tasks.append(partial(self._view, view, pixels, start, stop))
        return tasks

    def _view(self, view: View, pixels: Pixels, start: int = 0, stop: int | None = None) -> None:
        address = self.out.ctypes.data + self.offset * self.out.itemsize
        run_view(view, self.plan.reference, self.normalization, pixels, self.dtype, address, start, stop)


def _overlap(pixels: Pixels, out: npt.NDArray[Any]) -> bool:
    """Whether an array that is an image and an output array may share bytes; its rows are evenly spaced."""
    ends = (int(pixels.rows[0]), int(pixels.rows[-1]))
    across = (pixels.width - 1) * pixels.step
    first = min(ends) + min(across, 0)
    last = max(ends) + max(across, 0) + max(*pixels.channels, pixels.alpha or 0) + 1
    start = int(out.ctypes.data)
    return first < start + out.nbytes and start < last


def _allocated(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    try:
        return aligned_empty(shape, DTYPES[dtype])
    except (MemoryError, ValueError):
        size = math.prod(shape) * DTYPES[dtype].itemsize
        raise OutputError(f"the primary tensor {shape} needs {size} bytes, which cannot be had") from None


def _checked(out: object, shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    if not isinstance(out, np.ndarray):
        raise OutputError("out must be a NumPy array")
    if out.shape != shape:
        raise OutputError(f"out has shape {out.shape}, this call needs {shape}")
    if out.dtype != DTYPES[dtype]:
        raise OutputError(f"out has dtype {out.dtype}, this call needs {dtype}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise OutputError("out must be C-contiguous and writeable")
    return out


# ---- a view


class Passes(NamedTuple):
    """The two passes of a resize.

    Attributes
    ----------
    dot : Dot
    horizontal, vertical : Weights
    columns : tuple of int
        First source column and number of columns that the horizontal pass reads: fewer than all where it is cropped.
    span : int
        Source rows that a block of the vertical-first order reads at most.
    """

    dot: Any
    horizontal: Weights
    vertical: Weights
    columns: tuple[int, int]
    span: int


class Prepared(NamedTuple):
    """All that a view needs and that does not depend on pixels; ``owners`` keeps alive what addresses point to."""

    canvas: Canvas
    emitter: Emitter
    passes: Passes | None
    owners: tuple[Any, ...]


@lru_cache(maxsize=256)
def prepare(
    view: View, source: Size, reference: str, normalization: Normalization, dtype: str, digits: int | None = None
) -> Prepared:
    """Build the tables of a view for a source of this size; ``digits`` forces more digits than the weights need."""
    layout, item = layout_of(view), DTYPES[dtype].itemsize
    values = arithmetic(normalization, reference, dtype)
    function = compiled_emit(values.form, values.dtype)
    plane = kernels.canvas_plane(view.canvas.width)
    columns, channels = layout.columns * item, layout.channels * item
    tables = (columns, channels, layout.copies, layout.gap * item, values.constants, values.values)
    words = layout_words(plane, layout.side, layout.step * item, layout.run, layout.merge, *tables)
    emitter = Emitter(function.address, words, layout.rows * item, layout.side, layout.band)
    canvas = Canvas(*view.place, view.canvas.width, *view.fill)
    passes = None if view.resized == source else _passes(view, source, reference, digits)
    return Prepared(canvas, emitter, passes, (function, columns, channels, values))


def _passes(view: View, source: Size, reference: str, digits: int | None) -> Passes:
    level = target.LEVELS[instruction_level()]
    top, left, height, width = view.crop
    across = axis_weights(source.width, view.resized.width, view.filter, reference, left, width)
    down = axis_weights(source.height, view.resized.height, view.filter, reference, top, height)
    if digits is None:
        needed = (digits_needed(axis.weights, level) for axis in (across, down))
        digits = max(*needed, digit_counts(reference)[0])
    horizontal, first = _from_first_group(pack_axis(across, level, digits))
    vertical = pack_axis(down, level, digits)
    end = 4 * (first + int(horizontal.groups.sum(axis=1).max()))
    columns = (4 * first, min(end, source.width) - 4 * first)
    return Passes(Dot(level=level, digits=digits), horizontal, vertical, columns, _block_span(vertical))


def digit_counts(reference: str) -> tuple[int, ...]:
    """Return the numbers of weight digits that a reference's tables can need, each one a kernel of its own.

    Pillow's always take the most: fewer would do only below 1/128 of the source's size.
    """
    fewest, most = DIGITS[target.LEVELS[instruction_level()]]
    return tuple(sorted({fewest, most})) if reference == "torchvision" else (most,)


def _from_first_group(weights: Weights) -> tuple[Weights, int]:
    """Count groups of source samples from the first one that is read; return it too."""
    first = int(weights.groups[:, 0].min())
    return weights._replace(groups=weights.groups - np.array([first, 0], np.int32)), first


def _block_span(vertical: Weights) -> int:
    """Source rows that a block of output rows reads at most, in the vertical-first order."""
    starts = vertical.groups[:, 0] * 4
    ends = (vertical.groups[:, 0] + vertical.groups[:, 1]) * 4
    last = np.minimum(np.arange(len(starts)) + kernels.BLOCK - 1, len(starts) - 1)
    return int((ends[last] - starts).max())


def run_view(
    view: View,
    reference: str,
    normalization: Normalization,
    pixels: Pixels,
    dtype: str,
    address: int,
    start: int = 0,
    stop: int | None = None,
    digits: int | None = None,
) -> None:
    """Write the canvas rows ``start .. stop`` of a view into memory at ``address``.

    Notes
    -----
    The memory must hold the image's part of the primary tensor; nothing outside the rows' elements is written.
    """
    prepared = prepare(view, Size(pixels.height, pixels.width), reference, normalization, dtype, digits)
    stop = view.canvas.height if stop is None else stop
    source = _source(pixels)
    where = (prepared.canvas, prepared.emitter)
    if prepared.passes is None:
        top, left, height, width = view.crop
        source = _columns(source._replace(rows=source.rows[top : top + height]), left, width)
        _place(source, where, address, start, stop)
        return
    source = _columns(source, *prepared.passes.columns)
    resample = _vertical_first if view.vertical_first else _horizontal_first
    resample(source, prepared.passes, where, address, start, stop)


def _columns(source: Source, first: int, count: int) -> Source:
    """Return the source's columns ``first .. first + count``."""
    if first == 0 and count == source.width:
        return source
    return source._replace(rows=source.rows + np.uint64(first * source.step % (1 << 64)), width=count)


def _canvas_numbers(where: tuple[Canvas, Emitter]) -> tuple[int, int, int]:
    """Return canvas width, rows of a band and rows of a patch, which scratch memory depends on."""
    canvas, emitter = where
    return canvas.width, emitter.band, emitter.side


def _place(source: Source, where: tuple[Canvas, Emitter], address: int, start: int, stop: int) -> None:
    memory = Scratch(*scratch(kernels.place_scratch(source.width, *_canvas_numbers(where)), 0))
    kernels.place(source, *where, memory, address, start, stop)


def _horizontal_first(
    source: Source, passes: Passes, where: tuple[Canvas, Emitter], address: int, start: int, stop: int
) -> None:
    dot, horizontal, vertical, *_ = passes
    window = kernels.window_groups(vertical.packed.shape[1], weight_bytes(*dot.values))
    size = kernels.horizontal_first_scratch(source.width, len(horizontal.groups), window, *_canvas_numbers(where))
    memory = Scratch(*scratch(size, 2 * kernels.BLOCK))
    kernels.resample_horizontal_first(dot, source, horizontal, vertical, *where, memory, address, start, stop)


def _vertical_first(
    source: Source, passes: Passes, where: tuple[Canvas, Emitter], address: int, start: int, stop: int
) -> None:
    dot, horizontal, vertical, _, span = passes
    readable = is_interleaved.py_func(source) and row_bytes.py_func(source) >= kernels.VECTOR
    staged = 0 if readable else span
    size = kernels.vertical_first_scratch(source.width, len(horizontal.groups), staged, *_canvas_numbers(where))
    memory = Scratch(*scratch(size, 2 * kernels.BLOCK + len(source.rows)))
    kernels.resample_vertical_first(dot, source, horizontal, vertical, *where, memory, staged, address, start, stop)


def _source(pixels: Pixels) -> Source:
    opaque = pixels.alpha is None
    alpha = 0 if pixels.alpha is None else pixels.alpha
    return Source(pixels.rows, pixels.width, pixels.step, *pixels.channels, alpha, opaque, *pixels.background)
