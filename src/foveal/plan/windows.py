"""Windows rules: one function each, from the size of a picture to the parts of it that are views of their own."""

import math

from foveal.errors import ImageSizeError
from foveal.types import Box

__all__ = ["overlapping_crops", "pan_and_scan"]


def pan_and_scan(height: int, width: int, *, min_crop: int, max_crops: int, min_ratio: float) -> list[Box]:
    """Return crops side by side along the longer edge; none of an image that is nearly square or too small.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    min_crop : int
        Shortest side of a crop.
    max_crops : int
    min_ratio : float
        Longer edge divided by the shorter from which on an image is cut.

    Raises
    ------
    ImageSizeError
        If nothing is left for the last crop.

    Notes
    -----
    All crops have one size, rounded up, so that the last may be smaller.
    Source: transformers 5.24.0, models/gemma3/image_processing_gemma3.py.
    """
    longer, shorter = max(height, width), min(height, width)
    if longer / shorter < min_ratio:
        return []
    wanted = min(math.floor(longer / min_crop), math.floor(longer / shorter + 0.5))
    count = min(max_crops, max(2, wanted))
    length = math.ceil(longer / count)
    if min(length, shorter) < min_crop:
        return []
    starts = range(0, length * count, length)
    if starts[-1] >= longer:
        raise ImageSizeError(f"the last of {count} crops of {length} pixels would be empty")
    if width >= height:
        return [Box(0, start, height, min(length, width - start)) for start in starts]
    return [Box(start, 0, min(length, height - start), width) for start in starts]


def overlapping_crops(height: int, width: int, *, tile: int, patch: int, before: int, after: int) -> list[Box]:
    """Return the tiles of a canvas of overlapping tiles, in raster order.

    Raises
    ------
    ImageSizeError
        If such tiles do not make up the canvas.

    Notes
    -----
    Source: transformers 5.24.0, models/molmo2/image_processing_molmo2.py.
    """
    step = tile - (before + after) * patch
    if any(side < tile or (side - tile) % step for side in (height, width)):
        raise ImageSizeError(f"becomes {height}x{width}, which tiles of {tile} every {step} do not make up")
    tops, lefts = range(0, height - tile + 1, step), range(0, width - tile + 1, step)
    return [Box(top, left, tile, tile) for top in tops for left in lefts]
