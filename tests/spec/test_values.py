"""What callers hand over as overrides, made plain or refused."""

import collections
import decimal
import re
import types
from enum import IntEnum, StrEnum

import ml_dtypes
import numpy as np
import pytest

from foveal.errors import OptionError
from foveal.spec import plain_layer
from foveal.spec.values import CONVERSIONS, one_line, show


class Filter(IntEnum):
    BICUBIC = 3


class Format(StrEnum):
    FIRST = "channels_first"


class Text(str):
    __slots__ = ()


class Number(int):
    def __int__(self):
        raise AssertionError("a caller's code ran")


def nested(depth, kind):
    tree = 1
    for _ in range(depth):
        tree = kind(tree)
    return tree


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (np.True_, True),
        (3, 3),
        (Number(3), 3),
        (np.uint8(3), 3),
        (2**64 - 1, 2**64 - 1),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.array(0.5), 0.5),
        ("é", "é"),
        (Text("x"), "x"),
        (np.str_("x"), "x"),
        (Filter.BICUBIC, 3),
        (Format.FIRST, "channels_first"),
        ((1, 2), [1, 2]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ([np.float16(1), (2,)], [1.0, [2]]),
        (types.MappingProxyType({"a": (1,)}), {"a": [1]}),
        (collections.OrderedDict(a=np.int64(1)), {"a": 1}),
        (nested(7, lambda tree: [tree]), nested(7, lambda tree: [tree])),
    ],
)
def test_plain_values(value, expected):
    found = plain_layer({"field": value})["field"]
    assert found == expected
    assert type(found) is type(expected)


def test_a_layer_is_independent_of_what_the_caller_holds():
    mean, size = [0.5, 0.5, 0.5], {"shortest_edge": 1, "deep": [[2]]}
    layer = plain_layer({"image_mean": mean, "size": size})
    mean[0] = 9
    size["shortest_edge"] = 9
    size["deep"][0][0] = 9
    assert layer == {"image_mean": [0.5, 0.5, 0.5], "size": {"shortest_edge": 1, "deep": [[2]]}}


ENDLESS = []
ENDLESS.append(ENDLESS)
WIDE = [1] * 60
for _ in range(5):
    WIDE = [WIDE] * 60


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (range(3), "a range: expected plain values"),
        (iter([1]), "a list_iterator: expected plain values"),
        ({1, 2}, "a set: expected plain values"),
        (b"x", "a bytes: expected plain values"),
        (1j, "a complex: expected plain values"),
        (decimal.Decimal(1), "a Decimal: expected plain values"),
        (np.float32, "a type: expected plain values"),
        (Filter, "a EnumType: expected plain values"),
        (np.datetime64("now"), "a datetime64: expected plain values"),
        (np.longdouble(1), "a longdouble: expected plain values"),
        (np.array(["a", 1], object), "a ndarray: expected plain values"),
        (np.zeros(3, ml_dtypes.bfloat16), "a ndarray: expected plain values"),
        (np.zeros(10**6), "a ndarray: expected plain values"),
        (np.ma.masked, "a MaskedConstant: expected plain values"),
        (np.ma.masked_array([1, 2], [0, 1]), "a MaskedArray: expected plain values"),
        ([1, range(3), 2], "a list: expected plain values"),
        ("\ud800", r"'\ud800': expected valid Unicode"),
        (["\ud800"], "a list: expected valid Unicode"),
        ({"\ud800": 1}, r"{'\ud800': 1}: expected names as keys"),
        ({"a\nb": 1}, r"{'a\nb': 1}: expected names as keys"),
        ({"a" * 100: 1}, "{a long text: 1}: expected names as keys"),
        ({1: 2}, "{1: 2}: expected names as keys"),
        (2**64, "a very large number: expected a number of at most 64 bits"),
        (-(10**400), "a very large number: expected a number of at most 64 bits"),
        ([10**400] * 3, "[a very large number, a very large number, a very large number]: "
         "expected a number of at most 64 bits"),
        (nested(8, lambda tree: [tree]), "a list: expected fewer values"),
        (nested(5000, lambda tree: {"a": tree}), "a dict: expected fewer values"),
        (ENDLESS, "a list: expected fewer values"),
        (WIDE, "a list: expected fewer values"),
        ([0.5] * 100_000, "a list: expected fewer values"),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_named(value, text):
    with pytest.raises(OptionError) as caught:
        plain_layer({"image_mean": value})
    name = "EnumMeta" if "EnumType" in text and type(Filter).__name__ == "EnumMeta" else "EnumType"
    assert str(caught.value) == f"image_mean={text}".replace("EnumType", name)


@pytest.mark.parametrize(("field", "shown"), [("a\nb", r"'a\nb'"), ("x" * 100, "a long text"), (5, "5")])
def test_fields_that_are_no_names(field, shown):
    with pytest.raises(OptionError) as caught:
        plain_layer({field: 1})
    assert str(caught.value) == f"{shown}=1: expected names as keys"


@pytest.mark.parametrize("overrides", [None, 5, [("a", 1)]])
def test_overrides_that_are_no_mapping(overrides):
    with pytest.raises(OptionError, match=r"^overrides must be fields by name, not "):
        plain_layer(overrides)


def test_what_a_message_shows_is_short():
    kind = type("A" * 1000, (), {})
    assert show(kind()) == "a " + "A" * 40
    assert one_line("a\nb\x1b\ud800") == "a?b??"
    assert one_line("a" * 99, 10) == "aaaaa...aaaaa"


# ---- what ``as`` reads

