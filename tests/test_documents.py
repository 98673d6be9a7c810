"""What the documents say about the program is what the program does."""

import re
from pathlib import Path

from typer.testing import CliRunner

from foveal.cli import app
from foveal.spec import names, schema

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def section(document, title):
    return document.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_readme_shows_what_plan_prints():
    (words, shown) = re.search(r"\n\$ foveal (.*)\n((?:.*\n)*?)```\n", README).groups()
    assert CliRunner().invoke(app, words.split()).stdout == shown


def test_readme_lists_every_model_and_every_command():
    assert re.findall(r"^\| `(\w+)` \|", section(README, "Models"), re.MULTILINE) == sorted(names(), key=_in_table)
    listed = re.findall(r"^foveal (\w+)", section(README, "On the command line"), re.MULTILINE)
    assert listed == [command.callback.__name__ for command in app.registered_commands]


def _in_table(name):
    return section(README, "Models").index(f"| `{name}` |")


def test_readme_lists_every_environment_variable():
    sources = "".join(path.read_text() for folder in ("src", "kernels") for path in (ROOT / folder).rglob("*.py"))
    listed = set(re.findall(r"^\| `(FOVEAL_\w+)` \|", README, re.MULTILINE))
    assert listed == set(re.findall(r"\bFOVEAL_[A-Z_]+\b", sources))


def test_contributing_lists_every_section_and_op_of_a_spec():
    listed = re.findall(r"^\| (`.*?) \|", section(CONTRIBUTING, "A spec's YAML"), re.MULTILINE)
    keys = re.findall(r"`(\w+)`", ", ".join(listed))
    ops = [step.__struct_config__.tag for step in schema.Step.__subclasses__()]
    expected = [*schema.Spec.__struct_fields__, "fields", "constants", *ops]
    assert sorted(keys) == sorted(set(expected) - {"reference"})
