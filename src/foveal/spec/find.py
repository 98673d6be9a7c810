"""Which specs exist, how one is loaded, and which one a checkpoint needs."""

import copy
import difflib
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import yaml

from foveal.errors import SpecError, UnknownModelError
from foveal.spec.checkpoint import MODEL_ID, Checkpoint
from foveal.spec.files import path_text, read_file, shown_path
from foveal.spec.schema import Match
from foveal.spec.values import one_line, show

__all__ = ["load", "match", "match_id", "names", "nearest", "spec_path"]

SPECS = Path(__file__).parents[1] / "specs"
RawSpec = dict[str, Any]


def names() -> list[str]:
    """Return the names of the specs that are found by name, sorted: built-in ones and those in ``FOVEAL_SPECS``."""
    return sorted(_paths())


def spec_path(name: str) -> Path:
    """Return the file of a spec that is found by name.

    Raises
    ------
    UnknownModelError
        If there is none.
    """
    paths = _paths()
    if name not in paths:
        raise UnknownModelError(f"no spec is named {show(name)}; {nearest(name, paths)}")
    return paths[name]


def load(name_or_path: str | PathLike[str]) -> RawSpec:
    """Return a spec as its YAML tree.

    Parameters
    ----------
    name_or_path : str or path
        Name of a spec, path of a ``.yaml`` file, or id of a model on the Hub, ``organization/model``.

    Raises
    ------
    UnknownModelError
        If there is no such spec, or an id fits none or several.
    SpecError
        If the file cannot be read or is not a YAML mapping.
    """
    name = path_text(name_or_path, "the name of a spec or the path of a .yaml file")
    if name.endswith((".yaml", ".yml")):
        return _parse(name)
    if MODEL_ID.fullmatch(name):
        name = _spec_of(name)
    tree = copy.deepcopy(_tree(spec_path(name)))
    if tree.get("name") != name:
        raise SpecError(f"{name}.yaml: its name is {show(tree.get('name'))}, which must be that of the file")
    return tree


def _spec_of(model_id: str) -> str:
    """Return the spec that has the numbers of a model: it names it as a source.

    Raises
    ------
    UnknownModelError
        If the model is of a family whose spec has another model's numbers, or of none.
    """
    name = match_id(model_id)
    if spec_path(name).parent != SPECS:  # whoever wrote it knows the model
        return name
    sources = [str(line).partition(" ")[0] for line in _tree(spec_path(name)).get("source", [])]
    models = [source for source in sources if MODEL_ID.fullmatch(source)]
    if model_id not in models:
        whose = f"the numbers of {', '.join(models)}" if models else "the numbers of its reference's class"
        raise UnknownModelError(
            f"{show(model_id)} is of the family {name}, whose spec has {whose}: "
            f"name {name} if they are the same, or pass the directory of the checkpoint"
        )
    return name


def match_id(model_id: str) -> str:
    """Return the name of the spec for a model's id on the Hub, as ``Qwen/Qwen2.5-VL-7B-Instruct``.

    Raises
    ------
    UnknownModelError
        If no spec's patterns fit, or those of several do.
    """
    sections = _sections()
    found = _preferred([name for name, section in sections.items() if _fits_id(section.id, (model_id,))])
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownModelError(f"model {show(model_id)} fits {', '.join(found)}")
    word = model_id.rpartition("/")[2].lower().replace("-", "_")
    raise UnknownModelError(f"no spec fits model {show(model_id)}; {nearest(word, sections)}")


