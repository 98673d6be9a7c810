"""Pictures of what an encoder reads, rebuilt from the tensors: packing and normalization undone."""

from foveal.show.page import draw
from foveal.show.pixels import view_pixels
from foveal.show.words import numbers_text, packing_text

__all__ = ["draw", "numbers_text", "packing_text", "view_pixels"]
