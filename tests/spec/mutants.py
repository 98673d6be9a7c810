"""Mutants of a spec: its tree with one number, name, key or order changed.

``python tests/spec/mutants.py`` makes all of them, which takes minutes, and lists those that do the same as the spec.
"""

import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from situations import SECTIONS, Original, Path, at, replaced, text

from foveal.errors import SpecError
from foveal.spec import load, names

__all__ = ["Mutant", "mutants", "survives"]


class Mutant(NamedTuple):
    """What was changed where, and the value that stands there."""

    name: str
    path: Path
    change: str
    value: Any

    def __str__(self) -> str:
        return f"{self.name} {text(self.path)}: {self.change}"

    @property
    def tree(self) -> dict[str, Any]:
        """The whole tree."""
        return replaced(load(self.name), self.path, self.value)


def survives(mutant: Mutant, original: Original) -> bool:
    """Return whether a mutant does the same as its original; one that is no spec is told by its place."""
    try:
        return original.does_the_same(mutant.tree, text(mutant.path))
    except SpecError as error:
        return " - at `$" not in str(error)


def mutants(name: str) -> Iterator[Mutant]:
    """Yield a spec's mutants, each with one change, in the order of its tree."""
    tree = load(name)
    for section in SECTIONS:
        for path in _paths(tree.get(section), (section,)):
            for change, value in _replacements(at(tree, path), path, tree):
                yield Mutant(name, path, change, value)


def _paths(node: Any, path: Path) -> Iterator[Path]:
    if node is None:
        return
    yield path
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _paths(value, (*path, key))


def _replacements(node: Any, path: Path, tree: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what may stand in the place of a node."""
    if isinstance(node, bool):
        yield f"{node} -> {not node}", not node
    elif isinstance(node, int):
        others = (2 * node, node // 2, node + 1 if node < 100 else 3 * node)
        yield from ((f"{node} -> {other}", other) for other in others if other != node)
    elif isinstance(node, float):
        yield from ((f"{node} -> {other}", other) for other in (node * 1.25, node + 0.125) if other != node)
    elif isinstance(node, str):
        yield from ((f"{node!r} -> {other!r}", other) for other in _other_words(node, path, tree))
    elif isinstance(node, dict):
        for key in node:
            yield f"without {key}", {other: value for other, value in node.items() if other != key}
            yield f"{key} -> {key}x", {(f"{other}x" if other == key else other): value for other, value in node.items()}
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield f"without {index}", node[:index] + node[index + 1 :]
            if index and node[index - 1] != item:
                yield (
                    f"{index - 1} and {index} swapped",
                    [*node[: index - 1], item, node[index - 1], *node[index + 1 :]],
                )


def _other_words(word: str, path: Path, tree: dict[str, Any]) -> list[str]:
    """Return other words that specs have under the same key, other constants, other files; and one that nothing has."""
    key = next(step for step in reversed(path) if isinstance(step, str))
    known = _words()[key][:12]
    if word.startswith("$"):
        known = [f"${constant}" for constant in tree["constants"]]
    elif key == "from":
        field = word.partition(".")[2]
        known = [f"{root}.{field}" for root in ("preprocessor", "constructed", "config", "processor")]
    return [other for other in (*known, f"{word}x") if other != word]


@lru_cache
def _words() -> dict[str, list[str]]:
    """Return the texts that stand under each key in any spec."""
    found: dict[str, set[str]] = {}
    for name in names():
        tree = load(name)
        for section in SECTIONS:
            for path in _paths(tree.get(section), (section,)):
                if isinstance(node := at(tree, path), str):
                    found.setdefault(next(step for step in reversed(path) if isinstance(step, str)), set()).add(node)
    return {key: sorted(words) for key, words in found.items()}


def main() -> None:
    for name in sys.argv[1:] or names():
        original = Original(name)
        for mutant in mutants(name):
            if survives(mutant, original):
                print(mutant)


if __name__ == "__main__":
    main()
