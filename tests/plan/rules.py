"""The size, canvas and windows rules under the numbers of published models, and some that are not published.

Each answers for a height and a width with whole numbers: sizes, places and windows, one after the other; or with None,
where it refuses. ``make_tables.py`` has a rule of the same name for each, made of transformers' own functions.
"""

import math
import random
from collections.abc import Callable, Iterable
from functools import partial

from foveal.errors import ImageSizeError
from foveal.plan import canvas as canvases
from foveal.plan import sizes, windows
from foveal.types import Size

__all__ = ["OURS", "PINPOINTS", "answer", "drawn_sizes", "table_sizes"]

Answer = list[int] | None
Rule = Callable[[int, int], Iterable[int]]

PINPOINTS = {
    "llava_next": ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),
    "llava_onevision": tuple((384 * high, 384 * wide) for high in range(1, 7) for wide in range(1, 7)),
    "one": ((100, 100),),
}
EDGES = [1, 2, 13, 14, 15, 27, 28, 29, 41, 42, 43, 70, 335, 336, 337, 671, 672, 673, 1008, 4000, 9000]


def answer(rule: Rule, height: int, width: int) -> Answer:
    """Return what a rule of ours says."""
    try:
        return [*rule(height, width)]
    except ImageSizeError:
        return None


def table_sizes() -> list[tuple[int, int]]:
    """Return extremes, ties of half a factor, multiples and their neighbours, common photos, random ones."""
    draw = random.Random(0)
    fixed = [(1, 1), (1, 200), (200, 1), (1, 201), (2, 401), (401, 2), (480, 640), (640, 480), (1080, 1920)]
    ties = [(28 * a + 14, 28 * b + 14) for a, b in ((0, 1), (1, 1), (1, 2), (2, 3), (12, 35))]
    ties += [(32 * a + 16, 32 * b + 16) for a, b in ((0, 1), (1, 2), (3, 2), (9, 20))]
    ties += [
        (80, 180),
        (2, 5),
        (531, 1195),
        (672, 672),
        (336, 1008),
        (400, 1000),
        (1530, 1377),
        (2454, 1636),
        (20000, 20000),
    ]
    edges = [(draw.choice(EDGES), draw.choice(EDGES)) for _ in range(60)]
    drawn = [(draw.randint(1, 4500), draw.randint(1, 4500)) for _ in range(30)]
    return sorted({*fixed, *ties, *edges, *drawn})


def drawn_sizes(seed: str, count: int, longest: int = 20000) -> list[tuple[int, int]]:
    """Return sizes of which one half is of any shape and one half is not far from square."""
    draw = random.Random(seed)
    most = math.log2(longest)
    heights = [round(2 ** draw.uniform(0, most)) for _ in range(count)]
    alike = [min(longest, max(1, round(height * 2 ** draw.uniform(-1.5, 1.5)))) for height in heights]
    return [
        (height, round(2 ** draw.uniform(0, most)) if number % 2 else other)
        for number, (height, other) in enumerate(zip(heights, alike, strict=True))
    ]


def shortest(height: int, width: int, edge: int) -> Size:
    return sizes.resize(height, width, shortest_edge=edge, size=None)


def smart(height: int, width: int, factor: int, least: int, most: int, **more: int) -> Size:
    return sizes.smart_resize(height, width, factor=factor, min_pixels=least, max_pixels=most, max_aspect=200, **more)


def best_fit(height: int, width: int, tile: int, tiles: int, largest: bool, precision: str) -> list[int]:
    canvas = canvases.best_fit(height, width, tile=tile, max_tiles=tiles, largest=largest, precision=precision)
    limit = None if largest else tile
    resized = sizes.resize_to_canvas(height, width, canvas=canvas, grow_limit=limit, precision=precision)
    return [*canvas, *resized]


def best_resolution(height: int, width: int, name: str) -> list[int]:
    canvas = canvases.best_resolution(height, width, pinpoints=PINPOINTS[name])
    return [*canvas, *sizes.fit_canvas(height, width, canvas=canvas, round_up=True)]


def dynamic_hd(height: int, width: int, tile: int, tiles: int) -> list[int]:
    canvas = canvases.dynamic_hd(height, width, tile=tile, max_tiles=tiles)
    return [*canvas, *sizes.fit_canvas(height, width, canvas=canvas, round_up=False, least=10)]


def hd_transform(height: int, width: int, tiles: int) -> list[int]:
    canvas = canvases.hd_transform(height, width, tile=336, max_tiles=tiles)
    return [*canvas, *sizes.hd_resize(height, width, canvas=canvas)]


def closest(height: int, width: int, tile: int, least: int, most: int, order: str) -> Size:
    return canvases.closest_aspect_ratio(height, width, tile=tile, min_tiles=least, max_tiles=most, order=order)


