"""Resize rules: one function each, from an image's height and width to the size it is resampled to.

A rule that refuses a size raises ``ImageSizeError`` with the reason alone; ``foveal.plan.make_plan`` puts the size, the
spec and the rule around it.
"""

import math

import numpy as np

from foveal.errors import ImageSizeError
from foveal.types import Size

__all__ = ["fit_canvas", "resize", "smart_resize"]


def smart_resize(height: int, width: int, *, factor: int, min_pixels: int, max_pixels: int, max_aspect: int) -> Size:
    """Return multiples of a factor whose area lies within a budget and whose aspect is close to the image's.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    factor : int
        Both sides of the result are multiples of it.
    min_pixels, max_pixels : int
        Budget. An image with one side of less than a factor may exceed it; a maximum below the minimum wins.
    max_aspect : int
        Longest side divided by shortest.

    Raises
    ------
    ImageSizeError
        If the aspect exceeds ``max_aspect``.

    Notes
    -----
    Rounds half to even at first; down where the budget is exceeded, never below one factor; up where it is not met.
    Source: transformers 5.24.0, models/qwen2_vl/image_processing_qwen2_vl.py.
    """
    aspect = max(height, width) / min(height, width)
    if aspect > max_aspect:
        raise ImageSizeError(f"aspect ratio {_ratio(aspect, max_aspect)} exceeds {max_aspect}")
    rows, columns = round(height / factor), round(width / factor)
    area = rows * columns * factor * factor
    if area > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        rows = max(1, math.floor(height / shrink / factor))
        columns = max(1, math.floor(width / shrink / factor))
    elif area < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        rows, columns = math.ceil(height * grow / factor), math.ceil(width * grow / factor)
    return Size(rows * factor, columns * factor)


def resize(height: int, width: int, *, shortest_edge: int | None, size: Size | None) -> Size:
    """Return a fixed size, or the one whose shorter edge has a given length and whose aspect is the image's.

    Notes
    -----
    The longer edge is cut to a whole number of pixels, not rounded.
    Source: transformers 5.24.0, image_transforms.py.
    """
    if shortest_edge is None:
        assert size is not None  # the schema admits one or the other
        return size
    if width <= height:
        return Size(int(shortest_edge * height / width), shortest_edge)
    return Size(shortest_edge, int(shortest_edge * width / height))


def fit_canvas(height: int, width: int, *, canvas: Size, grow_limit: int | None) -> Size:
    """Return the largest size of the image's aspect that fits on a canvas.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    canvas : Size
    grow_limit : int or None
        A side shorter than this grows at most to it, any other side not at all; None: up to the canvas.

    Notes
    -----
    Rounds down, but to one pixel at least. The reference holds the canvas in a tensor, so that a side that the canvas
    bounds is scaled in float32, and a side that the limit bounds in float64; a comparison of the two is in float32.
    Source: transformers 5.24.0, models/llama4/image_processing_llama4.py.
    """
    tall, high = _bounded(height, canvas.height, grow_limit)
    wide, broad = _bounded(width, canvas.width, grow_limit)
    scale_height: float = float(np.float32(high / height)) if tall else high / height
    scale_width: float = float(np.float32(broad / width)) if wide else broad / width
    by_width = scale_width < scale_height
    if tall != wide:
        by_width = bool(np.float32(scale_width) < np.float32(scale_height))
    if by_width:
        scaled = np.float32(height * scale_width) if wide else height * scale_width
        return Size(max(min(math.floor(scaled), high), 1), broad)
    scaled = np.float32(width * scale_height) if tall else width * scale_height
    return Size(high, max(min(math.floor(scaled), broad), 1))


def _bounded(side: int, canvas: int, grow_limit: int | None) -> tuple[bool, int]:
    """Return whether the canvas bounds a side, and the bound."""
    limit = canvas if grow_limit is None else max(side, grow_limit)
    return (True, canvas) if grow_limit is None or canvas < limit else (False, limit)


def _ratio(aspect: float, limit: int) -> str:
    """Return a ratio for a message, with as many digits as it takes to tell it from its limit."""
    text = f"{aspect:.0f}"
    return text if text != str(limit) else f"{aspect:.7g}"
