"""Resize rules: one function each, from an image's height and width to the size it is resampled to.

A rule that refuses a size raises ``ImageSizeError`` with the reason alone; ``foveal.plan.make_plan`` puts the size, the
spec and the rule around it.
"""

import math

import numpy as np

from foveal.errors import ImageSizeError
from foveal.types import Size

__all__ = [
    "fit_canvas",
    "fit_patches",
    "fit_pooled_patches",
    "hd_resize",
    "limit_patches",
    "navit_resize",
    "resize",
    "resize_bounded_edge",
    "resize_longest_edge",
    "resize_longest_side",
    "resize_to_canvas",
    "resize_to_multiple",
    "smart_resize",
]


def smart_resize(
    height: int,
    width: int,
    *,
    factor: int,
    min_pixels: int,
    max_pixels: int,
    max_aspect: int,
    frames: int = 1,
    grow_short_side: bool = False,
) -> Size:
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
    frames : int
        How often the image counts against the budget.
    grow_short_side : bool
        Whether an image with a side of less than a factor is first grown, both sides, until it has none.

    Raises
    ------
    ImageSizeError
        If the aspect exceeds ``max_aspect``.

    Notes
    -----
    Rounds half to even at first; down where the budget is exceeded, never below one factor; up where it is not met.
    Source: transformers 5.24.0, models/qwen2_vl/image_processing_qwen2_vl.py and
    models/glm4v/image_processing_glm4v.py (frames, growing).
    """
    if grow_short_side and min(height, width) < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    aspect = max(height, width) / min(height, width)
    if aspect > max_aspect:
        raise ImageSizeError(f"aspect ratio {_ratio(aspect, max_aspect)} exceeds {max_aspect}")
    rows, columns = round(height / factor), round(width / factor)
    area = frames * rows * columns * factor * factor
    if area > max_pixels:
        shrink = math.sqrt(frames * height * width / max_pixels)
        rows = max(1, math.floor(height / shrink / factor))
        columns = max(1, math.floor(width / shrink / factor))
    elif area < min_pixels:
        grow = math.sqrt(min_pixels / (frames * height * width))
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


def resize_to_canvas(
    height: int, width: int, *, canvas: Size, grow_limit: int | None, precision: str = "float32"
) -> Size:
    """Return the largest size of the image's aspect that fits on a canvas.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    canvas : Size
    grow_limit : int or None
        A side shorter than this grows at most to it, any other side not at all; None: up to the canvas.
    precision : str
        ``float32`` where the reference holds the canvas in a tensor, so that a side that the canvas bounds is scaled in
        float32, and a side that the limit bounds in float64; a comparison of the two is in float32. ``float64``: all.

    Notes
    -----
    Rounds down, but to one pixel at least.
    Source: transformers 5.24.0, models/llama4/image_processing_llama4.py (float32) and
    models/mllama/image_processing_mllama.py (float64).
    """
    tall, high = _bounded(height, canvas.height, grow_limit)
    wide, broad = _bounded(width, canvas.width, grow_limit)
    if precision == "float64":
        tall = wide = False
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


def fit_canvas(height: int, width: int, *, canvas: Size, round_up: bool, least: int = 0) -> Size:
    """Return the size of the image's aspect that fills one side of a canvas, the other rounded up or down.

    Raises
    ------
    ImageSizeError
        If a side is shorter than ``least``.

    Notes
    -----
    Source: transformers 5.24.0, image_processing_utils.py, get_patch_output_size (up) and
    models/phi4_multimodal/image_processing_phi4_multimodal.py (down).
    """
    scale_height, scale_width = canvas.height / height, canvas.width / width
    if scale_width < scale_height:
        free, side = height * scale_width, canvas.height
    else:
        free, side = width * scale_height, canvas.width
    fitted = min(math.ceil(free), side) if round_up else int(free)
    result = Size(fitted, canvas.width) if scale_width < scale_height else Size(canvas.height, fitted)
    if min(*result, *canvas) < max(least, 1):
        raise ImageSizeError(f"would be resized to {result}, a side below {max(least, 1)}")
    return result


def hd_resize(height: int, width: int, *, canvas: Size) -> Size:
    """Return the size whose longer edge is that of a canvas, the shorter cut to a whole number of pixels.

    Notes
    -----
    Source: microsoft/Phi-3-vision-128k-instruct, image_processing_phi3_v.py, HD_transform.
    """
    if width < height:
        return Size(canvas.height, _at_least_one(int(canvas.height / (height / width)), "width"))
    return Size(_at_least_one(int(canvas.width / (width / height)), "height"), canvas.width)


def _at_least_one(side: int, name: str) -> int:
    if side < 1:
        raise ImageSizeError(f"would be resized to a {name} of 0")
    return side


def resize_bounded_edge(height: int, width: int, *, bound: Size, patch: int) -> Size:
    """Return whole patches, enough to cover the image after it is shrunk to a bound.

    Notes
    -----
    Shrinking rounds down. Source: transformers 5.24.0, models/pixtral/image_processing_pixtral.py.
    """
    ratio = max(height / bound.height, width / bound.width)
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    rows, columns = (height - 1) // patch + 1, (width - 1) // patch + 1
    if not (rows and columns):
        raise ImageSizeError(f"would be resized to {Size(rows * patch, columns * patch)}")
    return Size(rows * patch, columns * patch)


def resize_longest_edge(height: int, width: int, *, edge: int, cap: int) -> Size:
    """Return the size whose longer edge has a length, the shorter rounded down and then up to an even number.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    edge : int
    cap : int
        Longest edge of all; above it the result is shrunk once more, rounding down.

    Notes
    -----
    Source: transformers 5.24.0, models/idefics3/image_processing_idefics3.py.
    """
    aspect = width / height
    if width >= height:
        short = int(edge / aspect)
        size = Size(short + short % 2, edge)
    else:
        short = int(edge * aspect)
        size = Size(edge, short + short % 2)
    size = Size(max(size.height, 1), max(size.width, 1))
    if max(size) <= cap:
        return size
    aspect = size.width / size.height
    if size.width >= size.height:
        return Size(max(int(cap / aspect), 1), cap)
    return Size(cap, max(int(cap * aspect), 1))


def resize_to_multiple(height: int, width: int, *, of: int) -> Size:
    """Return multiples of a number: the longer edge rounded up, the shorter in proportion to it and rounded up.

    Notes
    -----
    Source: transformers 5.24.0, models/idefics3/image_processing_idefics3.py.
    """
    aspect = width / height
    if width >= height:
        width = math.ceil(width / of) * of
        height = math.ceil(int(width / aspect) / of) * of
    else:
        height = math.ceil(height / of) * of
        width = math.ceil(int(height * aspect) / of) * of
    return Size(height, width)


def resize_longest_side(height: int, width: int, *, side: int, least: int) -> Size:
    """Return the size whose longer side has a length, the shorter rounded half to even, none below ``least``.

    Notes
    -----
    Source: transformers 5.24.0, models/deepseek_vl/image_processing_deepseek_vl.py.
    """
    delta = side / max(height, width)
    return Size(max(round(height * delta), least), max(round(width * delta), least))


def navit_resize(height: int, width: int, *, patch: int, max_patches: int, max_side: int) -> Size:
    """Return the image's size, or a smaller one with at most so many patches in all and so many along each side.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    patch : int
    max_patches, max_side : int
        Patches in all, and along each side.

    Notes
    -----
    Rounds down, but to one pixel at least. Source: transformers 5.24.0, models/kimi_k25/image_processing_kimi_k25.py.
    """
    patches = max(1.0, height // patch) * max(1.0, width // patch)
    longest = max_side * patch
    scale = min(1.0, math.sqrt(max_patches / patches), longest / height, longest / width)
    return Size(min(max(1, int(height * scale)), longest), min(max(1, int(width * scale)), longest))


def limit_patches(height: int, width: int, *, patch: int, max_patches: int) -> Size:
    """Return the image's size, or a smaller one with at most about so many patches.

    Notes
    -----
    Rounds down. Source: moonshotai/Kimi-VL-A3B-Instruct, image_processing_kimi_vl.py, rescale.
    """
    patches = (width // patch) * (height // patch)
    if patches <= max_patches:
        return Size(height, width)
    scale = math.sqrt(max_patches / patches)
    return Size(int(height * scale), int(width * scale))


def fit_patches(height: int, width: int, *, patch: int, max_patches: int) -> Size:
    """Return the largest whole patches, about in the image's aspect, that a number of them allows.

    Notes
    -----
    A binary search of the scale, to 1e-5; both sides are rounded up.
    Source: transformers 5.24.0, models/siglip2/image_processing_siglip2.py.
    """
    low, high = 1e-6, 100.0
    while high - low >= 1e-5:
        scale = (low + high) / 2
        rows, columns = _patches(height * scale, patch), _patches(width * scale, patch)
        if rows * columns <= max_patches:
            low = scale
        else:
            high = scale
    return Size(_patches(height * low, patch) * patch, _patches(width * low, patch) * patch)


def _patches(side: float, patch: int) -> int:
    return max(1, math.ceil(side / patch))


def fit_pooled_patches(height: int, width: int, *, patch: int, pool: int, max_features: int) -> Size:
    """Return multiples of ``patch * pool`` in the image's aspect, as large as a number of them allows.

    Raises
    ------
    ImageSizeError
        If both sides are below one multiple, or one alone makes the result too large.

    Notes
    -----
    Rounds down; a side of none becomes one multiple, and the other is then the aspect, cut, at most ``max_features``.
    Source: transformers 5.24.0, models/gemma4/image_processing_gemma4.py.
    """
    budget = max_features * pool**2 * patch**2
    factor = math.sqrt(budget / (height * width))
    side = pool * patch
    rows, columns = math.floor(factor * height / side), math.floor(factor * width / side)
    if rows == 0 and columns == 0:
        raise ImageSizeError(f"would be resized to 0x0, no multiple of {side}")
    if rows == 0:
        rows, columns = 1, min(width // height, max_features)
    elif columns == 0:
        rows, columns = min(height // width, max_features), 1
    if rows * side * columns * side > budget:
        raise ImageSizeError(f"would be resized to {Size(rows * side, columns * side)}, more than {budget} pixels")
    return Size(rows * side, columns * side)


def _ratio(aspect: float, limit: int) -> str:
    """Return a ratio for a message, with as many digits as it takes to tell it from its limit."""
    text = f"{aspect:.0f}"
    return text if text != str(limit) else f"{aspect:.7g}"
