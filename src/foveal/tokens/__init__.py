"""What images become in a prompt: placeholders expanded as text and as token ids."""

from foveal.tokens.expand import Expansion, expand, expand_text
from foveal.tokens.ids import ExpandedIds, Range, expand_ids
from foveal.tokens.template import Piece

__all__ = ["ExpandedIds", "Expansion", "Piece", "Range", "expand", "expand_ids", "expand_text"]
