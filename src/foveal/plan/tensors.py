"""Small tensors beside the pixels: the shape of an image's part, its values, and how those of a batch are joined.

A value is a pair of functions: the shape of one image's part follows from its plan, and its numbers are written into an
array that is already there and holds the padding. So a mask of a batch costs one fill, however large it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from foveal.plan.plan import BatchPlan, Plan, SideTensor
from foveal.plan.slots import slots
from foveal.spec.schema import Spec, Tensor
from foveal.spec.steps import OverlappingCrops
from foveal.types import DTYPES, Size

__all__ = ["batch_tensors", "side_tensors"]

Array = npt.NDArray[Any]


class Value(NamedTuple):
    """Shape of an image's part, its first axis being that of rows or blocks, and the function that writes it."""

    shape: Callable[[Spec, Tensor, Plan], tuple[int, ...]]
    write: Callable[[Array, Spec, Tensor, Plan], None]


def side_tensors(spec: Spec, plan: Plan) -> Plan:
    """Return a plan with the small tensors of its image."""
    tensors = [
        SideTensor(tensor.name, tensor.dtype, _VALUES[tensor.value].shape(spec, tensor, plan))
        for tensor in spec.tensors
        if tensor.value in _VALUES
    ]
    return msgspec.structs.replace(plan, tensors=tuple(tensors))


def batch_tensors(spec: Spec, batch: BatchPlan, hf: bool = True) -> dict[str, Array]:
    """Return the small tensors of a batch.

    Parameters
    ----------
    spec : Spec
    batch : BatchPlan
    hf : bool
        Only those that the reference returns; otherwise those for engines too.

    Returns
    -------
    dict of ndarray
        By name, in the order of the spec.
    """
    wanted = [tensor for tensor in spec.tensors if tensor.value != "primary" and (tensor.hf or not hf)]
    return {tensor.name: _joined(spec, batch, tensor) for tensor in wanted}


def _joined(spec: Spec, batch: BatchPlan, tensor: Tensor) -> Array:
    if tensor.value == "images_of_sample":
        return np.array([count for count in batch.samples if count], DTYPES[tensor.dtype])
    value = _VALUES[tensor.value]
    shapes = [value.shape(spec, tensor, plan) for plan in batch.plans]
    if tensor.join == "images":
        return _by_image(spec, batch, tensor, shapes[0])
    rows = msgspec.structs.replace(spec.image.batch, join="concat", count=None, spare=0, by_sample=False)
    lengths = [shape[0] for shape in shapes]
    places, leading = slots(spec.image.batch if tensor.join == "blocks" else rows, lengths, batch.samples)
    out = _padding((*leading, *shapes[0][1:]), tensor)
    before = 0
    for plan, slot, length in zip(batch.plans, places, lengths, strict=True):
        part = out[slot.place][slot.start : slot.start + length]
        value.write(part, spec, tensor, plan)
        if tensor.value == "pooling":
            part[part >= 0] += before
            before += plan.shape[0] * plan.shape[1]
    return out


def _padding(shape: tuple[int, ...], tensor: Tensor) -> Array:
    """Return an array that is all padding; zeros are written by nobody until something else is."""
    dtype = DTYPES[tensor.dtype]
    return np.full(shape, tensor.pad, dtype) if tensor.pad else np.zeros(shape, dtype)


def _by_image(spec: Spec, batch: BatchPlan, tensor: Tensor, shape: tuple[int, ...]) -> Array:
    """Return rows by sample and image; samples with fewer images are padded."""
    out = _padding((len(batch.samples), max(batch.samples), *shape[1:]), tensor)
    if tensor.value == "tile_mask":
        out[..., 0] = 1  # the reference says so of images that are not there, too
    plans = iter(batch.plans)
    for sample, count in enumerate(batch.samples):
        for number in range(count):
            _VALUES[tensor.value].write(out[sample, number : number + 1], spec, tensor, next(plans))
    return out


# ---- values


