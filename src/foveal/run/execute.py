"""Plans and pixels to tensors: the one place that validates what kernels get, and calls them.

An index out of bounds in a kernel is a segmentation fault, so sizes, dtypes and memory order are settled here.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.errors import MediaError, OutputError, TargetError
from foveal.media.arrays import array_pixels
from foveal.media.pixels import Pixels
from foveal.plan.plan import BatchPlan, Normalization, Plan, View
from foveal.run.buffers import aligned_empty, borrowed, give_back, scratch
from foveal.run.fixed_taps import run_fixed_taps
from foveal.run.kept import kept
from foveal.run.layout import layout_of
from foveal.run.memory import or_release
from foveal.run.numba_threads import chosen, run_bands
from foveal.run.reading import source_of
from foveal.run.schedule import bands, free_threads, run_all, thread_count, worthwhile
from foveal.run.tables import (
    arithmetic,
    axis_weights,
    compiled_emit,
    emit_constants,
    linear_taps,
    pack_axis,
    weight_bytes,
)
from foveal.run.transparency import composited, pieces
from foveal.timings import Stage, bound_stage
from foveal.types import DTYPES, Box, Size
from foveal_kernels import target
from foveal_kernels import view as kernels
from foveal_kernels.emit import layout_words
from foveal_kernels.resample import Dot, Weights
from foveal_kernels.rules import Taps
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


Bands = Sequence[tuple[int, int]]

DECODING = 16
"""Elements that are written in the time in which a pixel of a JPEG is decoded, 6 ns."""

BYTES = Normalization(rescale=False, factor=1.0, normalize=False, mean=(0.0,) * 3, std=(1.0,) * 3)
"""Of stages: nothing is computed."""


# ---- a batch


def run_batch(
    batch: BatchPlan,
    normalization: Normalization,
    load: Sequence[Callable[[], Pixels]],
    dtype: str,
    out: npt.NDArray[Any] | None = None,
    threads: int | None = None,
    ready: Sequence[npt.NDArray[Any] | None] | None = None,
    decodes: Sequence[bool] = (),
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
    ready : sequence of ndarray or None, optional
        The part of each image that was computed before; such an image is not decoded.
    decodes : sequence of bool, optional
        Whether ``load`` takes long, of each image; by default it does not.

    Returns
    -------
    ndarray
        ``out``, or a new array that starts at a multiple of 64 bytes.

    Raises
    ------
    OutputError
        If ``out`` has a wrong shape, dtype or memory order.
    """
    work = [_work(plan, long) for plan, long in zip(batch.plans, decodes or repeat(False), strict=False)]
    count, worth = thread_count(threads), worthwhile(work)
    result = _allocated(batch.shape, dtype) if out is None else _checked(out, batch.shape, dtype)
    _zero_padding(batch, result)
    common = (result, out is not None, normalization, dtype, bound_stage())
    images = zip(batch.plans, load, batch.offsets, ready or [None] * len(load), strict=True)
    jobs = [
        _Image(position, plan, loader, offset, *common, []) if part is None else _Copy(part, offset, result, common[-1])
        for position, (plan, loader, offset, part) in enumerate(images)
    ]
    if worth == 1:
        for job in jobs:
            job.run()
        return result
    count = min(count, worth)
    if count == 1 or free_threads() < 2 or _in_turn(work, count):
        run_all([job.run for job in jobs], count)
        return result
    pictures = run_all([job.decode for job in jobs], count)
    for step in range(1 + max(len(plan.stages) for plan in batch.plans)):
        tasks = [task for job, known in zip(jobs, pictures, strict=True) for task in job.tasks(step, known, count)]
        run_all(tasks, 1 if chosen() else count)
    for job in jobs:
        job.finish()
    return result


def _work(plan: Plan, decodes: bool) -> int:
    """Elements that are written, or pixels that are read: whichever are more; and what decoding is worth."""
    written = sum(3 * view.canvas.height * view.canvas.width for view in plan.views)
    pixels = plan.height * plan.width
    return max(written, pixels) + DECODING * pixels * decodes


def _in_turn(work: Sequence[int], threads: int) -> bool:
    """Whether threads take whole images one after the other, and not bands of all of them.

    Bands need all images decoded at once. They are for few images, of which one is more than a thread's share.
    """
    return len(work) >= 2 * threads or (len(work) >= threads and threads * max(work) <= sum(work))


