"""The JSON Schema of spec files, for editors: the schema of resolved specs, with what may stand for a value.

An editor with a YAML language server checks and completes a spec that begins with
``# yaml-language-server: $schema=spec.schema.json``.
"""

from typing import Any

import msgspec

from foveal.spec.schema import Fields, Spec
from foveal.spec.values import CONVERSIONS, NAMED_CHANNELS

__all__ = ["json_schema"]

Schema = dict[str, Any]

LITERAL = ("Match", "Fields")
"""Sections that hold nothing but values."""
REFERRED: Schema = {
    "constant": {"type": "string", "pattern": r"^\$[\w.-]+$", "description": "A value under constants."},
    "from": {
        "type": "object",
        "description": "The first of these paths that a configuration file or an override holds, else the default.",
        "properties": {
            "from": {
                "type": "array",
                "items": {"type": "string", "pattern": r"^(preprocessor|constructed|config|processor)(\..+)+$"},
                "minItems": 1,
            },
            "default": {},
            "as": {"enum": sorted(CONVERSIONS)},
        },
        "required": ["from"],
        "additionalProperties": False,
    },
    "by_reference": {
        "type": "object",
        "description": "A value for each reference.",
        "properties": {
            "by_reference": {
                "type": "object",
                "properties": {"torchvision": {}, "pillow": {}},
                "additionalProperties": False,
            }
        },
        "required": ["by_reference"],
        "additionalProperties": False,
    },
}


def json_schema() -> Schema:
    """Return the JSON Schema (2020-12) of a spec file.

    Returns
    -------
    dict
    """
    _, definitions = msgspec.json.schema_components((Spec, Fields), ref_template="#/$defs/{name}")
    definitions = {name: _portable(definition) for name, definition in definitions.items()}
    for name, definition in definitions.items():
        if name not in LITERAL and "properties" in definition:
            _admit_references(definition)
    for key in ("mean", "std"):
        definitions["Normalize"]["properties"][key]["anyOf"].append({"enum": sorted(NAMED_CHANNELS)})
    spec = definitions.pop("Spec")
    given = spec["properties"]
    del given["reference"]
    given |= {key: given[key]["anyOf"][0] for key in ("schema", "name", "source", "match", "image")}
    given["tensors"] = {"type": "object", "additionalProperties": _without_name(definitions["Tensor"])}
    given["constants"] = {"type": "object", "description": "Values that others take as $name."}
    given["fields"] = {"$ref": "#/$defs/Fields"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Foveal spec",
        "description": "How one model family's images are preprocessed.",
        "type": "object",
        "properties": given,
        "required": [key for key in spec["required"] if key != "reference"],
        "additionalProperties": False,
        "$defs": {**definitions, **REFERRED},
    }


def _portable(tree: Any) -> Any:
    """Return a schema whose patterns are those of JSON Schema and whose references have no OpenAPI discriminator."""
    if isinstance(tree, dict):
        return {
            key: value.replace(r"\Z", "$") if key == "pattern" and isinstance(value, str) else _portable(value)
            for key, value in tree.items()
            if key != "discriminator"
        }
    return [_portable(item) for item in tree] if isinstance(tree, list) else tree


def _admit_references(definition: Schema) -> None:
    """Let each property be a constant, a path of a configuration file, or a value for each reference."""
    tags = ("op", "choose", "cut", "as", "count")
    for key, schema in definition["properties"].items():
        if key in tags and "enum" in schema and len(schema["enum"]) == 1:
            continue
        default = {"default": schema.pop("default")} if "default" in schema else {}
        choices = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
        references = [{"$ref": f"#/$defs/{name}"} for name in REFERRED]
        definition["properties"][key] = {"anyOf": [*choices, *references], **default}


def _without_name(tensor: Schema) -> Schema:
    properties = {key: value for key, value in tensor["properties"].items() if key != "name"}
    return {**tensor, "properties": properties, "required": [key for key in tensor["required"] if key != "name"]}
