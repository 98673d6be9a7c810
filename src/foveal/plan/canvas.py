"""Canvas rules: one function each, from an image's height and width to the canvas on which it is placed."""

from functools import lru_cache

import numpy as np

from foveal.types import Size

__all__ = ["best_fit"]


def best_fit(height: int, width: int, *, tile: int, max_tiles: int, largest: bool) -> Size:
    """Return the canvas of whole tiles on which the image is rescaled least.

    The smallest enlargement wins, or the largest with ``largest``; if every canvas shrinks the image, the one that
    shrinks it least. Of canvases with the same scale the one of the smallest area.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    tile : int
        Side of a tile.
    max_tiles : int
        Number of tiles that a canvas has at most.
    largest : bool

    Notes
    -----
    Scales are quotients of float32 numbers, and equal only if their bits are.
    Source: transformers 5.24.0, models/llama4/image_processing_llama4.py.
    """
    sizes, heights, widths = _canvases(tile, max_tiles)
    scales = np.minimum(heights / np.float32(height), widths / np.float32(width))
    enlarging = scales[scales >= 1]
    chosen = scales.max() if largest or not enlarging.size else enlarging.min()
    return sizes[int((scales == chosen).argmax())]


@lru_cache(maxsize=32)
def _canvases(tile: int, max_tiles: int) -> tuple[list[Size], np.ndarray, np.ndarray]:
    """Return all canvases from the smallest area to the largest, and their sides as float32."""
    grids = [(rows, columns) for rows in range(1, max_tiles + 1) for columns in range(1, max_tiles // rows + 1)]
    sizes = [Size(rows * tile, columns * tile) for rows, columns in sorted(grids, key=lambda grid: grid[0] * grid[1])]
    sides = np.array(sizes, np.float32)
    return sizes, np.ascontiguousarray(sides[:, 0]), np.ascontiguousarray(sides[:, 1])
