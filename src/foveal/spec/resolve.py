"""From a spec's YAML tree, a checkpoint and overrides to numbers.

A tree may hold ``$name`` (a value under ``constants``), ``{from: [paths], default: x, as: kind}`` (the first path that
is present in ``preprocessor.*``, ``constructed.*``, ``config.*`` or ``processor.*``) and
``{by_reference: {torchvision: x, pillow: y}}``.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

import msgspec

from foveal.errors import OptionError, SpecError
from foveal.spec.checkpoint import Checkpoint
from foveal.spec.fields import Layers, Origin, refuse
from foveal.spec.schema import PILLOW_ALONE, Fields, Spec
from foveal.spec.values import CONVERSIONS, channels, edge, one_line, plain, plain_layer, show
from foveal.types import Reference

__all__ = ["ReferenceFields", "reference_fields", "resolve"]

T = TypeVar("T")
Overrides = Mapping[str, Any]
Backend = Literal["torchvision", "pillow"]
REFERENCE_NAMES: dict[str, Reference] = {
    "torchvision": "torchvision",
    "pillow": "pillow",
    "pil": "pillow",
    "pillow>=13": "pillow",
    "pillow<13": "pillow<13",
}
PREPROCESSOR = ("preprocessor", "constructed")
"""The image processor's fields, and those fields as they were before the overrides of a call."""
FILES = {"config": "config.json", "processor": "processor_config.json"}
UNSET = msgspec.UNSET

NAME = re.compile(r"[\w.-]{1,64}")
SPEC_LEVELS, SPEC_VALUES = 16, 16384
"""What a spec's tree can hold at most, so that no step below meets an endless one."""


def resolve(
    raw: Mapping[str, Any],
    checkpoint: Checkpoint | None = None,
    overrides: Overrides | Sequence[Overrides] = (),
    reference: str | None = None,
    call: Overrides | None = None,
) -> Spec:
    """Return a spec with every number filled in.

    Parameters
    ----------
    raw : dict
        YAML tree, from ``foveal.spec.load``; not changed.
    checkpoint : Checkpoint, optional
        Its values replace the spec's defaults.
    overrides : dict or sequence of dict
        Fields of the image processor that replace the checkpoint's; later ones replace earlier ones. ``None``
        switches a flag off, as in the reference.
    reference : str, optional
        ``torchvision``, ``pillow`` (also ``pil``, ``pillow>=13``) or ``pillow<13``; the spec's first by default.
    call : dict, optional
        Overrides of one call, above all others. What a spec reads as ``constructed.*`` does not see them.

    Raises
    ------
    SpecError
        If the spec or the checkpoint is wrong.
    OptionError
        If an override or the reference is unknown or cannot be honoured.
    """
    return _resolver(raw, checkpoint, overrides, reference, call).spec()


class ReferenceFields(NamedTuple):
    """The numbers of a spec as its reference takes them, before any conversion.

    Attributes
    ----------
    image_processor : dict
        Arguments of the image processor; filters, means and standard deviations may be names.
    processor : dict
        Arguments of the processor around it, as far as the spec reads them.
    """

    image_processor: dict[str, Any]
    processor: dict[str, Any]


def reference_fields(
    raw: Mapping[str, Any],
    checkpoint: Checkpoint | None = None,
    overrides: Overrides | Sequence[Overrides] = (),
    reference: str | None = None,
) -> ReferenceFields:
    """Return what gives the reference the same numbers as the spec. For parameters and errors see `resolve`."""
    return _resolver(raw, checkpoint, overrides, reference).reference_fields()


def _resolver(
    raw: Mapping[str, Any],
    checkpoint: Checkpoint | None,
    overrides: Overrides | Sequence[Overrides],
    reference: str | None,
    call: Overrides | None = None,
) -> "_Resolver":
    layers: Sequence[Any] = overrides if isinstance(overrides, list | tuple) else [overrides]
    return _Resolver(raw, checkpoint, [plain_layer(layer) for layer in layers], reference, plain_layer(call or {}))