def pan_and_scan(height: int, width: int, least: int, most: int, ratio: float) -> list[int]:
    found = windows.pan_and_scan(height, width, min_crop=least, max_crops=most, min_ratio=ratio)
    return [number for window in found for number in window]


OURS: dict[str, Rule] = {
    "smart_resize 28": partial(smart, factor=28, least=3136, most=12845056),
    "smart_resize 32": partial(smart, factor=32, least=65536, most=16777216),
    "smart_resize 28 tight": partial(smart, factor=28, least=50000, most=100000),
    "smart_resize 28 frames": partial(smart, factor=28, least=12544, most=9633792, frames=2, grow_short_side=True),
    "resize 336": partial(shortest, edge=336),
    "resize_bounded_edge 1024": partial(sizes.resize_bounded_edge, bound=Size(1024, 1024), patch=16),
    "resize_bounded_edge 1540": partial(sizes.resize_bounded_edge, bound=Size(1540, 1540), patch=28),
    "resize_bounded_edge 300x700": partial(sizes.resize_bounded_edge, bound=Size(300, 700), patch=14),
    "resize_longest_edge 1456": partial(sizes.resize_longest_edge, edge=1456, cap=4096),
    "resize_longest_edge 5001": partial(sizes.resize_longest_edge, edge=5001, cap=4096),
    "resize_to_multiple 364": partial(sizes.resize_to_multiple, of=364),
    "resize_to_multiple 512": partial(sizes.resize_to_multiple, of=512),
    "resize_longest_side 384": partial(sizes.resize_longest_side, side=384, least=14),
    "resize_longest_side 101": partial(sizes.resize_longest_side, side=101, least=30),
    "navit_resize 16384": partial(sizes.navit_resize, patch=14, max_patches=16384, max_side=512),
    "navit_resize 100": partial(sizes.navit_resize, patch=16, max_patches=100, max_side=13),
    "limit_patches 4096": partial(sizes.limit_patches, patch=14, max_patches=4096),
    "limit_patches 50": partial(sizes.limit_patches, patch=14, max_patches=50),
    "fit_patches 256": partial(sizes.fit_patches, patch=16, max_patches=256),
    "fit_patches 1000": partial(sizes.fit_patches, patch=14, max_patches=1000),
    "fit_pooled_patches 280": partial(sizes.fit_pooled_patches, patch=16, pool=3, max_features=280),
    "fit_pooled_patches 70": partial(sizes.fit_pooled_patches, patch=16, pool=3, max_features=70),
    "best_fit 336 float32": partial(best_fit, tile=336, tiles=16, largest=False, precision="float32"),
    "best_fit 336 float32 largest": partial(best_fit, tile=336, tiles=16, largest=True, precision="float32"),
    "best_fit 560 float64": partial(best_fit, tile=560, tiles=4, largest=False, precision="float64"),
    "best_fit 112 float64": partial(best_fit, tile=112, tiles=6, largest=False, precision="float64"),
    "best_resolution llava_next": partial(best_resolution, name="llava_next"),
    "best_resolution llava_onevision": partial(best_resolution, name="llava_onevision"),
    "best_resolution one": partial(best_resolution, name="one"),
    "dynamic_hd 448 36": partial(dynamic_hd, tile=448, tiles=36),
    "dynamic_hd 100 7": partial(dynamic_hd, tile=100, tiles=7),
    "hd_transform 16": partial(hd_transform, tiles=16),
    "hd_transform 4": partial(hd_transform, tiles=4),
    "closest_aspect_ratio 448 columns": partial(closest, tile=448, least=1, most=12, order="columns"),
    "closest_aspect_ratio 100 columns": partial(closest, tile=100, least=5, most=9, order="columns"),
    "closest_aspect_ratio 448 set": partial(closest, tile=448, least=1, most=12, order="set"),
    "closest_aspect_ratio 100 set": partial(closest, tile=100, least=4, most=4, order="set"),
    "covering_grid 448": partial(canvases.covering_grid, tile=448, max_tiles=12),
    "covering_grid 100": partial(canvases.covering_grid, tile=100, max_tiles=9),
    "least_upscale 512": partial(canvases.least_upscale, tile=512, max_tiles=12),
    "least_upscale 100": partial(canvases.least_upscale, tile=100, max_tiles=7),
    "overlapping_tiles 378": partial(
        canvases.overlapping_tiles, tile=378, patch=14, before=4, after=4, max_tiles=8
    ),
    "overlapping_tiles 126": partial(
        canvases.overlapping_tiles, tile=126, patch=14, before=2, after=1, max_tiles=12
    ),
    "pan_and_scan 256": partial(pan_and_scan, least=256, most=4, ratio=1.2),
    "pan_and_scan 10": partial(pan_and_scan, least=10, most=9, ratio=1.0),
}  # fmt: skip
