"""Which specs exist, how one is loaded, and which one a checkpoint needs."""

import copy
import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec
import yaml

from foveal.errors import SpecError, UnknownModelError
from foveal.spec.checkpoint import Checkpoint
from foveal.spec.schema import Match

__all__ = ["load", "match", "names", "nearest"]

SPECS = Path(__file__).parents[1] / "specs"
RawSpec = dict[str, Any]


def names() -> list[str]:
    """Return the names of the built-in specs, sorted."""
    return sorted(path.stem for path in SPECS.glob("*.yaml"))


def load(name_or_path: str | PathLike[str]) -> RawSpec:
    """Return a spec as its YAML tree.

    Parameters
    ----------
    name_or_path : str or path
        Name of a built-in spec, or path of a ``.yaml`` file.

    Raises
    ------
    UnknownModelError
        If no built-in spec has that name.
    SpecError
        If the file cannot be read or is not a YAML mapping.
    """
    if Path(name_or_path).suffix in (".yaml", ".yml"):
        return _parse(Path(name_or_path))
    name = fspath(name_or_path)
    if name not in names():
        raise UnknownModelError(f"no spec is named '{name}'; {nearest(name, names())}")
    return copy.deepcopy(_built_in(name))


def match(checkpoint: Checkpoint) -> str:
    """Return the name of the spec that a checkpoint needs.

    ``image_processor_type`` decides first (``Fast`` and ``Pil`` at its end do not matter). Where several specs share
    it, ``model_type`` decides, then the id: the directory's name or ``_name_or_path``, in lower case.

    Raises
    ------
    UnknownModelError
        If no spec fits, or more than one does.
    """
    specs = {name: _match_section(name) for name in names()}
    kind, model_type = checkpoint.image_processor_type, checkpoint.model_type
    found = [name for name, section in specs.items() if not kind or kind in section.image_processor_type]
    by_model = [name for name in found if model_type in specs[name].model_type]
    by_id = [name for name in found if _fits_id(specs[name].id, checkpoint.ids)]
    if not by_model and not by_id and (model_type or not kind):
        found = []
    found = by_model or by_id or found
    if len(found) == 1:
        return found[0]
    what = ", ".join(
        f"{key} '{value}'" for key, value in (("image_processor_type", kind), ("model_type", model_type)) if value
    )
    what = what or "neither image_processor_type nor model_type"
    if found:
        raise UnknownModelError(f"checkpoint '{checkpoint.name}' has {what}, which fits {', '.join(found)}")
    raise UnknownModelError(
        f"no spec fits checkpoint '{checkpoint.name}' with {what}; {nearest(model_type or checkpoint.name, specs)}"
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``nearest: a, b`` for the known words that resemble a word, or else the list of all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    return f"nearest: {', '.join(close)}" if close else f"known: {', '.join(known)}"


def _fits_id(patterns: Sequence[str], ids: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for name in ids for pattern in patterns)


@lru_cache
def _built_in(name: str) -> RawSpec:
    return _parse(SPECS / f"{name}.yaml")


@lru_cache
def _match_section(name: str) -> Match:
    return msgspec.convert(_built_in(name)["match"], Match)


def _parse(path: Path) -> RawSpec:
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), _loader())
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(f"{path}: line {line}: {error.problem}") from None
    except yaml.YAMLError:
        raise SpecError(f"{path}: not YAML") from None
    if not isinstance(tree, dict):
        raise SpecError(f"{path}: not a mapping")
    return tree


@lru_cache
def _loader() -> Any:
    """Return a safe YAML loader, in C where PyYAML has it, that refuses a key given twice."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
        loader.flatten_mapping(node)
        pairs = [
            (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
            for key, value in node.value
        ]
        tree: dict[Any, Any] = {}
        for (key, value), (mark, _) in zip(pairs, node.value, strict=True):
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=mark.start_mark)
            if key in tree:
                raise yaml.MarkedYAMLError(problem=f"'{key}' is given twice", problem_mark=mark.start_mark)
            tree[key] = value
        return tree

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader
