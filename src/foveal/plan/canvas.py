"""Canvas rules: one function each, from an image's height and width to the canvas on which it is placed."""

import math
from functools import lru_cache

import numpy as np

from foveal.errors import ImageSizeError
from foveal.types import Size

__all__ = [
    "best_fit",
    "best_resolution",
    "closest_aspect_ratio",
    "covering_grid",
    "dynamic_hd",
    "hd_transform",
    "least_upscale",
    "overlapping_tiles",
]

COVERED = 0.9
"""Part of an image's area that a covering grid keeps."""


def best_fit(height: int, width: int, *, tile: int, max_tiles: int, largest: bool, precision: str = "float32") -> Size:
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
    precision : str
        ``float32`` or ``float64``, in which scales are computed and compared.

    Notes
    -----
    Source: transformers 5.24.0, models/llama4/image_processing_llama4.py (float32) and
    models/mllama/image_processing_mllama.py (float64).
    """
    sizes, heights, widths = _canvases(tile, max_tiles, precision)
    number = np.dtype(precision).type
    scales = np.minimum(heights / number(height), widths / number(width))
    enlarging = scales[scales >= 1]
    chosen = scales.max() if largest or not enlarging.size else enlarging.min()
    return sizes[int((scales == chosen).argmax())]


@lru_cache(maxsize=32)
def _canvases(tile: int, max_tiles: int, precision: str) -> tuple[list[Size], np.ndarray, np.ndarray]:
    """Return all canvases from the smallest area to the largest, and their sides as numbers of a precision."""
    sizes = [Size(rows * tile, columns * tile) for rows, columns in _grids(1, max_tiles)]
    sides = np.array(sizes, precision)
    return sizes, np.ascontiguousarray(sides[:, 0]), np.ascontiguousarray(sides[:, 1])


@lru_cache(maxsize=32)
def _grids(fewest: int, most: int) -> list[tuple[int, int]]:
    """Return pairs whose product lies in a range, by their product, then their first number."""
    pairs = [(a, b) for a in range(1, most + 1) for b in range(1, most // a + 1) if a * b >= fewest]
    return sorted(pairs, key=lambda pair: pair[0] * pair[1])


@lru_cache(maxsize=32)
def _set_of_grids(fewest: int, most: int) -> list[tuple[int, int]]:
    """Return the pairs of `_grids`; those of one product come as a set of them happens to be ordered.

    The reference sorts a set, and a tie between two grids goes to the first. Python's hashes of small numbers are
    fixed, so adding the same pairs in the same order gives the same set: for each number from the fewest on, those of
    numbers up to it, which are new if one of them is it.
    """
    pairs = {(a, b) for a in range(1, fewest + 1) for b in range(1, min(fewest, most // a) + 1) if a * b >= fewest}
    for larger in range(fewest + 1, most + 1):
        pairs.update((other, larger) for other in range(1, min(larger - 1, most // larger) + 1))
        pairs.update((larger, other) for other in range(1, min(larger, most // larger) + 1))
    return sorted(pairs, key=lambda pair: pair[0] * pair[1])


def closest_aspect_ratio(
    height: int, width: int, *, tile: int, min_tiles: int, max_tiles: int, order: str = "columns"
) -> Size:
    """Return the canvas of whole tiles whose aspect ratio is closest to the image's.

    Of two that are as close, the one with more tiles, as long as the image has more than half its pixels.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    tile : int
        Side of a tile.
    min_tiles, max_tiles : int
    order : str
        Of grids with as many tiles: ``columns``, from few columns to many; ``set``, see `_set_of_grids`.

    Notes
    -----
    Source: transformers 5.24.0, models/got_ocr2/image_processing_got_ocr2.py (columns) and
    models/phi4_multimodal/image_processing_phi4_multimodal.py (set).
    """
    grids = _set_of_grids(min_tiles, max_tiles) if order == "set" else _grids(min_tiles, max_tiles)
    aspect, area = width / height, width * height
    least, best = math.inf, (1, 1)
    for columns, rows in grids:
        difference = abs(aspect - columns / rows)
        closer = difference < least
        if closer or (difference == least and area > 0.5 * tile * tile * columns * rows):
            least, best = difference, (rows, columns)
    return Size(best[0] * tile, best[1] * tile)


def covering_grid(height: int, width: int, *, tile: int, max_tiles: int) -> Size:
    """Return the canvas of fewest tiles that keep more than nine tenths of the image's area, or else the most of it.

    Notes
    -----
    The grid is found as rows and columns and used as columns and rows, as in the reference.
    Source: transformers 5.24.0, models/ovis2/image_processing_ovis2.py.
    """
    kept = {grid: _covered(height, width, grid, tile) / (width * height) for grid in _grids(1, max_tiles)}
    enough = [grid for grid, part in kept.items() if part > COVERED]
    if enough:
        columns, rows = min(enough, key=lambda grid: (grid[0] * grid[1], -kept[grid]))
    else:
        columns, rows = min(kept, key=lambda grid: (-kept[grid], grid[0] * grid[1]))
    return Size(rows * tile, columns * tile)


def _covered(height: int, width: int, grid: tuple[int, int], tile: int) -> float:
    """Return the area of the image that is left when each cell of a grid is shrunk to a tile; added cell by cell."""
    rows, columns = grid
    wide, last_wide = _cells(width, columns)
    row, last_row = (
        [*[_shrunk_area(high, wide, tile)] * (columns - 1), _shrunk_area(high, last_wide, tile)]
        for high in _cells(height, rows)
    )
    return sum([*row * (rows - 1), *last_row])


def _cells(length: int, count: int) -> tuple[int, int]:
    """Return the length of equal cells, and that of the last, which takes what is over."""
    cell = length // count
    return cell, length - cell * (count - 1)


def _shrunk_area(height: int, width: int, tile: int) -> float:
    longer, shorter = max(height, width), min(height, width)
    return tile * (shorter / longer * tile) if longer > tile else longer * shorter


def least_upscale(height: int, width: int, *, tile: int, max_tiles: int) -> Size:
    """Return the canvas of whole tiles that enlarges the image least; if all shrink it, the one that does so least.

    Notes
    -----
    Source: transformers 5.24.0, models/cohere2_vision/image_processing_cohere2_vision.py.
    """
    scales = {grid: min(grid[0] * tile / width, grid[1] * tile / height) for grid in _grids(1, max_tiles)}
    enlarging = [grid for grid, scale in scales.items() if scale >= 1]
    columns, rows = min(enlarging, key=scales.__getitem__) if enlarging else max(scales, key=scales.__getitem__)
    return Size(rows * tile, columns * tile)


def best_resolution(height: int, width: int, *, pinpoints: tuple[tuple[int, int], ...]) -> Size:
    """Return the size of a list that keeps most of the image's pixels; of those, the one that wastes least.

    Notes
    -----
    Source: transformers 5.24.0, image_processing_utils.py, select_best_resolution.
    """

    def worth(pinpoint: tuple[int, int]) -> tuple[int, int]:
        high, wide = pinpoint
        scale = min(wide / width, high / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - high * wide

    return Size(*max(pinpoints, key=worth))


def dynamic_hd(height: int, width: int, *, tile: int, max_tiles: int) -> Size:
    """Return the canvas of as many tiles as the image covers, or, if they are too many, of the closest aspect ratio.

    Notes
    -----
    Source: transformers 5.24.0, models/phi4_multimodal/image_processing_phi4_multimodal.py.
    """
    rows, columns = math.ceil(height / tile), math.ceil(width / tile)
    if rows * columns > max_tiles:
        return closest_aspect_ratio(height, width, tile=tile, min_tiles=1, max_tiles=max_tiles, order="set")
    return Size(rows * tile, columns * tile)


def hd_transform(height: int, width: int, *, tile: int, max_tiles: int) -> Size:
    """Return the canvas with the longest row of tiles, along the longer edge, of which there are not too many in all.

    Raises
    ------
    ImageSizeError
        If the image would be less than a pixel high.

    Notes
    -----
    Source: microsoft/Phi-3-vision-128k-instruct, image_processing_phi3_v.py, HD_transform.
    """
    longer, shorter = max(height, width), min(height, width)
    ratio = longer / shorter
    tiles = 1
    while (tiles + 1) * math.ceil((tiles + 1) / ratio) <= max_tiles:
        tiles += 1
    across = int(tiles * tile / ratio)
    if across < 1:
        raise ImageSizeError(f"would be resized to a shorter edge of 0, {tiles * tile} long")
    other = math.ceil(across / tile) * tile
    return Size(tiles * tile, other) if width < height else Size(other, tiles * tile)


def overlapping_tiles(
    height: int, width: int, *, tile: int, patch: int, before: int, after: int, max_tiles: int
) -> Size:
    """Return the canvas of overlapping tiles that enlarges the image least, or shrinks it least.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    tile : int
        Side of a tile.
    patch : int
    before, after : int
        Patches at both ends of a tile that it shares with its neighbours.
    max_tiles : int

    Notes
    -----
    Scales are quotients of float32 numbers, of the image without the margins.
    Source: transformers 5.24.0, models/molmo2/image_processing_molmo2.py.
    """
    margin = (before + after) * patch
    step = tile - margin
    grids = _grids(1, max_tiles)
    sides = np.array(grids, np.float32) * np.float32(step)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = (sides / np.array([height - margin, width - margin], np.float32)).min(axis=1)
    if np.all(scales < 1):
        rows, columns = grids[int(scales.argmax())]
    else:
        rows, columns = grids[int(np.where(scales < 1, np.float32(1e10), scales).argmin())]
    return Size(rows * step + margin, columns * step + margin)