def _zero_padding(batch: BatchPlan, out: npt.NDArray[Any]) -> None:
    """Write zeros between the images' parts, and, where images are padded to the largest, around each."""
    padded = any(plan.views[0].pack.allotted for plan in batch.plans)
    if not padded and sum(plan.elements for plan in batch.plans) == out.size:
        return
    flat, end = out.reshape(-1), 0
    for plan, offset in zip(batch.plans, batch.offsets, strict=True):
        flat[end:offset] = 0
        end = offset + plan.elements
        height, width = plan.views[0].canvas
        if plan.views[0].pack.allotted:
            part = flat[offset:end].reshape(plan.shape)
            part[..., height:, :] = 0
            part[..., :height, width:] = 0
    flat[end:] = 0


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
    measured: Stage
    pictures: list[npt.NDArray[np.uint8]]

    def decode(self) -> dict[str, Pixels]:
        """Decode, and check that the picture is as large as its header said and lies beside a caller's ``out``."""
        with self.measured("decode"):
            pixels = self.load()
        if (pixels.height, pixels.width) != (self.plan.height, self.plan.width):
            raise MediaError(
                f"image {self.position}: decoded to {pixels.height}x{pixels.width} (height x width), "
                f"its header says {self.plan.height}x{self.plan.width}"
            )
        if self.foreign and _overlap(pixels, self.out):
            raise OutputError(f"out shares memory with image {self.position}")
        return {"image": pixels}

    def run(self) -> None:
        """Decode and write all stages and views on this thread."""
        pictures = self.decode()
        for step in range(1 + len(self.plan.stages)):
            for task in self.tasks(step, pictures, 1):
                task()
        self.finish()

    def finish(self) -> None:
        """Give back the memory of stages; after an error it is not, as something may still write there."""
        while self.pictures:
            give_back(self.pictures.pop())

    def tasks(self, step: int, pictures: dict[str, Pixels], threads: int) -> list[Callable[[], None]]:
        """Return one task for each row band of a stage, or, in the step after the last stage, of each view.

        A stage's picture is added to those that are known.
        """
        stages = self.plan.stages
        if step > len(stages):
            return []
        if step == len(stages):
            return [task for view in self.plan.views for task in self._banded(view, pictures, threads, self._write)]
        stage = stages[step]
        source = pictures[stage.reads]
        if source.alpha is None and _repeats(stage, Size(source.height, source.width)):
            pictures[stage.name] = source
            return []
        picture = self._picture(stage)
        tasks = self._banded(stage, pictures, threads, partial(self._draw, picture))
        pictures[stage.name] = array_pixels(picture)
        return tasks

    def _picture(self, stage: View) -> npt.NDArray[np.uint8]:
        """Return memory for a stage: in the output itself, where only the next stage reads it and views come later."""
        shape, (first, *others), views = (*stage.canvas, 3), self.plan.stages, self.plan.views
        part = self.out.reshape(-1)[self.offset : self.offset + self.plan.elements].view(np.uint8)
        read_later = any(view.reads == stage.name for view in views) or any(
            _repeats(other, stage.canvas) for other in others
        )
        if stage is not first or read_later or part.size < math.prod(shape) or views[0].pack.allotted:
            self.pictures.append(borrowed(shape))
            return self.pictures[-1]
        return part[: math.prod(shape)].reshape(shape)

    def _banded(
        self, view: View, pictures: dict[str, Pixels], threads: int, write: Callable[..., None]
    ) -> list[Callable[[], None]]:
        pixels = pictures[view.reads]
        work = max(3 * view.canvas.height * view.canvas.width, pixels.height * pixels.width)
        multiple = max(view.pack.block * view.pack.merge, 1)
        rows = bands(view.canvas.height, work, threads, multiple)
        composited_later = pixels.backdrop.after_resize and pixels.alpha is not None
        if len(rows) > 1 and view.method != "fixed_taps" and not composited_later and chosen():
            return [partial(write, view, pixels, 0, view.canvas.height, rows)]
        return [partial(write, view, pixels, start, stop) for start, stop in rows]

    def _write(self, view: View, pixels: Pixels, start: int, stop: int, rows: Bands = ()) -> None:
        address = self.out.ctypes.data + self.offset * self.out.itemsize
        with self.measured("resize"):
            run_view(view, self.plan.reference, self.normalization, pixels, self.dtype, address, start, stop, rows=rows)

    def _draw(
        self, picture: npt.NDArray[np.uint8], view: View, pixels: Pixels, start: int, stop: int, rows: Bands = ()
    ) -> None:
        with self.measured("resize"):
            run_view(view, self.plan.reference, BYTES, pixels, "uint8", picture.ctypes.data, start, stop, rows=rows)


class _Copy(NamedTuple):
    """One image of a batch whose part is there already: where to copy it."""

    part: npt.NDArray[Any]
    offset: int
    out: npt.NDArray[Any]
    measured: Stage

    def decode(self) -> dict[str, Pixels]:
        return {}

    def run(self) -> None:
        with self.measured("copy"):
            self.out.reshape(-1)[self.offset : self.offset + self.part.size] = self.part

    def tasks(self, step: int, pictures: dict[str, Pixels], threads: int) -> list[Callable[[], None]]:
        return [] if step else [self.run]

    def finish(self) -> None:
        pass


