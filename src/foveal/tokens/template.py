"""The template language: from a template's nodes and an image's numbers to pieces."""

from collections.abc import Mapping
from typing import NamedTuple

from foveal.plan.counts import Counts
from foveal.spec.tokens import LOOPS, Node, Nodes

__all__ = ["Piece", "pieces"]


class Piece(NamedTuple):
    """A special token ``times`` times in a row, or text, once.

    Attributes
    ----------
    text : str
    times : int
    special : bool
        Whether it is a special token.
    """

    text: str
    times: int
    special: bool


def pieces(nodes: Nodes, counts: Counts) -> tuple[Piece, ...]:
    """Return what a template writes for an image.

    Texts that meet are one piece, because a tokenizer does not see where one ends; so are equal tokens.
    """
    written: list[Piece] = []
    _write(nodes, counts, {}, written)
    return tuple(written)


def _write(nodes: Nodes, counts: Counts, loops: Mapping[str, int], written: list[Piece]) -> None:
    for node in nodes:
        match node:
            case str():
                _add(Piece(node, 1, True), written)
            case Node(repeat=str(token), times=str(times)):
                _add(Piece(token, getattr(counts, times), True), written)
            case Node(repeat=tuple(repeated), times=str(times)):
                for _ in range(getattr(counts, times)):
                    _write(repeated, counts, loops, written)
            case Node(text=str(text)):
                _add(Piece(text.format_map(loops), 1, False), written)
            case Node(each=str(loop)):
                _write_each(node, loop, counts, loops, written)
            case _:
                chosen = counts.tiles > 1 if node.when == "multi_tile" else node.when
                _write(node.then if chosen else node.otherwise, counts, loops, written)


def _write_each(node: Node, loop: str, counts: Counts, loops: Mapping[str, int], written: list[Piece]) -> None:
    last = getattr(counts, LOOPS[loop])
    for number in range(1, last + 1):
        _write(node.do, counts, {**loops, loop: number}, written)
        if number < last:
            _write(node.between, counts, loops, written)


def _add(piece: Piece, written: list[Piece]) -> None:
    if not piece.times or not piece.text:
        return
    before = written[-1] if written else None
    if before and not before.special and not piece.special:
        written[-1] = Piece(before.text + piece.text, 1, False)
    elif before and before.special and piece.special and before.text == piece.text:
        written[-1] = Piece(piece.text, before.times + piece.times, True)
    else:
        written.append(piece)