class _Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"paths": "from", "kind": "as"}):
    paths: tuple[str, ...]
    default: Any = UNSET
    kind: str | msgspec.UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a conversion that does not exist."""
        if self.kind is not UNSET and self.kind not in CONVERSIONS:
            raise ValueError(f"as: {self.kind} is not one of {', '.join(CONVERSIONS)}")


class _Source(NamedTuple):
    """Where a value of the resolved tree came from; ``origin`` is nothing for a default."""

    origin: Origin | None
    value: Any


class _Resolver:
    def __init__(
        self,
        raw: Mapping[str, Any],
        checkpoint: Checkpoint | None,
        overrides: Sequence[Overrides],
        reference: str | None,
        call: Overrides,
    ) -> None:
        self.name = "spec"
        self.raw = self._tree(raw)
        name = self.raw.get("name")
        if isinstance(name, str) and NAME.fullmatch(name):
            self.name = name
        self.trees = {"config": checkpoint.config, "processor": checkpoint.processor} if checkpoint else {}
        if "reference" in self.raw:
            raise self._wrong("Object contains unknown field `reference`", "$")
        self.reference = self._reference(reference)
        fields = self._convert(self.raw.get("fields", {}), Fields, "$.fields")
        nodes = list(self._nodes(self.raw))
        paths = [path.partition(".")[2] for node in nodes for path in node.paths if _root(path) in PREPROCESSOR]
        self._check_fields(fields, paths)
        self._check_defaults(nodes)
        defaults = {**fields.published, **_defaults(nodes)}
        if checkpoint:
            defaults.update(fields.unset)
            self._check_fixed(fields)
        self.layers = Layers(self.name, fields, paths, defaults)
        if checkpoint:
            self.layers.add(checkpoint.preprocessor, checkpoint.file)
        for layer in overrides:
            self.layers.add(layer)
        self.trees["constructed"] = copy.deepcopy(self.layers.values)
        self.layers.add(call)
        self.layers.check()
        self.trees["preprocessor"] = self.layers.values
        self.sources: dict[str, _Source] = {}
        self.constants: dict[str, Any] = {}
        self._fill_constants()

    def spec(self) -> Spec:
        tree = {
            key: self._fill(value, f"$.{key}") for key, value in self.raw.items() if key not in ("constants", "fields")
        }
        tree["reference"] = self.reference
        self._name_channels(tree)
        if isinstance(tree.get("tensors"), dict):
            tree["tensors"] = [
                {"name": name, **value} if isinstance(value, dict) else value for name, value in tree["tensors"].items()
            ]
        return self._convert(tree, Spec)

    def reference_fields(self) -> ReferenceFields:
        fields = self._convert(self.raw.get("fields", {}), Fields, "$.fields")
        fixed = {field: value for field, value in fields.fixed.items() if "." not in field}
        found: dict[str, dict[str, Any]] = {"preprocessor": {**fixed, **self.layers.values}, "processor": {}}
        for node in self._nodes(self.raw):
            value = next((self._look_up(path) for path in node.paths if self._look_up(path) is not UNSET), node.default)
            for root, _, field in (path.partition(".") for path in node.paths):
                if root in found and "." not in field and value is not UNSET:
                    found[root].setdefault(field, value)
        image_processor = found["preprocessor"]
        for field, other in fields.same.items():
            side = edge(image_processor[other])
            image_processor.setdefault(field, {"height": side, "width": side})
        return ReferenceFields(image_processor, found["processor"])

    def _tree(self, raw: Any) -> dict[str, Any]:
        if not isinstance(raw, Mapping):
            raise SpecError(f"a spec must be a mapping, not {show(raw)}")
        try:
            tree: dict[str, Any] = plain(raw, SPEC_LEVELS, SPEC_VALUES)
        except ValueError as error:
            raise self._wrong(str(error), "$") from None
        return tree

    def _wrong(self, reason: str, path: str) -> SpecError:
        return SpecError(f"{self.name}: {one_line(reason)} - at `{one_line(path)}`")

    def _reference(self, wanted: str | None) -> Reference:
        image = self.raw.get("image")
        if not isinstance(image, dict) or not image.get("references"):
            raise self._wrong("Object missing required field `references`", "$.image")
        offered = self._convert(image["references"], tuple[Backend, ...], "$.image.references")
        if wanted is None:
            return offered[0]
        chosen = REFERENCE_NAMES.get(wanted) if isinstance(wanted, str) else None
        if chosen is None:
            raise OptionError(f"reference={show(wanted)}: expected torchvision, pillow or pillow<13 ({self.name})")
        if _backend(chosen) not in offered:
            raise OptionError(f"reference={show(wanted)}: {self.name} exists only for {' and '.join(offered)}")
        return chosen

    def _check_fields(self, fields: Fields, paths: Sequence[str]) -> None:
        """Refuse rules for fields that would never be used."""
        roots = {path.partition(".")[0] for path in paths}
        wrong = [
            f"{path} is read both whole and in parts" for path in paths if path in {_root(p) for p in paths if "." in p}
        ]
        wrong += [
            f"{key} folds into {target}, which is not read"
            for key, target in fields.folded.items()
            if "." not in target or target not in paths
        ]
        wrong += [f"{key} is unset but not read" for key in fields.unset if key not in roots | set(fields.same)]
        wrong += [f"{key} is published but not in same" for key in fields.published if key not in fields.same]
        wrong += [f"{key} names no file" for key in fields.fixed if "." in key and _root(key) not in FILES]
        if wrong:
            raise self._wrong(wrong[0], "$.fields")

    def _check_defaults(self, nodes: Sequence[_Node]) -> None:
        """Refuse a field of the image processor with two defaults: one layer holds those of all fields."""
        found: dict[str, Any] = {}
        for node in nodes:
            root, _, field = node.paths[0].partition(".") if len(node.paths) == 1 else ("", "", "")
            if root in PREPROCESSOR and found.setdefault(field, node.default) != node.default:
                raise self._wrong(f"{field} has two defaults", "$")

    def _check_fixed(self, fields: Fields) -> None:
        for path, only in fields.fixed.items():
            if "." in path:
                value = self._look_up(path)
                if value is not UNSET and value != only:
                    file, field = FILES[_root(path)], path.partition(".")[2]
                    refuse(self.name, Origin(file, field), f"{field}={show(value)}: only {show(only)} can be honoured")

    def _nodes(self, tree: Any, path: str = "$") -> Iterator[_Node]:
        """Yield every ``from`` node of a tree, checked."""
        if isinstance(tree, Mapping) and "from" in tree:
            node = self._convert(tree, _Node, path)
            for place in node.paths:
                root, *keys = place.split(".")
                if not keys or (root not in FILES and (root not in PREPROCESSOR or len(keys) > 2)):
                    raise self._wrong(f"{show(place)} is not a path of a configuration", path)
            yield node
        elif isinstance(tree, Mapping):
            for key, value in tree.items():
                if key != "fields" or path != "$":
                    yield from self._nodes(value, f"{path}.{key}")
        elif isinstance(tree, list):
            for index, value in enumerate(tree):
                yield from self._nodes(value, f"{path}[{index}]")

    def _fill_constants(self) -> None:
        constants = self._convert(self.raw.get("constants", {}), dict[str, Any], "$.constants")
        for name, value in constants.items():
            self.constants[name] = self._fill(value, f"$.constants.{name}")

    def _fill(self, tree: Any, path: str) -> Any:
        """Return a tree with its nodes replaced by values, and note where each value came from."""
        if isinstance(tree, str) and tree.startswith("$"):
            name = tree[1:]
            if name not in self.constants:
                raise self._wrong(f"no constant is named {show(name)}", path)
            self.sources[path] = self.sources.get(f"$.constants.{name}", _Source(None, None))
            return self.constants[name]
        if isinstance(tree, Mapping) and "from" in tree:
            return self._fill_node(msgspec.convert(tree, _Node), path)
        if isinstance(tree, Mapping) and "by_reference" in tree:
            choices = self._convert(tree["by_reference"], dict[Backend, Any], path)
            if len(tree) > 1 or _backend(self.reference) not in choices:
                raise self._wrong(f"by_reference lacks {_backend(self.reference)}", path)
            return self._fill(choices[_backend(self.reference)], path)
        if isinstance(tree, Mapping):
            return {key: self._fill(value, f"{path}.{key}") for key, value in tree.items()}
        if isinstance(tree, list):
            return [self._fill(value, f"{path}[{index}]") for index, value in enumerate(tree)]
        return tree

    def _fill_node(self, node: _Node, path: str) -> Any:
        found = next((place for place in node.paths if self._look_up(place) is not UNSET), None)
        value = node.default if found is None else self._look_up(found)
        if value is UNSET:
            raise self._wrong(f"no value and no default for {' or '.join(node.paths)}", path)
        source = self.sources[path] = _Source(self._origin(found), value)
        try:
            value = plain(value)
            if node.kind is not UNSET:
                value = CONVERSIONS[node.kind](value)
            if node.kind == "filter" and value in PILLOW_ALONE and _backend(self.reference) != "pillow":
                raise ValueError(f"{value} exists only for the reference pillow")
            return value
        except ValueError as error:
            self._blame(source, str(error), path)

    def _look_up(self, place: str) -> Any:
        root, *keys = place.split(".")
        value: Any = self.trees.get(root, {})
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return UNSET if value is None else value

    def _origin(self, place: str | None) -> Origin | None:
        if place is None:
            return None
        root, _, field = place.partition(".")
        return self.layers.origin(field) if root in PREPROCESSOR else Origin(FILES[root], field)

    def _name_channels(self, tree: dict[str, Any]) -> None:
        """Replace names of means and standard deviations that the spec itself writes, as ``mean: clip``."""
        image = tree.get("image")
        normalize = image.get("normalize") if isinstance(image, dict) else None
        for field in ("mean", "std"):
            if isinstance(normalize, dict) and isinstance(normalize.get(field), str):
                try:
                    normalize[field] = channels(normalize[field], field)
                except ValueError as error:
                    raise self._wrong(str(error), f"$.image.normalize.{field}") from None

    def _convert(self, tree: Any, kind: type[T], path: str = "$") -> T:
        """Convert a tree to a struct; an error blames whoever said the value that does not fit."""
        try:
            return msgspec.convert(tree, kind)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `")
            place = path + place.removesuffix("`").removeprefix("$")
        if kind is not Spec:
            raise self._wrong(reason, place)
        place = self._named(place)
        self._blame(self._source(place), reason, place)

    def _named(self, place: str) -> str:
        """Return a place with the name of a tensor instead of its number, as the file has it."""
        found = re.match(r"\$\.tensors\[(\d+)\]", place)
        names = list(self.raw["tensors"]) if found and isinstance(self.raw.get("tensors"), dict) else []
        return f"$.tensors.{names[int(found[1])]}{place[found.end() :]}" if found and names else place

    def _source(self, place: str) -> _Source:
        """Return the source of the value at a place, or, for a section, of a value in it, overrides first."""
        above = [path for path in self.sources if place == path or re.match(rf"{re.escape(path)}[.\[]", place)]
        within = [path for path in self.sources if path.startswith(f"{place}.")]
        sources = [self.sources[path] for path in above or within if self.sources[path].origin]
        sources.sort(key=lambda source: bool(source.origin and source.origin.file))
        if not sources:
            return _Source(None, None)
        return sources[0] if above else _Source(sources[0].origin, UNSET)

    def _blame(self, source: _Source, reason: str, place: str) -> NoReturn:
        if source.origin is None:
            raise self._wrong(reason, place)
        reason = reason.replace("`", "")
        reason = reason[:1].lower() + reason[1:]
        if source.value is not UNSET:
            reason = f"{source.origin.field}={show(source.value)}: {reason}"
        refuse(self.name, source.origin, reason)


def _defaults(nodes: Sequence[_Node]) -> dict[str, Any]:
    """Return what the spec says about fields of the image processor that nobody else mentions."""
    defaults: dict[str, Any] = {}
    for node in nodes:
        if len(node.paths) == 1 and _root(node.paths[0]) == "preprocessor" and node.default is not UNSET:
            _, field, *child = node.paths[0].split(".")
            if child:
                defaults.setdefault(field, {})[child[0]] = node.default
            else:
                defaults[field] = node.default
    return defaults


def _root(path: str) -> str:
    return path.partition(".")[0]


def _backend(reference: Reference) -> Backend:
    return "torchvision" if reference == "torchvision" else "pillow"
