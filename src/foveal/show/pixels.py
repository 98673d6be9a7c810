"""From a tensor back to pictures."""

import numpy as np
import numpy.typing as npt

from foveal.plan.plan import Normalization, Pack, Plan, View
from foveal.types import Size

__all__ = ["Picture", "stage_pixels", "view_pixels"]

Picture = npt.NDArray[np.uint8]


def view_pixels(plan: Plan, values: npt.NDArray[np.generic], normalization: Normalization) -> list[Picture]:
    """Return the canvas of every view, uint8 (height, width, 3), as one image's part of the primary tensor holds it.

    Parameters
    ----------
    plan : Plan
    values : ndarray
        At least ``plan.elements`` elements, of which the first are the image's; uint8 where the tensor holds bytes.
    normalization : Normalization
        What made the values from bytes.
    """
    flat = values.reshape(-1)
    pictures = []
    for view in plan.views:
        room = view.pack.allotted or view.canvas
        part = flat[view.offset : view.offset + 3 * room.height * room.width * view.pack.temporal]
        canvas = _unpacked(part, room, view.pack)[: view.canvas.height, : view.canvas.width]
        pictures.append(_bytes(canvas, normalization))
    return pictures


def stage_pixels(plan: Plan, stage: View, pictures: list[Picture]) -> Picture:
    """Return a stage's canvas, from the pictures of those views that read it and do not resize it."""
    canvas = np.zeros((*stage.canvas, 3), np.uint8)
    for view, picture in zip(plan.views, pictures, strict=True):
        top, left, height, width = view.window
        if view.reads == stage.name and view.canvas == (height, width):
            canvas[top : top + height, left : left + width] = picture
    return canvas


def _unpacked(flat: npt.NDArray[np.generic], canvas: Size, pack: Pack) -> npt.NDArray[np.generic]:
    """Return (height, width, 3) from the elements of a view, in the order in which they lie in the tensor."""
    if pack.kind == "planar":
        return flat.reshape(3, *canvas).transpose(1, 2, 0)
    block, merge = pack.block, pack.merge
    rows, columns = canvas.height // (block * merge), canvas.width // (block * merge)
    if pack.kind == "channels_last_patches":
        return flat.reshape(rows, columns, block, block, 3).swapaxes(1, 2).reshape(*canvas, 3)
    cells = flat.reshape(rows, columns, merge, merge, 3, pack.temporal, block, block)[:, :, :, :, :, 0]
    return cells.transpose(0, 2, 5, 1, 3, 6, 4).reshape(*canvas, 3)


def _bytes(values: npt.NDArray[np.generic], normalization: Normalization) -> Picture:
    if values.dtype == np.uint8:
        return np.ascontiguousarray(values, np.uint8)
    levels = values.astype(np.float32, order="C")
    if normalization.normalize:
        levels *= np.array(normalization.std, np.float32)
        levels += np.array(normalization.mean, np.float32)
    if normalization.rescale:
        levels /= np.float32(normalization.factor)
    return np.rint(np.clip(levels, 0, 255, out=levels), out=levels).astype(np.uint8)