def _repeats(view: View, size: Size) -> bool:
    """Whether a view, or stage, is the picture of this size that it reads, pixel for pixel."""
    whole = (0, 0, *size)
    return (view.window, view.resized, view.crop, view.canvas, view.place) == (whole, size, whole, size, (0, 0))


def _overlap(pixels: Pixels, out: npt.NDArray[Any]) -> bool:
    """Whether a row of an image and an output array may share bytes.

    Each row counts for itself: a large Pillow image lies in several blocks of memory, and ``out`` may lie between them.
    """
    across = (pixels.width - 1) * pixels.step
    before = min(across, 0)
    behind = max(across, 0) + max(*pixels.channels, pixels.alpha or 0) + 1
    start = int(out.ctypes.data)
    stop = start + out.nbytes
    lowest, highest = np.minimum.reduce(pixels.rows), np.maximum.reduce(pixels.rows)  # half the time of min() and max()
    if int(highest) + behind <= start or int(lowest) + before >= stop:
        return False
    rows = pixels.rows.astype(np.int64)
    return bool(((rows + before < stop) & (start < rows + behind)).any())


def _allocated(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    try:
        return or_release(lambda: aligned_empty(shape, DTYPES[dtype]))
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


class Blend(NamedTuple):
    """The taps of a linear resize.

    Attributes
    ----------
    across, down : Taps
    columns : tuple of int
        First source column that is read, and the number of columns.
    """

    across: Taps
    down: Taps
    columns: tuple[int, int]


class Prepared(NamedTuple):
    """All that a view needs and that does not depend on pixels; ``owners`` keeps alive what addresses point to."""

    canvas: Canvas
    emitter: Emitter
    resize: Passes | Blend | None
    owners: tuple[Any, ...]


@kept
def prepare(
    view: View, reference: str, normalization: Normalization, dtype: str, digits: int | None = None
) -> Prepared:
    """Build the tables of a view; ``digits`` forces more digits than the weights need."""
    instruction_level()  # refuses a wrong level before kernels are compiled for it
    layout, item = layout_of(view), DTYPES[dtype].itemsize
    values = arithmetic(normalization, reference, dtype, layout.interleaved)
    function = compiled_emit(values.form, values.dtype, layout.interleaved)
    plane = kernels.canvas_plane(view.canvas.width)
    columns, channels = layout.columns * item, layout.channels * item
    constants = emit_constants(values, layout.interleaved)
    tables = (columns, channels, layout.copies, layout.gap * item, constants, values.values)
    words = layout_words(plane, layout.side, layout.step * item, layout.run, layout.merge, *tables)
    emitter = Emitter(function.address, words, layout.rows * item, layout.side, layout.band)
    canvas = Canvas(*view.place, view.canvas.width, *view.fill)
    return Prepared(canvas, emitter, _resize(view, reference, digits), (function, columns, channels, constants, values))


def _resize(view: View, reference: str, digits: int | None) -> Passes | Blend | None:
    if view.resized == (view.window.height, view.window.width):
        return None
    return _blend(view) if view.method == "linear" else _passes(view, reference, digits)


def _blend(view: View) -> Blend:
    top, left, height, width = view.crop
    across = linear_taps(view.window.width, view.resized.width, left, width)
    first, end = int(across.first[0]), int(across.second[-1]) + 1
    across = across._replace(first=across.first - np.int32(first), second=across.second - np.int32(first))
    return Blend(across, linear_taps(view.window.height, view.resized.height, top, height), (first, end - first))


TORCH_SMALL = 128
"""Height and width together up to which torch resizes with another kernel.

Source: torch 2.14.1, aten/src/ATen/native/cpu/UpSampleKernel.cpp, _use_vectorized_kernel_cond_2d.
"""


def _passes(view: View, reference: str, digits: int | None) -> Passes:
    level = target.LEVELS[instruction_level()]
    window, (top, left, height, width) = view.window, view.crop
    small = view.resized.height + view.resized.width <= TORCH_SMALL
    across = axis_weights(window.width, view.resized.width, view.filter, reference, left, width, small)
    down = axis_weights(window.height, view.resized.height, view.filter, reference, top, height, small)
    if digits is None:
        needed = (digits_needed(axis.weights, level) for axis in (across, down))
        digits = max(*needed, digit_counts(reference)[0])
    horizontal, first = _from_first_group(pack_axis(across, level, digits))
    vertical = pack_axis(down, level, digits)
    end = 4 * (first + int(horizontal.groups.sum(axis=1).max()))
    columns = (4 * first, min(end, window.width) - 4 * first)
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
    rows: Bands = (),
) -> None:
    """Write the canvas rows ``start .. stop`` of a view into memory at ``address``.

    With ``rows``, bands that are these rows together, Numba's threads do it.

    Notes
    -----
    The memory must hold the image's part of the primary tensor; nothing outside the rows' elements is written.
    """
    stop = view.canvas.height if stop is None else stop
    if pixels.backdrop.after_resize and pixels.alpha is not None:
        multiple = max(view.pack.block * view.pack.merge, 1)
        for first, end in pieces(start, stop, view.canvas.width, multiple):
            part, resized = composited(view, pixels, first, end, partial(_draw_bytes, reference))
            _write_rows(part, reference, normalization, resized, dtype, address, ((first, end),), digits)
        return
    _write_rows(view, reference, normalization, pixels, dtype, address, rows or ((start, stop),), digits)


