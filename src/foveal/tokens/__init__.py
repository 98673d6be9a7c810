"""What images become in a prompt: placeholders expanded as text and as token ids."""

from foveal.tokens.expand import Expansion, anchored, expand, expand_text
from foveal.tokens.ids import Encode, ExpandedIds, Range, expand_ids, token_id
from foveal.tokens.template import Piece

__all__ = [
    "Encode",
    "ExpandedIds",
    "Expansion",
    "Piece",
    "Range",
    "anchored",
    "expand",
    "expand_ids",
    "expand_text",
    "token_id",
]
