"""Prompts with one placeholder an image, expanded as token ids, with the ranges that engines ask for."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError, PlaceholderError
from foveal.plan.plan import Plan
from foveal.spec.tokens import Tokens
from foveal.spec.values import show
from foveal.tokens.expand import Expansion, check_number, expand

__all__ = ["Encode", "ExpandedIds", "Range", "expand_ids", "token_id"]

Encode = Callable[[str], Sequence[int]]
"""A tokenizer: from text to ids, special tokens in the text recognized and none added."""

Ids = npt.NDArray[Any]


class Range(NamedTuple):
    """Tokens in a row: the place of the first, and how many."""

    offset: int
    length: int


class ExpandedIds(NamedTuple):
    """The token ids of a prompt with its images.

    Attributes
    ----------
    ids : ndarray of int
    structural : tuple of Range
        For each image, all tokens that took the place of its placeholder.
    features : tuple of tuple of Range
        For each image, those of them that are replaced by features, run by run.
    """

    ids: Ids
    structural: tuple[Range, ...]
    features: tuple[tuple[Range, ...], ...]


def expand_ids(
    tokens: Tokens, input_ids: npt.ArrayLike, plans: Sequence[Plan], encode: Encode | None = None
) -> ExpandedIds:
    """Return the ids of a prompt with its placeholders expanded, and where each image lies.

    Parameters
    ----------
    tokens : Tokens
        ``Spec.tokens`` of the spec that made the plans.
    input_ids : array_like of int
        Of the whole prompt, with the placeholder for each image, or its anchor where the placeholder is text.
    plans : sequence of Plan
        Of the images, in order.
    encode : callable, optional
        The model's tokenizer. Without it, ids are those that the spec or the checkpoint's configuration says.

    Returns
    -------
    ExpandedIds
        ``ids`` are int32 if ``input_ids`` are, else int64.

    Raises
    ------
    PlaceholderError
        If there are not as many placeholders as images, or an id is not known.
    OptionError
        If ``input_ids`` is not a row of integers.

    Notes
    -----
    Where text of the template meets text of the prompt and the spec has an id for both together, as for newlines of
    Gemma-3, they become that token, which is part of the image; between two images, of the first. Other tokens that a
    tokenizer would join stay two; where that matters, tokenize what ``expand_text`` returns.
    """
    ids = _row(input_ids)
    vocabulary = _published(tokens) if encode is None else _Vocabulary(tokens, encode)
    anchor = tokens.anchor or tokens.placeholder
    places = np.flatnonzero(ids == vocabulary.id_of(anchor))
    check_number(anchor, places.size, len(plans))
    output = _Output(vocabulary.joined)
    start = 0
    for place, plan in zip(places.tolist(), plans, strict=True):
        output.add_prompt(ids[start:place])
        output.add_image(vocabulary.encoded(expand(tokens, plan)))
        start = place + 1
    output.add_prompt(ids[start:])
    return output.result(ids.dtype)


def token_id(tokens: Tokens, token: str, encode: Encode | None = None) -> int:
    """Return the id of a token: the model's tokenizer's if there is one, else that of the spec or the checkpoint.

    Raises
    ------
    PlaceholderError
        If it is not known, or not one token.
    """
    return (_published(tokens) if encode is None else _Vocabulary(tokens, encode)).id_of(token)


class _Encoded(NamedTuple):
    """The ids of an expansion, and the runs of features in it."""

    ids: Ids
    features: tuple[Range, ...]


class _Vocabulary:
    """The ids of what a template writes: a tokenizer's if there is one, else those of the spec.

    Attributes
    ----------
    joined : dict
        Of two ids, where the spec has an id for both together, that one.
    """

    def __init__(self, tokens: Tokens, encode: Encode | None) -> None:
        self._feature = tokens.feature
        self._encode = encode
        self._known: dict[str, tuple[int, ...]] = {}
        if encode is None:
            self._known.update({entry.token: (entry.id,) for entry in tokens.ids})
        texts = [entry.token for entry in tokens.ids]
        pairs = [(left, right) for left in texts for right in texts if left + right in texts]
        self.joined = {
            (self.id_of(left), self.id_of(right)): self.id_of(left + right)
            for left, right in pairs
            if all(len(self._ids(text)) == 1 for text in (left, right, left + right))
        }

    def id_of(self, token: str) -> int:
        """Return the id of a text that is one token."""
        ids = self._ids(token)
        if len(ids) != 1:
            raise PlaceholderError(f"{token!r} is {len(ids)} tokens to the tokenizer, where it must be one")
        return ids[0]

    def encoded(self, expansion: Expansion) -> _Encoded:
        """Return the ids of an expansion."""
        ids: list[int] = []
        counts: list[int] = []
        features = []
        offset = 0
        for text, times, special in expansion.pieces:
            written = (self.id_of(text),) if special else self._ids(text)
            ids += written
            counts += [times] * len(written)
            if special and text == self._feature:
                features.append(Range(offset, times))
            offset += times * len(written)
        return _Encoded(np.repeat(np.array(ids, np.int64), counts), tuple(features))

    def _ids(self, text: str) -> tuple[int, ...]:
        if text not in self._known:
            if self._encode is None:
                raise PlaceholderError(f"no id is known for {text!r}: the model's tokenizer is needed (encode)")
            self._known[text] = tuple(self._encode(text))
        return self._known[text]


@lru_cache(maxsize=64)
def _published(tokens: Tokens) -> _Vocabulary:
    return _Vocabulary(tokens, None)


class _Output:
    """The parts of a prompt, one after the other; the first id of each may join the last before it."""

    def __init__(self, joined: Mapping[tuple[int, int], int]) -> None:
        self._joined = joined
        self._parts: list[Ids] = []
        self._length = 0
        self._follows_image = False
        self._structural: list[Range] = []
        self._features: list[tuple[Range, ...]] = []

    def add_prompt(self, ids: Ids) -> None:
        """Add what stands between images."""
        if ids.size:
            before = self._length
            self._append(ids)
            self._follows_image = self._follows_image and self._length == before

    def add_image(self, encoded: _Encoded) -> None:
        """Add what takes the place of a placeholder."""
        before = self._length
        start = self._append(encoded.ids)
        first = before if self._follows_image else start
        self._structural.append(Range(first, self._length - first))
        self._features.append(tuple(Range(start + offset, length) for offset, length in encoded.features))
        self._follows_image = True

    def result(self, dtype: npt.DTypeLike) -> ExpandedIds:
        """Return the whole prompt."""
        ids = np.concatenate([np.empty(0, dtype), *self._parts]).astype(dtype, copy=False)
        return ExpandedIds(ids, tuple(self._structural), tuple(self._features))

    def _append(self, ids: Ids) -> int:
        """Add ids and return where the first of them is, alone or joined."""
        start = self._length
        joined = self._joined.get((int(self._parts[-1][-1]), int(ids[0]))) if self._parts and ids.size else None
        if joined is not None:
            self._parts[-1:] = [self._parts[-1][:-1], np.array([joined])]
            ids = ids[1:]
            start -= 1
        if ids.size:
            self._parts.append(ids)
            self._length += ids.size
        return start


def _row(input_ids: npt.ArrayLike) -> Ids:
    """Return ids as an array of int32, if they are that, or int64."""
    try:
        ids = np.asarray(input_ids)
    except ValueError:  # of lists of different lengths
        raise OptionError(f"input_ids must be a row of integers, not {show(input_ids)}") from None
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise OptionError(f"input_ids must be a row of integers, not {show(input_ids)}")
    return ids if ids.dtype == np.int32 else ids.astype(np.int64, copy=False)
