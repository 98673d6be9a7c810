"""Trees of built-in specs with one thing changed."""

from typing import Any

from foveal.spec import load

__all__ = ["STEP", "change"]

STEP = ("image", "views", 0, "steps", 0)


def change(name: str, *path: str | int, value: Any = None, drop: bool = False) -> dict[str, Any]:
    """Return a built-in spec's tree with one value replaced, added or dropped."""
    tree = load(name)
    *way, last = path
    node: Any = tree
    for key in way:
        node = node[key]
    if drop:
        del node[last]
    else:
        node[last] = value
    return tree