ONE_NUMBER = "expected one number, or an equal height and width"
TWO_NUMBERS = "expected two numbers"
THREE_NUMBERS = "expected three numbers"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("side", 14, 14),
        ("side", [14, 14], 14),
        ("side", {"height": 14, "width": 14}, 14),
        ("edge", 14, 14),
        ("edge", {"shortest_edge": 14}, 14),
        ("edge", {"height": 14, "width": 14}, 14),
        ("most", {"max_height": 512, "max_width": 512}, 512),
        ("bound", 5, {"height": 5, "width": 5}),
        ("bound", {"longest_edge": 5}, {"height": 5, "width": 5}),
        ("bound", {"height": 5, "width": 6}, {"height": 5, "width": 6}),
        ("bound", [5, 6], {"height": 5, "width": 6}),
        ("shortest_edge", 5, {"shortest_edge": 5}),
        ("shortest_edge", [5, 6], {"height": 5, "width": 6}),
        ("shortest_edge", {"shortest_edge": 5}, {"shortest_edge": 5}),
        ("square", 5, {"height": 5, "width": 5}),
        ("square", [5, 6], {"height": 5, "width": 6}),
        ("square", {"height": 5, "width": 6}, {"height": 5, "width": 6}),
        ("first", [3, 4], 3),
        ("second", [3, 4], 4),
        ("filter", 0, "nearest"),
        ("filter", 1, "lanczos"),
        ("filter", 2, "bilinear"),
        ("filter", 3, "bicubic"),
        ("filter", 4, "box"),
        ("filter", 5, "hamming"),
        ("filter", "lanczos", "lanczos"),
        ("mean", "clip", [0.48145466, 0.4578275, 0.40821073]),
        ("mean", "half", [0.5, 0.5, 0.5]),
        ("mean", "imagenet", [0.485, 0.456, 0.406]),
        ("mean", 0, [0, 0, 0]),
        ("mean", [1, 2, 3.5], [1, 2, 3.5]),
        ("std", "clip", [0.26862954, 0.26130258, 0.27577711]),
        ("std", 2, [2, 2, 2]),
        ("background", "half", [127, 127, 127]),
        ("background", "clip", [122, 116, 104]),
        ("background", [0, 0.999, 1], [0, 254, 255]),
        ("background", 1.5, [382, 382, 382]),
        ("background", -0.5, [-127, -127, -127]),
        ("background", [-0.001, 1.001, 1e300], [0, 255, 65280]),
        ("inverse", 0.5, 2),
        ("inverse", 0.25, 4),
        ("inverse", 1, 1),
        ("inverse", 1 / 3, 3),
    ],
)
def test_conversions(kind, value, expected):
    assert CONVERSIONS[kind](value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("side", [14, 15], "height and width must be equal"),
        ("side", {"height": 14, "width": 15}, "height and width must be equal"),
        ("side", {"shortest_edge": 14}, ONE_NUMBER),
        ("side", [14], ONE_NUMBER),
        ("side", True, ONE_NUMBER),
        ("side", 14.0, ONE_NUMBER),
        ("side", "14", ONE_NUMBER),
        ("side", None, ONE_NUMBER),
        ("edge", {"longest_edge": 14}, ONE_NUMBER),
        ("edge", {"shortest_edge": 14, "longest_edge": 14}, ONE_NUMBER),
        ("most", {"max_height": 512}, "expected max_height and max_width"),
        ("most", {"max_height": 512, "max_width": 511}, "height and width must be equal"),
        ("most", 512, "expected max_height and max_width"),
        ("first", [3], TWO_NUMBERS),
        ("second", [3, 4, 5], TWO_NUMBERS),
        ("second", 3, TWO_NUMBERS),
        ("filter", 6, "expected nearest (0), lanczos (1), bilinear (2), bicubic (3), box (4), hamming (5)"),
        ("filter", True, "expected nearest (0), lanczos (1), bilinear (2), bicubic (3), box (4), hamming (5)"),
        ("filter", "BICUBIC", "expected nearest (0), lanczos (1), bilinear (2), bicubic (3), box (4), hamming (5)"),
        ("mean", "vit", "expected three numbers or one of clip, half, imagenet"),
        ("mean", [1, 2], THREE_NUMBERS),
        ("mean", [1, 2, "3"], THREE_NUMBERS),
        ("mean", [1, 2, True], THREE_NUMBERS),
        ("mean", {"r": 1}, THREE_NUMBERS),
        ("mean", [1, 2, float("nan")], "expected finite numbers"),
        ("std", [1, 0, 1], "expected numbers other than zero"),
        ("background", float("inf"), "expected finite numbers"),
        ("background", "vit", "expected three numbers or one of clip, half, imagenet"),
        ("inverse", 0.3, "expected the inverse of a whole number"),
        ("inverse", 0, "expected the inverse of a whole number"),
        ("inverse", 2, "expected the inverse of a whole number"),
        ("inverse", -0.5, "expected the inverse of a whole number"),
        ("inverse", 5e-324, "expected the inverse of a whole number"),
        ("inverse", True, "expected the inverse of a whole number"),
        ("inverse", "0.5", "expected the inverse of a whole number"),
    ],
)
def test_what_cannot_be_converted(kind, value, reason):
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        CONVERSIONS[kind](value)


@pytest.mark.parametrize("value", [{}, [], {"height": 1}, {"a": [1]}, "x", None, 0.5])
def test_what_is_no_size_is_refused_or_left_to_the_schema(value):
    for kind in ("side", "edge"):
        with pytest.raises(ValueError, match=f"^{ONE_NUMBER}$"):
            CONVERSIONS[kind](value)
    for kind in ("shortest_edge", "square", "bound"):
        assert CONVERSIONS[kind](value) == value