def _row(numbers: Callable[[Spec, Tensor, Plan], Sequence[int]]) -> Value:
    """Return the value of one row of numbers for an image."""

    def write(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
        out[0] = numbers(spec, tensor, plan)

    return Value(lambda spec, tensor, plan: (1, len(numbers(spec, tensor, plan))), write)


def _number(number: Callable[[Spec, Plan], int]) -> Value:
    """Return the value of one number for an image."""

    def write(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
        out[0] = number(spec, plan)

    return Value(lambda spec, tensor, plan: (1,), write)


def _patch_grid(plan: Plan) -> tuple[int, int]:
    view = plan.views[0]
    return view.canvas.height // view.pack.block, view.canvas.width // view.pack.block


def _cut(spec: Spec, plan: Plan) -> Size:
    """Return the canvas of the stage or view that is cut into tiles."""
    name = spec.image.grid or spec.image.views[0].name
    return next((view.canvas for view in (*plan.stages, *plan.views) if view.name == name), plan.views[0].canvas)


def _tile_grid_id(spec: Spec, plan: Plan) -> int:
    """Return the place, from 1, of rows and columns among all grids, ordered by rows, then columns.

    Source: transformers 5.24.0, models/mllama/image_processing_mllama.py.
    """
    most = spec.image.batch.room
    rows, columns = plan.grid
    return sum(most // row for row in range(1, rows)) + columns


def _write_ones(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
    out[...] = 1


def _write_tile_mask(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
    out[0, : plan.shape[0]] = 1


def _patch_mask_shape(spec: Spec, tensor: Tensor, plan: Plan) -> tuple[int, ...]:
    side = plan.shape[-1] // (tensor.patch or 1)
    return (plan.shape[0], side, side)


def _write_patch_mask(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
    """Write 0 where a patch holds nothing but padding, tile by tile; 1 for the global view, which comes first.

    Source: transformers 5.24.0, models/phi4_multimodal/image_processing_phi4_multimodal.py.
    """
    stage = plan.stages[0]
    rows, columns = plan.grid
    side = out.shape[-1]
    mask = np.ones((rows * side, columns * side), out.dtype)
    below, beside = ((stage.canvas[axis] - stage.resized[axis]) // (tensor.patch or 1) for axis in (0, 1))
    mask[len(mask) - below :] = 0
    mask[:, mask.shape[1] - beside :] = 0
    out[0] = 1
    out[1:] = mask.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(-1, side, side)


def _write_positions(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
    """Write column and row of each patch.

    Source: transformers 5.24.0, models/gemma4/image_processing_gemma4.py.
    """
    rows, columns = _patch_grid(plan)
    out[:, 0] = np.tile(np.arange(columns), rows)
    out[:, 1] = np.repeat(np.arange(rows), columns)


# ---- pooling of overlapping crops


def _pooled_grids(spec: Spec, tensor: Tensor, plan: Plan) -> tuple[int, int, int, int]:
    """Return pooled rows and columns of the whole image in one crop, and of the canvas."""
    rows, columns = _patch_grid(plan)
    high, wide = tensor.pool
    return -(-rows // high), -(-columns // wide), -(-plan.grid[0] // high), -(-plan.grid[1] // wide)


def _pooling_shape(spec: Spec, tensor: Tensor, plan: Plan) -> tuple[int, ...]:
    low_rows, low_columns, rows, columns = _pooled_grids(spec, tensor, plan)
    return (low_rows * low_columns + rows * columns, tensor.pool[0] * tensor.pool[1])


def _write_pooling(out: Array, spec: Spec, tensor: Tensor, plan: Plan) -> None:
    """Write which patches each feature is pooled from: first of the whole image, then of the canvas; -1 for none.

    Source: transformers 5.24.0, models/molmo2/image_processing_molmo2.py.
    """
    crops = next(view.windows for view in spec.image.views if isinstance(view.windows, OverlappingCrops))
    side = crops.tile // crops.patch
    row_crop, row = _owners(plan.grid[0], side, crops)
    column_crop, column = _owners(plan.grid[1], side, crops)
    crop = row_crop[:, None] * (column_crop[-1] + 1) + column_crop
    canvas = (crop + 1) * side**2 + row[:, None] * side + column
    whole = _pooled(np.arange(side**2).reshape(side, side), tensor.pool)
    out[: len(whole)] = whole
    out[len(whole) :] = _pooled(canvas, tensor.pool)


def _owners(length: int, side: int, crops: OverlappingCrops) -> tuple[Array, Array]:
    """Return for each patch along an axis of the canvas the crop that it is taken from, and its place in there.

    Of the patches that two crops share, the crop behind leaves out its first ``before``, the other crop the rest.
    """
    patch, shared = np.arange(length), crops.before + crops.after
    step = side - shared
    crop = np.clip((patch - crops.before) // step, 0, (length - shared) // step - 1)
    return crop, patch - crop * step


def _pooled(patches: Array, pool: tuple[int, int]) -> Array:
    """Return windows of patches in rows, after padding with -1 on all sides, the odd one below or to the right."""
    (high, wide), (rows, columns) = pool, patches.shape
    down, across = -rows % high, -columns % wide
    padded = np.pad(patches, ((down // 2, -(-down // 2)), (across // 2, -(-across // 2))), constant_values=-1)
    rows, columns = padded.shape[0] // high, padded.shape[1] // wide
    return padded.reshape(rows, high, columns, wide).swapaxes(1, 2).reshape(rows * columns, high * wide)


_VALUES: dict[str, Value] = {
    "grid_thw": _row(lambda spec, tensor, plan: (1, *_patch_grid(plan))),
    "grid_hw": _row(lambda spec, tensor, plan: _patch_grid(plan)),
    "tile_grid": _row(lambda spec, tensor, plan: plan.grid),
    "image_size": _row(lambda spec, tensor, plan: (plan.height, plan.width)),
    "canvas_size": _row(lambda spec, tensor, plan: _cut(spec, plan)),
    "pooled_grids": _row(_pooled_grids),
    "tile_grid_id": _number(_tile_grid_id),
    "blocks": _number(lambda spec, plan: plan.shape[0]),
    "crops": _number(lambda spec, plan: len(plan.views) - 1),
    "features": _number(lambda spec, plan: plan.features),
    "tile_mask": Value(lambda spec, tensor, plan: (1, spec.image.batch.room), _write_tile_mask),
    "pixel_mask": Value(lambda spec, tensor, plan: (plan.shape[0], *plan.shape[-2:]), _write_ones),
    "block_mask": Value(lambda spec, tensor, plan: (plan.shape[0],), _write_ones),
    "patch_mask": Value(_patch_mask_shape, _write_patch_mask),
    "patch_positions": Value(lambda spec, tensor, plan: (plan.shape[0], 2), _write_positions),
    "pooling": Value(_pooling_shape, _write_pooling),
}
