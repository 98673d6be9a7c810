"""What takes the place of an image's placeholder, and prompts with all of theirs expanded, as text."""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from foveal.errors import PlaceholderError, SpecError
from foveal.plan.counts import Counts, count
from foveal.plan.plan import Plan
from foveal.spec.tokens import Tokens
from foveal.tokens.template import Piece, pieces
from foveal.types import Size

__all__ = ["Expansion", "anchored", "check_number", "expand", "expand_text"]


class Expansion(msgspec.Struct, frozen=True):
    """What takes the place of the placeholder of one image.

    Attributes
    ----------
    pieces : tuple of Piece
        Special tokens and texts, runs compressed.
    features : int
        Number of feature tokens among them.
    """

    pieces: tuple[Piece, ...]
    features: int

    @property
    def text(self) -> str:
        """The text that the reference's processor writes."""
        return "".join(piece.text * piece.times for piece in self.pieces)


def expand(tokens: Tokens, plan: Plan) -> Expansion:
    """Return what takes the place of the placeholder of an image.

    Parameters
    ----------
    tokens : Tokens
        ``Spec.tokens`` of the spec that made the plan.
    plan : Plan

    Raises
    ------
    SpecError
        If the template writes another number of feature tokens than the plan has features.
    """
    expansion = _expansion(tokens, count(tokens.features, plan.views, plan.grid, Size(plan.height, plan.width)))
    if expansion.features != plan.features:
        raise SpecError(
            f"{plan.height}x{plan.width} (height x width): the template writes {expansion.features} feature tokens, "
            f"for {plan.features} features ({plan.spec})"
        )
    return expansion


def expand_text(tokens: Tokens, prompt: str, plans: Sequence[Plan]) -> str:
    """Return a prompt with its placeholders expanded, as the reference's processor gives it to its tokenizer.

    Parameters
    ----------
    tokens : Tokens
    prompt : str
        With a placeholder for each image. Where the placeholder is text, its anchor may stand for it.
    plans : sequence of Plan
        Of the images, in order.

    Raises
    ------
    PlaceholderError
        If there are not as many placeholders as images, or their numbers are not 1, 2, 3, ... in order.
    """
    return _replaced(tokens, prompt, [expand(tokens, plan).text for plan in plans])


def anchored(tokens: Tokens, prompt: str, images: int) -> str:
    """Return a prompt in which a token stands for each image, as `expand_ids` takes it once it is tokenized.

    Where the placeholder is a token, that is the prompt itself.

    Parameters
    ----------
    tokens : Tokens
    prompt : str
        With a placeholder for each image.
    images : int

    Raises
    ------
    PlaceholderError
        As `expand_text`.
    """
    return _replaced(tokens, prompt, [tokens.anchor or tokens.placeholder] * images)


def _replaced(tokens: Tokens, prompt: str, replacements: Sequence[str]) -> str:
    parts = _pattern(tokens.placeholder, tokens.anchor).split(prompt)
    texts, numbers = parts[::2], parts[1::2]
    check_number(tokens.placeholder, len(numbers), len(replacements))
    for number, written in enumerate(numbers, 1):
        if written not in (None, "", str(number)):
            raise PlaceholderError(f"placeholder {number} has the number {written[:20]}: they count from 1, in order")
    return "".join(text for pair in zip(texts, [*replacements, ""], strict=True) for text in pair)


def check_number(placeholder: str, found: int, images: int) -> None:
    """Refuse a prompt that has not one placeholder for each image."""
    if found != images:
        word = "placeholder" if found == 1 else "placeholders"
        pictures = "image" if images == 1 else "images"
        raise PlaceholderError(f"the prompt has {found} {word} {placeholder!r}, for {images} {pictures}")


@lru_cache(maxsize=1024)
def _expansion(tokens: Tokens, counts: Counts) -> Expansion:
    written = pieces(tokens.nodes, counts)
    features = sum(piece.times for piece in written if piece.special and piece.text == tokens.feature)
    return Expansion(written, features)


@lru_cache(maxsize=64)
def _pattern(placeholder: str, anchor: str | None) -> re.Pattern[str]:
    """Return a pattern with one group, the number of a placeholder that has one."""
    before, numbered, after = placeholder.partition("{number}")
    number = r"(\d+)" if numbered else "()"
    pattern = f"{re.escape(before)}{number}{re.escape(after)}"
    return re.compile(f"{pattern}|{re.escape(anchor)}" if anchor else pattern)
