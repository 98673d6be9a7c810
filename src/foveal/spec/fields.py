"""The image processor's fields, in layers: the spec's defaults, a checkpoint's file, overrides.

One mechanism for all layers: every field must be known, and what a later layer says replaces what an earlier one said.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from foveal.errors import OptionError, SpecError
from foveal.spec.find import nearest
from foveal.spec.schema import Fields
from foveal.spec.values import edge, one_line, plain, show

__all__ = ["Layers", "Origin", "refuse"]

NEVER_PIXELS = frozenset(
    {
        "_auto_class",
        "_valid_kwargs_names",
        "_valid_processor_keys",
        "auto_map",
        "device",
        "disable_grouping",
        "feature_extractor_type",
        "image_processor_class",
        "image_processor_type",
        "image_seq_length",
        "processor_class",
        "return_tensors",
        "transformers_version",
        "use_fast",
    }
)
"""Fields of a checkpoint's file that say who wrote it or where it runs, never what a pixel becomes."""

FIXED = {"data_format": "channels_first"}
"""Fields of every family and the one value that can be honoured."""


class Origin(NamedTuple):
    """Who said a value: the file, empty for an override, and the name under which it was said."""

    file: str
    field: str


def refuse(spec: str, origin: Origin, reason: str) -> NoReturn:
    """Raise the error of whoever said a value: an override's author, or a checkpoint's."""
    reason = one_line(reason)
    if origin.file:
        raise SpecError(f"{origin.file}: {reason} ({spec})")
    raise OptionError(f"{reason} ({spec})")


class Layers:
    """The fields in force, and who said each.

    Parameters
    ----------
    spec : str
        Name of the spec, for messages.
    fields : Fields
    paths : iterable of str
        Fields that the spec reads, as ``size`` or ``size.shortest_edge``.
    defaults : dict
        Lowest layer.
    """

    def __init__(self, spec: str, fields: Fields, paths: Iterable[str], defaults: Mapping[str, Any]) -> None:
        self.values = dict(defaults)
        self._spec = spec
        self._folded = fields.folded
        self._same = fields.same
        self._nullable = fields.nullable
        self._fixed = {**FIXED, **{key: value for key, value in fields.fixed.items() if "." not in key}}
        self._ignored = NEVER_PIXELS | frozenset(fields.ignored)
        self._origins: dict[str, Origin] = {}
        self._children: dict[str, set[str]] = {}
        for path in paths:
            field, _, child = path.partition(".")
            self._children.setdefault(field, set()).update([child] if child else [])

    def origin(self, path: str) -> Origin | None:
        """Return who said the value at a path; nothing for a default."""
        whole = self._origins.get(path.partition(".")[0])
        return self._origins.get(path) or (Origin(whole.file, path) if whole else None)

    def add(self, new: Mapping[str, Any], file: str = "") -> None:
        """Lay a checkpoint's file, or overrides (no ``file``), over what is there.

        A folded field (``min_pixels``) changes one child of its target as it stands in this layer; a target given in a
        later layer replaces it. ``None`` switches a flag off, and is not given where a field is folded or has
        children. Source: transformers 5.24.0, image_processing_base.py, image_processing_utils.py and
        models/qwen2_vl/image_processing_qwen2_vl.py.
        """
        layer = {
            field: self._taken(Origin(file, field), value)
            for field, value in new.items()
            if not (file and (field in self._ignored or (value is None and self._is_default(field))))
        }
        for field, value in layer.items():
            self._lay(Origin(file, field), value)
        for field in self._folded:
            if layer.get(field) is not None:
                self._fold(field, layer[field], Origin(file, field))

    def check(self) -> None:
        """Refuse a field that has children but does not hold just those that the spec reads."""
        for field, children in self._children.items():
            value, origin = self.values.get(field), self._origins.get(field)
            if not children or origin is None:
                continue
            wanted = " and ".join(sorted(children))
            if not isinstance(value, dict):
                refuse(self._spec, origin, f"{field}={show(value)}: expected {wanted}")
            for child in value:
                if child not in children:
                    refuse(self._spec, origin, f"{field} holds {show(child)}: expected {wanted}")
            for child in sorted(children):
                if value.get(child) is None:
                    refuse(self._spec, origin, f"{field} lacks {show(child)}: expected {wanted}")

        self._check_same()

    def _check_same(self) -> None:
        """Refuse a field whose edge is not that of another field."""
        for field, other in self._same.items():
            value = self.values.get(field)
            origins = [self._origins[name] for name in (field, other) if name in self._origins]
            if value is None or not origins:
                continue
            origin = min(origins, key=lambda one: bool(one.file))  # the author of an override, if there is one
            try:
                differs = edge(value) != edge(self.values.get(other))
            except ValueError as error:
                refuse(self._spec, origin, f"{field}={show(value)}: {error}")
            if differs:
                other_text = f"{other}={show(self.values.get(other))}"
                refuse(self._spec, origin, f"{field}={show(value)}: must be the same edge as {other_text}")

    def _is_default(self, field: str) -> bool:
        """Whether a checkpoint's ``null`` says nothing."""
        return field in self._nullable or not self._knows(field)

    def _knows(self, field: str) -> bool:
        return any(field in known for known in (self._children, self._folded, self._fixed, self._same))

    def _taken(self, origin: Origin, value: Any) -> Any:
        """Return the plain value of a field that is known."""
        field = origin.field
        if not self._knows(field):
            known = nearest(field, {*self._children, *self._folded, *self._fixed})
            if origin.file:
                raise SpecError(f"{origin.file} holds {show(field)}, which {self._spec} does not know ({known})")
            raise OptionError(f"{show(field)} is not an option of {self._spec} ({known})")
        try:
            return plain(value)
        except ValueError as error:
            refuse(self._spec, origin, f"{field}={show(value)}: {error}")

    def _lay(self, origin: Origin, value: Any) -> None:
        field = origin.field
        if field in self._fixed:
            only = self._fixed[field]
            if (value is None and only) or (value is not None and (type(value) is not type(only) or value != only)):
                refuse(self._spec, origin, f"{field}={show(value)}: only {show(only)} can be honoured")
        elif (field in self._children or field in self._same) and (value is not None or not self._children.get(field)):
            if value is None and not isinstance(self.values.get(field), bool):
                refuse(self._spec, origin, f"{field}=None: expected a value")
            self._set(field, False if value is None else value, origin)

    def _set(self, field: str, value: Any, origin: Origin) -> None:
        self.values[field] = value
        self._origins = {path: who for path, who in self._origins.items() if not path.startswith(f"{field}.")}
        self._origins[field] = origin

    def _fold(self, field: str, value: Any, origin: Origin) -> None:
        target, _, child = self._folded[field].partition(".")
        whole = self.values.get(target, {})
        if not isinstance(whole, dict):
            refuse(self._spec, origin, f"{field}={show(value)}: {target} is {show(whole)}, which has no {child}")
        self.values[target] = {**{key: item for key, item in whole.items() if key != field}, child: value}
        self._origins[f"{target}.{child}"] = origin
