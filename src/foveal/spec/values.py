"""Values as configuration files and callers write them, in the one form that the schema knows."""

import math
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

__all__ = ["CONVERSIONS", "channels", "plain", "show"]

NAMED_CHANNELS = {
    "clip": {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]},
    "half": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    "imagenet": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}
FILTERS = {1: "lanczos", 2: "bilinear", 3: "bicubic"}
OTHER_FILTERS = {0: "nearest", 4: "box", 5: "hamming"}


def plain(value: Any) -> Any:
    """Return a caller's value as JSON would hold it: NumPy scalars, arrays, enums and tuples lose their type."""
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def show(value: object) -> str:
    """Return a value for a message: numbers and short text as they are, anything else by its kind alone."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "a very large number"
    if value is None or isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else "a long text"
    if isinstance(value, list | tuple) and _are_few_numbers(value):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, Mapping) and _are_few_numbers(value.values()):
        return f"{{{', '.join(f'{key[:40]}: {show(item)}' for key, item in value.items())}}}"
    return f"a {type(value).__name__}"


def side(value: Any) -> object:
    """Return the side of a square given as one number, an equal pair or an equal height and width."""
    if isinstance(value, dict) and sorted(value) == ["height", "width"]:
        value = [value["height"], value["width"]]
    if isinstance(value, list) and len(value) == 2:
        if value[0] != value[1]:
            raise ValueError("height and width must be equal")
        value = value[0]
    if not _is_int(value):
        raise ValueError("expected one number, or an equal height and width")
    return value


def shortest_edge(value: Any) -> Any:
    """Return a size; one number is the length of the shorter edge, a pair is height and width."""
    return {"shortest_edge": value} if _is_int(value) else _pair(value)


def square(value: Any) -> Any:
    """Return a size; one number is both height and width, a pair is height and width."""
    return {"height": value, "width": value} if _is_int(value) else _pair(value)


def resampling(value: Any) -> str:
    """Return the name of a filter given by name or by Pillow's number."""
    if isinstance(value, str) and value in FILTERS.values():
        return value
    if _is_int(value) and value in FILTERS:
        return FILTERS[value]
    name = OTHER_FILTERS.get(value) if _is_int(value) else None
    choice = "bilinear (2), bicubic (3) or lanczos (1)"
    raise ValueError(f"{name} is not supported, only {choice}" if name else f"expected {choice}")


def channels(value: Any, field: str) -> Any:
    """Return three numbers given as such, as one number for all channels, or by name (``field``: mean or std)."""
    if isinstance(value, str):
        if value not in NAMED_CHANNELS:
            raise ValueError(f"expected three numbers or one of {', '.join(NAMED_CHANNELS)}")
        return NAMED_CHANNELS[value][field]
    value = [value] * 3 if _is_number(value) else value
    if not isinstance(value, list) or len(value) != 3 or not all(map(_is_number, value)):
        raise ValueError("expected three numbers")
    if not all(map(math.isfinite, value)):
        raise ValueError("expected finite numbers")
    if field == "std" and not all(value):
        raise ValueError("expected numbers other than zero")
    return value


def inverse(value: Any) -> int:
    """Return the whole number whose inverse is given: 2 for 0.5."""
    if not _is_number(value) or not 0 < value <= 1 or round(1 / value) * value != 1:
        raise ValueError("expected the inverse of a whole number")
    count: int = round(1 / value)
    return count


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "side": side,
    "shortest_edge": shortest_edge,
    "square": square,
    "filter": resampling,
    "mean": lambda value: channels(value, "mean"),
    "std": lambda value: channels(value, "std"),
    "inverse": inverse,
}
"""What ``as`` in a ``from`` node can ask for. Each raises ``ValueError`` with the reason."""


def _are_few_numbers(values: Collection[object]) -> bool:
    return len(values) <= 4 and all(isinstance(value, int | float) for value in values)


def _pair(value: Any) -> Any:
    return {"height": value[0], "width": value[1]} if isinstance(value, list) and len(value) == 2 else value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
