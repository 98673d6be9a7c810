"""Values as configuration files and callers write them, in the one form that the schema knows."""

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np

from foveal.errors import OptionError

__all__ = ["CONVERSIONS", "channels", "one_line", "plain", "plain_layer", "show"]

NAMED_CHANNELS = {
    "clip": {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]},
    "half": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    "imagenet": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}

MAX_LEVELS, MAX_VALUES, MAX_KEY, MAX_BITS = 8, 1024, 80, 64
"""What a field can hold at most; those that exist have two levels and four values."""

NUMPY_KINDS = "biufU"
SURROGATE = re.compile("[\ud800-\udfff]")


def plain_layer(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides as plain values that share nothing with what the caller holds.

    Parameters
    ----------
    overrides : mapping of str
        Fields of an image processor; see `plain` for the values.

    Raises
    ------
    OptionError
        If a value is not plain; the text names its field.
    """
    if not isinstance(overrides, Mapping):
        raise OptionError(f"overrides must be fields by name, not {show(overrides)}")
    layer = {}
    for field, value in overrides.items():
        try:
            layer[_key(field)] = plain(value)
        except ValueError as error:
            raise OptionError(f"{_show_key(field)}={show(value)}: {error}") from None
    return layer


def plain(value: Any, levels: int = MAX_LEVELS, values: int = MAX_VALUES) -> Any:
    """Return a deep copy of a caller's value as JSON would hold it.

    Enums, tuples, and NumPy's scalars and arrays of numbers or text lose their type.

    Parameters
    ----------
    value : object
    levels, values : int
        Depth and number of values at most.

    Raises
    ------
    ValueError
        With the reason, if it is anything else.
    """
    return _plain(value, levels, itertools.count(1), values)


def _plain(value: Any, levels: int, counted: Iterator[int], values: int) -> Any:
    if not levels or next(counted) > values:
        raise ValueError("expected fewer values")
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.ndarray | np.generic):
        value = _from_numpy(value, values)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if int.bit_length(value) > MAX_BITS:
            raise ValueError(f"expected a number of at most {MAX_BITS} bits")
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        if SURROGATE.search(value):
            raise ValueError("expected valid Unicode")
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, levels - 1, counted, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, levels - 1, counted, values) for item in value]
    raise ValueError("expected plain values")


def _from_numpy(value: Any, values: int) -> Any:
    if isinstance(value, np.ma.MaskedArray) or value.dtype.kind not in NUMPY_KINDS or value.size > values:
        raise ValueError("expected plain values")
    return value.tolist()


def _key(key: object) -> str:
    if not isinstance(key, str) or len(key) > MAX_KEY or not key.isprintable():
        raise ValueError("expected names as keys")
    return str.__str__(key)


def show(value: object) -> str:
    """Return a value for a message: numbers and short text as they are, anything else by its kind alone."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return "a very large number"
    if value is None or isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else "a long text"
    if isinstance(value, list | tuple) and _are_few_numbers(value):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, dict) and _are_few_numbers(value.values()):
        return f"{{{', '.join(f'{_show_key(key)}: {show(item)}' for key, item in value.items())}}}"
    return f"a {type(value).__name__[:40]}"


def _show_key(key: object) -> str:
    return key if isinstance(key, str) and key.isidentifier() and len(key) <= 40 else show(key)


def one_line(text: str, length: int = 300) -> str:
    """Return text of any origin for a message: without what cannot be printed, and without the middle if long."""
    if len(text) > length:
        text = f"{text[: length // 2]}...{text[-(length // 2) :]}"
    return "".join(character if character.isprintable() else "?" for character in text)


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


def edge(value: Any) -> object:
    """Return the side of a square given as the length of its shortest edge, or as `side` takes it."""
    return value["shortest_edge"] if isinstance(value, dict) and sorted(value) == ["shortest_edge"] else side(value)


def most(value: Any) -> object:
    """Return the limit of both sides, given as equal ``max_height`` and ``max_width``."""
    if not isinstance(value, dict) or sorted(value) != ["max_height", "max_width"]:
        raise ValueError("expected max_height and max_width")
    return side([value["max_height"], value["max_width"]])


def bound(value: Any) -> Any:
    """Return the height and width within which an image must lie, given as such or by the longest edge."""
    if isinstance(value, dict) and sorted(value) == ["longest_edge"]:
        value = value["longest_edge"]
    return square(value)


def resampling(value: Any) -> str:
    """Return the name of a filter given by name or by Pillow's number."""
    if isinstance(value, str) and value in FILTERS.values():
        return value
    if _is_int(value) and value in FILTERS:
        return FILTERS[value]
    raise ValueError(f"expected {', '.join(f'{name} ({number})' for number, name in FILTERS.items())}")


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
    if not _is_number(value) or not 1e-9 < value <= 1 or round(1 / value) * value != 1:
        raise ValueError("expected the inverse of a whole number")
    count: int = round(1 / value)
    return count


def background(value: Any) -> list[int]:
    """Return the colour of a mean, each channel cut to a whole number; of a mean beyond 0..1 it is no colour.

    Source: transformers 5.24.0, models/llava/image_processing_llava.py.
    """
    return [int(max(-1.0, min(level, 256.0)) * 255) for level in channels(value, "mean")]


def item(value: Any, index: int) -> Any:
    """Return one of a pair."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("expected two numbers")
    return value[index]


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "side": side,
    "edge": edge,
    "most": most,
    "bound": bound,
    "background": background,
    "first": lambda value: item(value, 0),
    "second": lambda value: item(value, 1),
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
