"""A tokenizer of a few words and special tokens, as small as the tests need: no model's vocabulary is at hand offline.

Runs of newlines are words, as in Gemma's vocabulary. ``make_token_goldens.py`` builds the same one for transformers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from foveal.spec.tokens import Tokens

__all__ = ["ToyTokenizer", "toy_tokenizer"]

UNPUBLISHED = 300_000
"""Ids from here on are of tokens whose published ids no spec says."""

PROMPT_WORDS = ("<s>", "<unk>", "user", "What is this?", "Answer.", *("\n" * length for length in range(1, 9)))
PROSE = ("Here is the original image ", " and here are some crops to help you see better ", " ")
TAGS = (
    "TILE_GLOBAL",
    "<global-img>",
    *(f"TILE_{number}" for number in range(1, 40)),
    *(f"<row_{row}_col_{column}>" for row in range(1, 9) for column in range(1, 9)),
)
SEPARATORS = ("<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_LINE_BREAK|>", "<image>", "<|video|>", "<video>")


@dataclass(frozen=True)
class ToyTokenizer:
    """Special tokens and words with their ids."""

    special: dict[str, int]
    words: dict[str, int]

    def __call__(self, text: str) -> list[int]:
        """Return the ids of a text; anything else than its tokens and words is an error."""
        parts = self._part.split(text)
        assert not any(parts[::2]), f"{parts[::2]} are no words"
        return [self.special.get(part) or self.words[part] for part in parts[1::2]]

    @property
    def word(self) -> str:
        """Pattern of a word: the longest that fits."""
        return any_of(self.words)

    @cached_property
    def _part(self) -> re.Pattern[str]:
        return re.compile(f"({any_of(self.special)}|{self.word})")


def any_of(texts: Iterable[str]) -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


def toy_tokenizer(tokens: Tokens) -> ToyTokenizer:
    """Return a tokenizer that has the ids of a spec, and others for what the spec has no ids for."""
    published = {entry.token: entry.id for entry in tokens.ids}
    special = {token: id for token, id in published.items() if not token.isspace()}
    words = {token: id for token, id in published.items() if token.isspace()}
    others = [text for text in (*PROMPT_WORDS, *PROSE, *TAGS, *SEPARATORS) if text not in published]
    numbered = {text: UNPUBLISHED + number for number, text in enumerate(others)}
    special |= {text: numbered[text] for text in SEPARATORS if text in numbered}
    return ToyTokenizer(special, words | {text: id for text, id in numbered.items() if text not in special})
