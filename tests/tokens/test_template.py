"""The template language, node by node."""

import msgspec
import pytest

from foveal.plan.counts import Counts
from foveal.spec.tokens import Node
from foveal.tokens import Piece
from foveal.tokens.template import pieces

COUNTS = Counts(features=30, tiles=5, rows=2, columns=3, base_rows=4, base_columns=1)
ONE = Counts(features=6, tiles=1, rows=1, columns=1)


def expanded(template, counts):
    return pieces(msgspec.convert(template, tuple[str | Node, ...]), counts)


def written(template, counts=COUNTS):
    """Return what a template writes, tokens and how often they stand in a row."""
    found = expanded(template, counts)
    return [(piece.text, piece.times) if piece.special else piece.text for piece in found]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ([], []),
        (["<a>", "<b>"], [("<a>", 1), ("<b>", 1)]),
        (["<a>", "<a>", {"repeat": "<a>", "times": "rows"}], [("<a>", 4)]),
        ([{"text": "one"}, {"text": "\n"}, {"text": "\n"}, "<a>", {"text": ""}], ["one\n\n", ("<a>", 1)]),
        ([{"text": "<a>"}, "<a>", {"text": "<a>"}], ["<a>", ("<a>", 1), "<a>"]),
        ([{"text": "{{}}"}], ["{}"]),
        ([{"repeat": "<a>", "times": "features_per_tile"}], [("<a>", 6)]),
        ([{"repeat": ["<a>", {"repeat": "<b>", "times": "rows"}], "times": "columns"}], [("<a>", 1), ("<b>", 2)] * 3),
        ([{"repeat": ["<a>"], "times": "base_rows"}], [("<a>", 4)]),
        (
            [{"each": "crop", "do": [{"text": "{crop}"}], "between": ["<b>"]}],
            ["1", ("<b>", 1), "2", ("<b>", 1), "3", ("<b>", 1), "4"],
        ),
        (
            [{"each": "row", "do": [{"each": "column", "do": [{"text": "{row}.{column} "}]}], "between": ["<b>"]}],
            ["1.1 1.2 1.3 ", ("<b>", 1), "2.1 2.2 2.3 "],
        ),
        ([{"when": "multi_tile", "then": ["<a>"], "else": ["<b>"]}], [("<a>", 1)]),
        ([{"when": True, "then": ["<a>"], "else": ["<b>"]}], [("<a>", 1)]),
        ([{"when": False, "then": ["<a>"]}], []),
    ],
)
def test_nodes(template, expected):
    assert written(template) == expected


def test_what_an_image_of_one_tile_does_not_have():
    template = [
        {"each": "crop", "do": ["<a>"]},
        {"when": "multi_tile", "then": ["<b>"], "else": ["<c>"]},
        {"repeat": "<d>", "times": "base_columns"},
    ]
    assert written(template, ONE) == [("<c>", 1)]


def test_pieces_say_what_is_special():
    assert expanded(["<a>", {"text": "<a>"}], ONE) == (Piece("<a>", 1, True), Piece("<a>", 1, False))
