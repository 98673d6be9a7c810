"""What follows from the views of one image: feature tokens and the values of the small tensors."""

from foveal.plan.plan import SideTensor, View
from foveal.plan.views import tiles
from foveal.spec import schema

__all__ = ["count_features", "side_tensor"]


def count_features(rule: schema.MergedPatches | schema.PerTile, views: tuple[View, ...]) -> int:
    """Return the number of feature tokens that an image becomes."""
    if isinstance(rule, schema.PerTile):
        return sum(_per_tile(rule, view) for view in views)
    return sum(_merged_patches(view) for view in views)


def side_tensor(tensor: schema.Tensor, views: tuple[View, ...]) -> SideTensor:
    """Return one image's row of a small tensor: ``grid_thw`` or ``tile_grid``, both of the first view."""
    view = views[0]
    rows, columns = view.canvas.height // view.pack.block, view.canvas.width // view.pack.block
    row = (1, rows, columns) if tensor.value == "grid_thw" else (rows, columns)
    return SideTensor(tensor.name, tensor.dtype, (row,))


def _merged_patches(view: View) -> int:
    side = view.pack.block * view.pack.merge
    return (view.canvas.height // side) * (view.canvas.width // side)


def _per_tile(rule: schema.PerTile, view: View) -> int:
    """Count per tile, rounding down once for the tile.

    Source: transformers 5.24.0, models/llama4/processing_llama4.py and models/llava/processing_llava.py.
    """
    side = view.pack.block
    height, width = (side, side) if view.pack.kind == "tiles" else view.canvas
    return tiles(view) * ((height // rule.patch) * (width // rule.patch) // rule.pool**2)
