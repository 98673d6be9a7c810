"""Plans to tables: where channel c, row y, column x of a canvas goes, ``A[c] + R[y] + C[x]``.

A new layout is a new table here; no kernel knows any of them.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.plan.plan import Pack, View
from foveal.types import Size

__all__ = ["Layout", "layout_of"]

Offsets = npt.NDArray[np.int64]


class Layout(NamedTuple):
    """Offsets in elements of the primary tensor.

    Attributes
    ----------
    rows : int64[height]
        ``R``.
    columns : int64[width // run]
        ``C`` of the first column of each run.
    channels : int64[3]
        ``A``.
    run : int
        Columns in a run.
    side : int
        Rows whose runs follow one another in the output: those of a patch, or 1.
    merge : int
        Neighbouring patches, in both directions, that follow one another in the output.
    step : int
        Distance from a patch to the one below it in the same merge block.
    copies, gap : int
        How often a value is written, and the distance of the copies; only where ``interleaved`` is not set.
    interleaved : bool
        Whether the channels of a pixel are neighbours: the columns of a run are then 3 elements apart, and not 1.
    """

    rows: Offsets
    columns: Offsets
    channels: Offsets
    run: int
    side: int = 1
    merge: int = 1
    step: int = 0
    copies: int = 1
    gap: int = 0
    interleaved: bool = False

    @property
    def band(self) -> int:
        """Rows that are emitted together."""
        return self.side * self.merge


def layout_of(view: View) -> Layout:
    """Return the layout of a view's canvas inside its image's part of the primary tensor."""
    layout = _BY_KIND[view.pack.kind](view.canvas, view.pack)
    return layout._replace(rows=layout.rows + view.offset)


def _planar(canvas: Size, pack: Pack) -> Layout:
    """(3, height, width), or the top left part of a larger array."""
    height, width = pack.allotted or canvas
    rows = np.arange(canvas.height) * width
    return Layout(rows, np.zeros(1, np.int64), np.arange(3) * (height * width), canvas.width)


def _pixels(canvas: Size, pack: Pack) -> Layout:
    """(height, width, 3)."""
    rows = np.arange(canvas.height) * (3 * canvas.width)
    return Layout(rows, np.zeros(1, np.int64), np.arange(3), canvas.width, interleaved=True)


def _tiles(canvas: Size, pack: Pack) -> Layout:
    """(tiles, 3, block, block), tiles in raster order."""
    y, across, side = np.arange(canvas.height), canvas.width // pack.block, pack.block
    area = side * side
    rows = y // side * (across * 3 * area) + y % side * side
    return Layout(rows, np.arange(across) * (3 * area), np.arange(3) * area, side)


def _patches(canvas: Size, pack: Pack) -> Layout:
    """(patches, 3 * block**2), patches in raster order: the elements of small tiles."""
    return _tiles(canvas, pack)._replace(side=pack.block)


def _channels_last_patches(canvas: Size, pack: Pack) -> Layout:
    """(patches, block**2 * 3), patches in raster order."""
    y, across, side = np.arange(canvas.height), canvas.width // pack.block, pack.block
    size = 3 * side * side
    rows = y // side * (across * size) + y % side * (3 * side)
    return Layout(rows, np.arange(across) * size, np.arange(3), side, side, interleaved=True)


def _merge_patches(canvas: Size, pack: Pack) -> Layout:
    """(patches, 3 * temporal * block**2): the index of a patch is a function of y plus a function of x."""
    side, merge = pack.block, pack.merge
    area = side * side
    size = 3 * pack.temporal * area
    y, x, across = np.arange(canvas.height) // side, np.arange(canvas.width // side), canvas.width // side
    in_row = np.arange(canvas.height) % side * side
    rows = (y // merge * (across * merge) + y % merge * merge) * size + in_row
    columns = (x // merge * (merge * merge) + x % merge) * size
    channels = np.arange(3) * (pack.temporal * area)
    return Layout(rows, columns, channels, side, side, merge, merge * size, pack.temporal, area)


_BY_KIND = {
    "planar": _planar,
    "pixels": _pixels,
    "tiles": _tiles,
    "patches": _patches,
    "channels_last_patches": _channels_last_patches,
    "merge_patches": _merge_patches,
}
