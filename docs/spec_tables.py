"""The tables of rules in ``adding_a_model.md``, from the structs that read them and the specs that use them."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from foveal.spec import load, names, schema, steps, tokens

__all__ = ["canvas_table", "count_table", "op_table", "pack_table", "windows_table"]

Struct = type[msgspec.Struct]


def op_table() -> str:
    """Return the ops of a view's steps."""
    return _table("op", steps.Op.__subclasses__())


def canvas_table() -> str:
    """Return the rules that choose a canvas."""
    return _table("choose", steps.CanvasRule.__subclasses__())


def windows_table() -> str:
    """Return the rules that cut several views."""
    return _table("cut", steps.WindowsRule.__subclasses__())


def pack_table() -> str:
    """Return the ways in which a canvas becomes rows of the tensor."""
    return _table("as", [schema.Planar, schema.Tiles, schema.PatchPack, schema.MergePatches])


def count_table() -> str:
    """Return the ways in which features are counted."""
    return _table("count", tokens.Rule.__args__)


def _table(key: str, structs: Any) -> str:
    lines = [f"| `{key}` | keys | what | as in |", "|---|---|---|---|"]
    for struct in structs:
        cells = (f"`{_tag(struct)}`", ", ".join(_keys(struct)), _what(struct), _examples(key, _tag(struct)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _tag(struct: Struct) -> str:
    return str(struct.__struct_config__.tag)


def _keys(struct: Struct) -> Iterator[str]:
    """Yield the keys of a rule, with the value that one has where it is left out."""
    for field in msgspec.structs.fields(struct):
        default = "" if field.required else f" = {msgspec.json.encode(field.default).decode().strip(chr(34))}"
        yield f"`{field.encode_name}{default}`"


def _what(struct: Struct) -> str:
    """Return the docstring, with its markup as Markdown's and rules by the name that a spec gives them."""
    text = " ".join((struct.__doc__ or "").split()).replace("``", "`")
    named = {each.__name__: _tag(each) for each in _all_rules()}
    return re.sub(r"`(\w+)`", lambda word: f"`{named.get(word[1], word[1])}`", text)


def _all_rules() -> Iterator[Struct]:
    yield from steps.Op.__subclasses__()
    yield from steps.CanvasRule.__subclasses__()
    yield from steps.WindowsRule.__subclasses__()
    yield from tokens.Rule.__args__


def _examples(key: str, tag: str) -> str:
    """Return a spec or two that use a rule."""
    users = [name for name in names() if (key, tag) in set(_tags(load(name)))]
    return ", ".join(f"`{name}`" for name in users[:2])


def _tags(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys of a spec that have text as their value."""
    if isinstance(tree, dict):
        yield from ((key, value) for key, value in tree.items() if isinstance(value, str))
    for item in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _tags(item)
