"""Every size, canvas and windows rule answers as transformers did (rules.json), and does now."""

import importlib
import json
from pathlib import Path

import pytest
from rules import OURS, answer, drawn_sizes, table_sizes

FOLDER = Path(__file__).parent
TABLE = json.loads((FOLDER / "rules.json").read_text())
CROPS = json.loads((FOLDER / "crops.json").read_text())
DRAWN = 500


def test_the_table_holds_every_rule_and_size():
    assert [*TABLE] == ["versions", "sizes", *OURS]
    assert TABLE["sizes"] == [list(size) for size in table_sizes()]
    assert len(TABLE["sizes"]) > 100


@pytest.mark.parametrize("name", OURS)
def test_answers_as_transformers_did(name):
    found = [answer(OURS[name], *size) for size in TABLE["sizes"]]
    wrong = [row for row in zip(TABLE["sizes"], found, TABLE[name], strict=True) if row[1] != row[2]]
    assert wrong == []


@pytest.fixture(scope="module")
def make_tables():
    for package in ("transformers", "torch", "torchvision"):
        module = pytest.importorskip(package, exc_type=ImportError)
        if module.__version__.split("+")[0] != TABLE["versions"][package].split("+")[0]:
            pytest.skip(f"{package} is {module.__version__}, the table is of {TABLE['versions'][package]}")
    return importlib.import_module("make_tables")


@pytest.mark.reference
def test_the_tables_are_what_transformers_answers_now(make_tables):
    assert {name: TABLE[name] for name in OURS} == make_tables.make_rules()
    assert make_tables.make_crops() == CROPS


@pytest.mark.reference
@pytest.mark.parametrize("name", OURS)
def test_answers_as_transformers_does_for_sizes_drawn_at_random(make_tables, name):
    rows = [(size, answer(OURS[name], *size), make_tables.theirs(name, *size)) for size in drawn_sizes(name, DRAWN)]
    assert [row for row in rows if row[1] != row[2]] == []
