"""The JSON Schema accepts every built-in spec and refuses what an author would slip on."""

import copy
import json

import jsonschema
import pytest

from foveal.spec import load, names
from foveal.spec.json_schema import json_schema

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    json.dumps(SCHEMA)


@pytest.mark.parametrize("name", names())
def test_built_in_specs_are_valid(name):
    assert [error.message for error in VALIDATOR.iter_errors(load(name))] == []


def slip(name, *path, value=None, drop=False, key=None):
    tree = copy.deepcopy(load(name))
    place = tree
    for step in path[:-1]:
        place = place[step]
    if drop:
        del place[path[-1]]
    elif key:
        place[key] = place.pop(path[-1])
    else:
        place[path[-1]] = value
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        slip("qwen2_vl", "image", drop=True),
        slip("qwen2_vl", "schema", value=2),
        slip("qwen2_vl", "imgae", value={}),
        slip("qwen2_vl", "image", "pack", "as", value="patch"),
        slip("qwen2_vl", "image", "views", 0, "steps", 0, "op", value="clever_resize"),
        slip("qwen2_vl", "image", "views", 0, "steps", 0, "patch", key="pacth"),
        slip("qwen2_vl", "image", "views", 0, "steps", 0, "max_aspect", value="much"),
        slip("qwen2_vl", "tensors", "pixel_values", "dtype", value="float64"),
        slip("qwen2_vl", "image", "normalize", "mean", value="klip"),
        slip("llama4", "image", "views", 0, "canvas", "choose", value="bestfit"),
        slip("llama4", "image", "views", 0, "canvas", "largest", value={"form": ["preprocessor.x"]}),
        slip("llama4", "image", "views", 0, "canvas", "largest", value={"from": ["somewhere"]}),
        slip("llama4", "match", "model_type", value="llama4"),
    ],
)
def test_slips_are_found(tree):
    assert not VALIDATOR.is_valid(tree)
