"""Fields of settings: converted as msgspec does where it decodes, with texts that say what is allowed."""

from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as types

from foveal.errors import OptionError

__all__ = ["allowed", "check_fields", "field_value"]


def check_fields(settings: msgspec.Struct) -> None:
    """Check every value of settings that are being made, as msgspec does only where it decodes; lists become tuples.

    Raises
    ------
    OptionError
    """
    name = type(settings).__name__
    for field, kind in _kinds(type(settings)).items():
        value = field_value(f"{name}.{field}", getattr(settings, field), kind)
        msgspec.structs.force_setattr(settings, field, value)


@cache
def _kinds(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def field_value(name: str, value: object, kind: Any, *, strict: bool = True) -> Any:
    """Return the value of a field; lists become tuples, and texts what they say where that is not strict.

    Parameters
    ----------
    name : str
        For the message: a field with its struct, or an environment variable.
    value : object
    kind : type
        As the field is annotated.
    strict : bool
        False for texts of the environment.

    Raises
    ------
    OptionError
        If it is of another kind; the text says what is allowed, and nothing of the value.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError:
        raise OptionError(f"{name}: expected {allowed(kind)}") from None


def allowed(kind: Any) -> str:
    """Return what a field may be, in words."""
    return _words(types.type_info(kind))


def _words(kind: types.Type) -> str:
    match kind:
        case types.Metadata():
            return _words(kind.type)
        case types.UnionType():
            return " or ".join(_words(part) for part in kind.types if not isinstance(part, types.NoneType))
        case types.LiteralType():
            return " or ".join(map(repr, kind.values))
        case types.BoolType():
            return "true or false"
        case types.IntType():
            return f"a whole number from {kind.ge:,} to {kind.le:,}"
        case types.FloatType():
            return f"a number above {kind.gt:,} and at most {kind.le:,}"
        case types.StrType():
            return "text" if kind.pattern is None else "an absolute path"
        case types.TupleType():
            return f"{len(kind.item_types)} values, each {_words(kind.item_types[0])}"
        case types.VarTupleType():
            return f"a tuple, each item {_words(kind.item_type)}"
    raise AssertionError(f"no words for {type(kind).__name__}")