def _write_rows(
    view: View,
    reference: str,
    normalization: Normalization,
    pixels: Pixels,
    dtype: str,
    address: int,
    rows: Bands,
    digits: int | None,
) -> None:
    """Write canvas rows of a view whose pixels need nothing before the resize."""
    if view.method == "fixed_taps":
        run_fixed_taps(view, reference, normalization, pixels, dtype, address, rows[0][0], rows[-1][1])
        return
    canvas, emitter, resize, _ = prepare(view, reference, normalization, dtype, digits)
    source, _edge = source_of(pixels, _read_part(view, resize), view.border)
    where = (canvas, emitter)
    if resize is None:
        _place(source, where, address, rows)
    elif isinstance(resize, Blend):
        _linear(source, resize, where, address, rows)
    elif view.vertical_first:
        _vertical_first(source, resize, where, address, rows)
    else:
        _horizontal_first(source, resize, where, address, rows)


def _draw_bytes(reference: str, view: View, pixels: Pixels, picture: npt.NDArray[np.uint8]) -> None:
    """Run a view of bytes into an array (height, width, 3)."""
    run_view(view, reference, BYTES, pixels, "uint8", picture.ctypes.data)


def _read_part(view: View, resize: Passes | Blend | None) -> Box:
    """Return the part of what a view reads whose pixels a kernel is given."""
    top, left, height, _ = view.window
    if resize is None:
        return Box(top + view.crop.top, left + view.crop.left, view.crop.height, view.crop.width)
    first, count = resize.columns
    return Box(top, left + first, height, count)


def _canvas_numbers(where: tuple[Canvas, Emitter]) -> tuple[int, int]:
    """Return canvas width and rows of a band, which scratch memory depends on."""
    canvas, emitter = where
    return canvas.width, emitter.band


def _place(source: Source, where: tuple[Canvas, Emitter], address: int, rows: Bands) -> None:
    size = kernels.place_scratch(source.width, *_canvas_numbers(where))
    _call(kernels.place, (source, *where), (size, 0), (address,), rows)


def _linear(source: Source, resize: Blend, where: tuple[Canvas, Emitter], address: int, rows: Bands) -> None:
    across, down, _ = resize
    size = kernels.linear_scratch(source.width, len(across.first), *_canvas_numbers(where))
    _call(kernels.resample_linear, (source, across, down, *where), (size, 0), (address,), rows)


def _horizontal_first(source: Source, passes: Passes, where: tuple[Canvas, Emitter], address: int, rows: Bands) -> None:
    dot, horizontal, vertical, *_ = passes
    window = kernels.window_groups(vertical.packed.shape[1], weight_bytes(*dot.values))
    size = kernels.horizontal_first_scratch(source.width, len(horizontal.groups), window, *_canvas_numbers(where))
    inputs = (dot, source, horizontal, vertical, *where)
    _call(kernels.resample_horizontal_first, inputs, (size, 2 * kernels.BLOCK), (address,), rows)


def _vertical_first(source: Source, passes: Passes, where: tuple[Canvas, Emitter], address: int, rows: Bands) -> None:
    dot, horizontal, vertical, _, span = passes
    readable = is_interleaved.py_func(source) and row_bytes.py_func(source) >= kernels.VECTOR
    staged = 0 if readable else span
    size = kernels.vertical_first_scratch(source.width, len(horizontal.groups), staged, *_canvas_numbers(where))
    inputs, addresses = (dot, source, horizontal, vertical, *where), 2 * kernels.BLOCK + len(source.rows)
    _call(kernels.resample_vertical_first, inputs, (size, addresses), (staged, address), rows)


def _call(kernel: Any, inputs: tuple[Any, ...], needed: tuple[int, int], outputs: tuple[int, ...], rows: Bands) -> None:
    """Call a kernel with scratch memory of so many bytes and row addresses, here or on Numba's threads."""
    if len(rows) > 1:
        run_bands(kernel.__name__, inputs, needed, outputs, rows)
    else:
        kernel(*inputs, Scratch(*scratch(*needed)), *outputs, *rows[0])