def match(checkpoint: Checkpoint) -> str:
    """Return the name of the spec that a checkpoint needs.

    ``image_processor_type`` decides first (``Fast`` and ``Pil`` at its end do not matter). Where several specs share
    it, ``model_type`` decides, then ``architectures``, then the id: the directory's name or ``_name_or_path``, in lower
    case. A spec in ``FOVEAL_SPECS`` goes before a built-in one.

    Raises
    ------
    UnknownModelError
        If no spec fits, or more than one does.
    """
    specs = _sections()
    kind, model_type = checkpoint.image_processor_type, checkpoint.model_type
    found = [name for name, section in specs.items() if not kind or kind in section.image_processor_type]
    by_model = [name for name in found if model_type in specs[name].model_type]
    by_architecture = [name for name in found if set(checkpoint.architectures) & set(specs[name].architectures)]
    by_id = [name for name in found if _fits_id(specs[name].id, checkpoint.ids)]
    decided = by_model or by_architecture or by_id
    if not decided and (model_type or not kind):
        found = []
    found = _preferred(decided or found)
    if len(found) == 1:
        return found[0]
    what = ", ".join(
        f"{key} {show(value)}" for key, value in (("image_processor_type", kind), ("model_type", model_type)) if value
    )
    what = what or "neither image_processor_type nor model_type"
    name = f"'{one_line(checkpoint.name, 120)}'"
    if found:
        raise UnknownModelError(f"checkpoint {name} with {what} fits {', '.join(found)}")
    raise UnknownModelError(
        f"no spec fits checkpoint {name} with {what}; {nearest(model_type or checkpoint.name, specs)}"
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``nearest: a, b`` for the known words that resemble a word, or else the list of all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word[:100], known, n=3, cutoff=0.6)
    return f"nearest: {', '.join(close)}" if close else f"known: {', '.join(known)}"


def _fits_id(patterns: Sequence[str], ids: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for name in ids for pattern in patterns)


def _paths() -> dict[str, Path]:
    """Return the file of every spec by name; the directories of ``FOVEAL_SPECS`` go before the built-in one."""
    own = reversed(os.environ.get("FOVEAL_SPECS", "").split(os.pathsep))
    directories = [SPECS, *(Path(directory) for directory in own if directory)]
    for directory in directories:
        if not directory.is_dir():
            raise SpecError(f"FOVEAL_SPECS: {shown_path(str(directory))}: no such directory")
    return {path.stem: path for directory in directories for path in directory.glob("*.yaml")}


def _preferred(found: Sequence[str]) -> list[str]:
    """Return those that the user has added, if there are any."""
    paths = _paths()
    return [name for name in found if paths[name].parent != SPECS] or list(found)


def _sections() -> dict[str, Match]:
    return {name: _match_section(path) for name, path in sorted(_paths().items())}


def _tree(path: Path) -> RawSpec:
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> RawSpec:
    return _parse(str(path))


def _match_section(path: Path) -> Match:
    try:
        return msgspec.convert(_tree(path).get("match"), Match)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `")
        raise SpecError(
            f"{shown_path(str(path))}: {one_line(reason)} - at `$.match{place.removesuffix('`').removeprefix('$')}`"
        ) from None


def _parse(path: str) -> RawSpec:
    data, name = read_file(path), shown_path(path)
    if data is None:
        raise SpecError(f"{name}: No such file or directory")
    try:
        text = data.decode()
        _check_events(text)
        tree = yaml.load(text, _loader())
    except UnicodeDecodeError:
        raise SpecError(f"{name}: not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(f"{name}: line {line}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError):
        raise SpecError(f"{name}: not YAML") from None
    except (ValueError, OverflowError):
        raise SpecError(f"{name}: holds a number or a date that cannot be read") from None
    if not isinstance(tree, dict):
        raise SpecError(f"{name}: not a mapping")
    return tree


def _check_events(text: str) -> None:
    """Refuse what a spec never needs: aliases, which can grow without end, and tags, which choose Python's types."""
    for event in yaml.parse(text, _loader()):
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not read", problem_mark=mark)
        if getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(problem="tags are not read", problem_mark=mark)


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
                raise yaml.MarkedYAMLError(problem=f"{show(key)} is given twice", problem_mark=mark.start_mark)
            tree[key] = value
        return tree

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader
