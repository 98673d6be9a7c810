"""What the ``tokens`` section of a spec is: how features are counted, and what stands in the prompt for an image.

One struct a count rule, named as the function in ``foveal.plan.counts`` that computes it, and one for the nodes of the
template that ``foveal.tokens`` expands.
"""

import math
from collections.abc import Iterator, Sequence
from string import Formatter
from typing import Annotated, Literal

import msgspec

from foveal.spec.steps import Count, Strict

__all__ = ["LOOPS", "Node", "Nodes", "Rule", "Tokens"]

TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Strategy = Literal["default", "full"]

# ---- count rules


class Uncounted(Strict, frozen=True, tag_field="count", tag="uncounted"):
    """No feature stands in the prompt: the model reads the image by cross-attention."""


class MergedPatches(Strict, frozen=True, tag_field="count", tag="merged_patches"):
    """One feature for each block of ``merge * merge`` patches of the view."""

    patch: Count
    merge: Count


class PerTile(Strict, frozen=True, tag_field="count", tag="per_tile"):
    """The patches of each tile or planar view, divided by ``pool**2``, or ``tokens``, if that is given.

    ``additional`` is the number of tokens that the encoder puts before the patches; the strategy ``default`` drops one.
    """

    patch: Count
    pool: Count = 1
    additional: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0
    strategy: Strategy = "full"
    tokens: Count | None = None


class Fixed(Strict, frozen=True, tag_field="count", tag="fixed"):
    """``tokens`` features for each tile or planar view, whatever its size."""

    tokens: Count


class Anyres(Strict, frozen=True, tag_field="count", tag="anyres"):
    """Patches of the first view and of the tiles without their padding, and one feature at the end of each row.

    ``limit``, as ``anyres_max_9``, is the number of tiles above which the tiles' features are scaled down. For
    ``additional`` and ``strategy`` see `PerTile`.
    """

    patch: Count
    additional: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0
    strategy: Strategy = "full"
    limit: Annotated[str, msgspec.Meta(pattern=r"^anyres_max_[1-9]\d{0,2}\Z")] | None = None


class Phi3Hd(Strict, frozen=True, tag_field="count", tag="phi3_hd"):
    """``tokens`` for each tile and the global view, one between them, and one at the end of each row of both."""

    tokens: Count

    def __post_init__(self) -> None:
        """Require a square."""
        if math.isqrt(self.tokens) ** 2 != self.tokens:
            raise ValueError(f"tokens must be a square, not {self.tokens}")


class Phi4Mask(Strict, frozen=True, tag_field="count", tag="phi4_mask"):
    """Every other patch of the global view and of the tiles' image, and one at the end of each row of both."""

    patch: Count


class PooledCrops(Strict, frozen=True, tag_field="count", tag="pooled_crops"):
    """Windows of ``pool`` patches, high and wide, of the first view and of the canvas of the crops."""

    patch: Count
    pool: tuple[Count, Count]


Rule = Uncounted | MergedPatches | PerTile | Fixed | Anyres | Phi3Hd | Phi4Mask | PooledCrops

# ---- the template

LOOPS = {"row": "rows", "column": "columns", "crop": "crops"}
"""What ``each`` counts, from 1, and the number that it counts to."""

Loop = Literal["row", "column", "crop"]
Number = Literal["features", "features_per_tile", "tiles", "crops", "rows", "columns", "base_rows", "base_columns"]
Nodes = tuple["str | Node", ...]

KINDS: dict[str, tuple[set[str], set[str]]] = {
    "repeat": ({"times"}, set()),
    "text": (set(), set()),
    "each": ({"do"}, {"between"}),
    "when": ({"then"}, {"else"}),
}
"""The key that says what a node is, the keys that it needs, and those that it may have."""


class Node(Strict, frozen=True, rename={"otherwise": "else"}):
    """A node of the template; a special token stands for itself.

    Attributes
    ----------
    repeat : str or tuple of nodes
        Written ``times`` times.
    times : str
        Name of a number; see ``foveal.plan.counts.Counts``.
    text : str
        Text that is not a special token. ``{row}``, ``{column}`` and ``{crop}`` are the numbers of the loops around it.
    each : str
        What is counted: ``do`` is written for each, and ``between`` after each but the last.
    do, between : tuple of nodes
    when : str or bool
        ``multi_tile``: more than one tile or planar view. Or a value that is true or false.
    then, otherwise : tuple of nodes
        Written if so, and if not. In YAML, ``else``.
    """

    repeat: "str | Nodes | None" = None
    times: Number | None = None
    text: str | None = None
    each: Loop | None = None
    do: Nodes = ()
    between: Nodes = ()
    when: Literal["multi_tile"] | bool | None = None
    then: Nodes = ()
    otherwise: Nodes = ()

    def __post_init__(self) -> None:
        """Refuse keys that do not go together."""
        given = {key for key, value in self._keys() if value not in (None, ())}
        kinds = given & KINDS.keys()
        if len(kinds) != 1:
            raise ValueError(f"a node has one of {', '.join(KINDS)}, not {' and '.join(sorted(kinds)) or 'none'}")
        (kind,) = kinds
        needed, allowed = KINDS[kind]
        if missing := needed - given:
            raise ValueError(f"a node with {kind} needs {', '.join(sorted(missing))}")
        if surplus := given - needed - allowed - kinds:
            raise ValueError(f"a node with {kind} cannot have {', '.join(sorted(surplus))}")

    def _keys(self) -> Iterator[tuple[str, object]]:
        names = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        return ((key, getattr(self, field)) for key, field in names)


class Id(Strict, frozen=True):
    """The id of a special token, or of text that is one token."""

    token: str
    id: TokenId


class Tokens(Strict, frozen=True, cache_hash=True):
    """What an image becomes in the prompt.

    Attributes
    ----------
    placeholder : str
        What the chat template writes for an image. ``{number}`` in it is the number of the image, from 1.
    features : Rule
        How the tokens that are replaced by features of the encoder are counted.
    ids : tuple of Id
        Published ids, by token.
    feature : str, optional
        The token that is replaced by a feature; none where `features` are ``uncounted``.
    anchor : str, optional
        The token that stands for an image among token ids, where the placeholder is text.
    expand : tuple of nodes
        What takes the place of the placeholder; by default the feature token, once for each feature.
    """

    placeholder: str
    features: Rule
    ids: tuple[Id, ...]
    feature: str | None = None
    anchor: str | None = None
    expand: Nodes = ()

    def __post_init__(self) -> None:
        """Refuse a template that cannot be expanded."""
        if (self.feature is None) != isinstance(self.features, Uncounted):
            raise ValueError("feature is needed unless count is uncounted")
        if set(_fields(self.placeholder)) - {"number"}:
            raise ValueError(f"placeholder: only {{number}} can stand in braces, not {self.placeholder!r}")
        known = {entry.token for entry in self.ids}
        if len(known) < len(self.ids):
            raise ValueError("ids names a token twice")
        for token in (self.anchor or self.placeholder, self.feature):
            if token is not None and token not in known:
                raise ValueError(f"ids lacks {token!r}")
        _check_texts(self.expand, "expand", frozenset())

    @property
    def nodes(self) -> Nodes:
        """The template, given or by default."""
        return self.expand or (Node(repeat=self.feature or self.placeholder, times="features"),)


def _check_texts(nodes: Sequence[str | Node], path: str, loops: frozenset[str]) -> None:
    """Refuse numbers in texts of loops that are not around them."""
    for index, node in enumerate(nodes):
        place = f"{path}[{index}]"
        if isinstance(node, str):
            continue
        if node.text is not None and (unknown := set(_fields(node.text)) - loops):
            raise ValueError(f"{place}.text: {{{min(unknown)}}} stands outside of its loop")
        if not isinstance(node.repeat, str):
            _check_texts(node.repeat or (), f"{place}.repeat", loops)
        _check_texts(node.do, f"{place}.do", loops | {node.each or ""})
        _check_texts(node.between, f"{place}.between", loops)
        _check_texts(node.then, f"{place}.then", loops)
        _check_texts(node.otherwise, f"{place}.else", loops)


def _fields(text: str) -> list[str]:
    """Return the names that stand in braces."""
    try:
        return [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError:
        raise ValueError(f"text has a single brace: {text!r}") from None
