"""Count rules: one function each, from the views of an image to the numbers that its part of a prompt follows from."""

import math
from typing import Any, NamedTuple

from foveal.errors import ImageSizeError
from foveal.plan.plan import View
from foveal.spec import tokens
from foveal.types import Size

__all__ = ["Counts", "count", "count_features"]

LARGEST_RATIO = 1.1
"""By how much a side may exceed the limit of `anyres` before the features are scaled down."""


class Counts(NamedTuple):
    """The numbers that a template can name.

    Attributes
    ----------
    features : int
        Tokens that are replaced by features of the encoder.
    tiles : int
        Pictures that the encoder reads: tiles, and views that are not cut.
    rows, columns : int
        Of tiles, or of features where nothing is cut into tiles.
    base_rows, base_columns : int
        Of the features of the first view, of overlapping crops alone.
    """

    features: int
    tiles: int
    rows: int
    columns: int
    base_rows: int = 0
    base_columns: int = 0

    @property
    def crops(self) -> int:
        """Number of pictures beside the whole image."""
        return self.tiles - 1

    @property
    def features_per_tile(self) -> int:
        """Features of each tile, where all have the same number."""
        return self.features // self.tiles


def count_features(rule: tokens.Rule, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> int:
    """Return the number of feature tokens that an image becomes.

    Parameters
    ----------
    rule : Rule
    views : tuple of View
    grid : tuple of int
        Rows and columns of the tiles or patches of what is cut; see ``Plan.grid``.
    source : Size
        Of the image.
    """
    return count(rule, views, grid, source).features


def count(rule: tokens.Rule, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Return all numbers that an image's part of the prompt follows from; for the parameters see `count_features`."""
    counted: Counts = _RULES[type(rule)](rule, views, grid, source)
    return counted


def uncounted(rule: tokens.Uncounted, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count no features."""
    return Counts(0, _tiles(views), *grid)


def merged_patches(rule: tokens.MergedPatches, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count blocks of patches; what is left of a block at an edge does not count.

    Source: transformers 5.24.0, models/qwen2_vl/processing_qwen2_vl.py, models/pixtral/processing_pixtral.py and
    models/gemma4/image_processing_gemma4.py.
    """
    side = rule.patch * rule.merge
    rows, columns = views[0].canvas.height // side, views[0].canvas.width // side
    return Counts(rows * columns, 1, rows, columns)


def per_tile(rule: tokens.PerTile, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count the patches of each tile, rounding down once for the tile.

    Source: transformers 5.24.0, models/llama4/processing_llama4.py, models/llava/processing_llava.py,
    models/idefics3/processing_idefics3.py and models/aya_vision/processing_aya_vision.py.
    """
    tiles = _tiles(views)
    tile = Size(views[0].pack.block, views[0].pack.block) if views[0].pack.kind == "tiles" else views[0].canvas
    patches = (tile.height // rule.patch) * (tile.width // rule.patch) // rule.pool**2
    return Counts(tiles * (rule.tokens or max(patches + _beside_patches(rule), 0)), tiles, *grid)


def fixed(rule: tokens.Fixed, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count the same number for each tile.

    Source: transformers 5.24.0, models/gemma3/processing_gemma3.py, models/internvl/processing_internvl.py and
    models/janus/processing_janus.py.
    """
    tiles = _tiles(views)
    return Counts(tiles * rule.tokens, tiles, *grid)


def anyres(rule: tokens.Anyres, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count the patches of the first view and those of the tiles that hold more than padding.

    The padding that is left out is rounded down, and to an even number; a view alone has one row end. Source:
    transformers 5.24.0, models/llava_next/processing_llava_next.py and
    models/llava_onevision/processing_llava_onevision.py.
    """
    side = _patches(views[0], rule.patch)
    base = side * side + _beside_patches(rule)
    if len(views) == 1:
        return Counts(base + 1, 1, *grid)
    rows, columns = _without_padding(source, Size(side * grid[0], side * grid[1]))
    if rule.limit:
        ratio = math.sqrt(rows * columns / (int(rule.limit.removeprefix("anyres_max_")) * side**2))
        if ratio > LARGEST_RATIO:
            rows, columns = int(rows // ratio), int(columns // ratio)
    return Counts(base + rows * columns + rows, _tiles(views), *grid)


def phi3_hd(rule: tokens.Phi3Hd, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count the features of the tiles and the global view, their row ends, and the separator.

    Source: microsoft/Phi-3.5-vision-instruct, image_processing_phi3_v.py.
    """
    rows, columns = grid
    row_ends = (rows + 1) * math.isqrt(rule.tokens)
    return Counts((rows * columns + 1) * rule.tokens + 1 + row_ends, rows * columns + 1, rows, columns)


PHI4_GLOBAL = 256, 16
"""Features and row ends of the global view, which the reference counts whatever the side of a tile is."""


def phi4_mask(rule: tokens.Phi4Mask, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count every other patch that holds more than padding, their row ends, the global view and the separator.

    The image lies in the top left of the tiles; padding counts in whole patches. Source: transformers 5.24.0,
    models/phi4_multimodal/image_processing_phi4_multimodal.py.
    """
    rows, columns = grid
    tile = views[0].canvas.height
    side = _patches(views[0], rule.patch)
    height, width = rows * tile, columns * tile
    if width / source.width < height / source.height:
        filled = Size(int(source.height * (width / source.width)), width)
    else:
        filled = Size(height, int(source.width * (height / source.height)))
    high = _every_other(rows * side - (height - filled.height) // rule.patch, side)
    wide = _every_other(columns * side - (width - filled.width) // rule.patch, side)
    whole, ends = PHI4_GLOBAL
    return Counts(whole + 1 + high * wide + high + ends, rows * columns + 1, rows, columns)


def pooled_crops(rule: tokens.PooledCrops, views: tuple[View, ...], grid: tuple[int, int], source: Size) -> Counts:
    """Count windows of patches of the first view and of the canvas of the crops, rounding up; ``grid`` is of patches.

    Source: transformers 5.24.0, models/molmo2/image_processing_molmo2.py.
    """
    high, wide = rule.pool
    base_rows = -(-(views[0].canvas.height // rule.patch) // high)
    base_columns = -(-(views[0].canvas.width // rule.patch) // wide)
    rows, columns = -(-grid[0] // high), -(-grid[1] // wide)
    features = base_rows * base_columns + rows * columns
    return Counts(features, len(views), rows, columns, base_rows, base_columns)


_RULES: dict[type, Any] = {
    tokens.Uncounted: uncounted,
    tokens.MergedPatches: merged_patches,
    tokens.PerTile: per_tile,
    tokens.Fixed: fixed,
    tokens.Anyres: anyres,
    tokens.Phi3Hd: phi3_hd,
    tokens.Phi4Mask: phi4_mask,
    tokens.PooledCrops: pooled_crops,
}


def _tiles(views: tuple[View, ...]) -> int:
    """Return the number of tiles; a view that is not cut into tiles is one."""
    return sum(
        (view.canvas.height // view.pack.block) * (view.canvas.width // view.pack.block)
        if view.pack.kind == "tiles"
        else 1
        for view in views
    )


def _patches(view: View, patch: int) -> int:
    """Return the number of patches along an edge of a tile."""
    if view.canvas.height < patch:
        raise ImageSizeError(f"becomes tiles of {view.canvas}, smaller than the encoder's patches of {patch}")
    return view.canvas.height // patch


def _beside_patches(rule: tokens.PerTile | tokens.Anyres) -> int:
    """Return the number of the encoder's outputs that are kept beside those of the patches."""
    return rule.additional - (rule.strategy == "default")


def _without_padding(source: Size, canvas: Size) -> Size:
    """Return the features of a canvas without the rows or columns of padding around an image in its middle."""
    height, width = source
    if width / height > canvas.width / canvas.height:
        kept = int(round(height * (canvas.width / width), 7))
        return Size(canvas.height - (canvas.height - kept) // 2 * 2, canvas.width)
    kept = int(round(width * (canvas.height / height), 7))
    return Size(canvas.height, canvas.width - (canvas.width - kept) // 2 * 2)


def _every_other(patches: int, side: int) -> int:
    """Return how many of the first ``patches`` along an axis are the first, third, fifth, ... of their tile."""
    whole, rest = divmod(patches, side)
    return whole * -(-side // 2) + -(-rest // 2)
