"""``foveal schema``."""

from foveal.cli.common import print_json


def schema() -> None:
    """Print the JSON Schema of spec files, for editors."""
    from foveal.spec.json_schema import json_schema

    print_json(json_schema())
