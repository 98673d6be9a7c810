"""What the documents say about the program is what the program does."""

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import fields
from typer.testing import CliRunner

import foveal
from foveal.cli import app
from foveal.errors import MediaError
from foveal.media.policy import PRESETS
from foveal.media.urls import PREFIX
from foveal.spec import names, schema, steps, tokens, wire
from foveal.spec.values import CONVERSIONS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [path for folder in (".", "docs") for path in sorted((ROOT / folder).glob("*.md"))]
README = (ROOT / "README.md").read_text()
IMAGES = (ROOT / "docs" / "images.md").read_text()
ADDING = (ROOT / "docs" / "adding_a_model.md").read_text()
COMMAND = re.compile(r"\n\$ foveal (.*)\n((?:.*\n)*?)```\n")


def section(document, title):
    """Return what stands under a heading, up to the next heading of any level."""
    return re.search(rf"\n#+ {re.escape(title)}\n(.*?)(?=\n#+ |\Z)", document, re.DOTALL)[1]


def first_column(document, title, table=0):
    """Return the names in the first column of a table under a heading."""
    rows = re.split(r"\n\|[-| ]+\|\n", section(document, title))[1 + table].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in rows.splitlines() if row.startswith("|")]
    return [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]


def printed(words):
    return CliRunner().invoke(app, words.split()).stdout


def keys(*structs):
    return {field.encode_name for struct in structs for field in fields(struct)}


@pytest.mark.parametrize(("words", "shown"), COMMAND.findall(README))
def test_readme_shows_what_commands_print(words, shown):
    assert printed(words) == shown


def test_readme_lists_every_model_and_every_command():
    assert re.findall(r"^\| `(\w+)` \|", section(README, "Models"), re.MULTILINE) == names()
    listed = re.findall(r"^foveal ([\w-]+)", section(README, "On the command line"), re.MULTILINE)
    registered = [command.callback.__name__ for command in app.registered_commands]
    assert [name.replace("-", "_") for name in listed] == registered


def test_readme_lists_every_environment_variable():
    sources = "".join(path.read_text() for folder in ("src", "kernels") for path in (ROOT / folder).rglob("*.py"))
    listed = set(re.findall(r"^\| `(FOVEAL_\w+)` \|", README, re.MULTILINE))
    named = set(re.findall(r"\bFOVEAL_[A-Z_]+[A-Z]\b", sources))
    assert listed == named | {PREFIX + name.upper() for name in keys(foveal.FetchSettings)}


def test_generated_tables_are_up_to_date():
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_every_speed_in_the_readme_is_a_measured_one():
    written = re.sub(r"<!-- generated: speed -->.*?<!-- end -->", "", README, flags=re.DOTALL)
    figures = r"\b\d[\d.,]*( |-)?(ms|µs|s|seconds|minutes|times|x|%|[GM]B/s)(?![\w])|\b(twice|thrice|times) as fast"
    assert [found[0] for found in re.finditer(figures, written)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    text = path.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), target
        if anchor:
            assert anchor in map(_anchor, re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)), target


def _anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


@pytest.mark.parametrize("name", ["images.md", "requests.md"])
def test_examples_run_as_shown(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    results = doctest.testfile(str(ROOT / "docs" / name), module_relative=False, encoding="utf-8")
    assert results.attempted
    assert not results.failed


# ---- images.md


def test_images_describes_every_setting_once():
    assert first_column(IMAGES, "Policies") == keys_in_order(foveal.DecodePolicy)
    presets = section(IMAGES, "Policies").split("| preset |")[1]
    assert re.findall(r"^\| `([a-z-]+)`", presets, re.MULTILINE) == list(PRESETS)
    assert first_column(IMAGES, "Limits") == keys_in_order(foveal.Limits)
    assert first_column(IMAGES, "URLs") == [PREFIX + name.upper() for name in keys_in_order(foveal.FetchSettings)]


def test_images_shows_the_default_limits():
    units = {"MiB": 1 << 20, "TiB": 1 << 40}
    request, batch = foveal.Limits.default({}), foveal.Limits.for_batches({})
    for name in keys_in_order(foveal.Limits):
        cells = re.search(rf"^\| `{name}` \|.*$", section(IMAGES, "Limits"), re.MULTILINE)[0].split("|")[3:5]
        words = [cell.replace(",", "").split() for cell in cells]
        shown = [int(number) * units.get("".join(unit), 1) for number, *unit in words]
        assert shown == [getattr(request, name), getattr(batch, name)]


def test_images_lists_every_error():
    kinds = [MediaError, *MediaError.__subclasses__()]
    assert sorted(first_column(IMAGES, "Errors")) == sorted(kind.__name__ for kind in kinds)


@pytest.mark.parametrize("key", ["orientation", "transparency", "stage", "rounding", "color_key", "depth", "truncated"])
def test_images_names_every_choice_of_a_policy(key):
    row = re.search(rf"^\| `{key}` .*$", IMAGES, re.MULTILINE)[0]
    assert {word for word in words_of(foveal.DecodePolicy, key) if f"`{word}`" not in row} == set()


def keys_in_order(struct):
    return [field.encode_name for field in fields(struct)]


# ---- adding_a_model.md


LANGUAGE = {
    ("Sections", 0): keys(schema.Spec, schema.Fields) - keys(schema.Fields) - {"reference"} | {"fields", "constants"},
    ("Values", 0): set(CONVERSIONS),
    ("`match`", 0): keys(schema.Match),
    ("`fields`", 0): keys(schema.Fields),
    ("`image`", 0): keys(schema.Image),
    ("Views and stages", 0): keys(schema.View),
    ("Keys of these rules", 0): keys(
        *steps.Op.__subclasses__(), *steps.CanvasRule.__subclasses__(), *steps.WindowsRule.__subclasses__()
    ),
    ("`normalize`", 0): keys(schema.Normalize),
    ("`batch`", 0): keys(schema.Batch),
    ("`tokens`", 0): keys(tokens.Tokens),
    ("The template", 0): keys(tokens.Node),
    ("The template", 1): set(get_args(tokens.Number)),
    ("`tensors`", 0): keys(schema.Tensor) - {"name"},
    ("`tensors`", 1): set(get_args(schema.Value)),
    ("`limits` and `wire`", 1): keys(wire.EngineWire),
    ("`limits` and `wire`", 0): {f"limits.{key}" for key in keys(schema.Limits)}
    | {f"wire.{key}" for key in keys(wire.Wire)},
}


@pytest.mark.parametrize(("title", "table"), LANGUAGE)
def test_every_word_of_the_language_is_described_once(title, table):
    listed = first_column(ADDING, title, table)
    assert sorted(listed) == sorted(LANGUAGE[title, table])


def words_of(struct, key):
    """Return the words among which a key of a struct chooses."""
    kind = next(field.type for field in fields(struct) if field.encode_name == key)
    return {word for part in (kind, *get_args(kind)) for word in get_args(part) if isinstance(word, str)}


@pytest.mark.parametrize(
    ("title", "struct", "key"),
    [
        ("`batch`", schema.Batch, "join"),
        ("`batch`", schema.Batch, "flat_list"),
        ("Views and stages", schema.View, "when"),
        ("`normalize`", schema.Normalize, "compute"),
        ("`tensors`", schema.Tensor, "join"),
        ("`tensors`", schema.Tensor, "dtype"),
        ("Keys of these rules", steps.Resize, "method"),
        ("Keys of these rules", steps.Resize, "filter"),
        ("Keys of these rules", steps.PadToCanvas, "anchor"),
        ("Keys of these rules", steps.CenterCrop, "odd_pad"),
        ("Keys of these rules", steps.ClosestAspectRatio, "order"),
    ],
)
def test_every_choice_is_described(title, struct, key):
    row = re.search(rf"^\| (?:.*[`.])?{key}`.*$", section(ADDING, title), re.MULTILINE)[0]
    words = words_of(struct, key)
    assert words
    assert {word for word in words if f"`{word}`" not in row} == set()


@pytest.fixture
def sparrow(tmp_path, monkeypatch):
    """Return the file of the spec that the document shows, in the current directory."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sparrow.yaml"
    file.write_text(re.search(r"```yaml\n(.*?)```", ADDING, re.DOTALL)[1])
    return file


def test_the_example_is_a_spec(sparrow):
    assert foveal.Preprocessor.from_spec(sparrow.name).plan(480, 640).features == 64
    ((words, shown),) = COMMAND.findall(ADDING)
    assert printed(words) == shown


def test_the_example_is_found_by_its_name_and_by_checkpoints(sparrow, monkeypatch):
    monkeypatch.setenv("FOVEAL_SPECS", str(sparrow.parent))
    assert foveal.Preprocessor.from_spec("sparrow").name == "sparrow"
    checkpoint = sparrow.parent / "Sparrow-1B"
    checkpoint.mkdir()
    (checkpoint / "preprocessor_config.json").write_text('{"image_processor_type": "SparrowImageProcessor"}')
    assert foveal.Preprocessor.from_pretrained(checkpoint).name == "sparrow"


def test_the_mistake_in_the_example_is_named_as_shown(sparrow):
    sparrow.write_text(sparrow.read_text().replace("patch: $patch, channels", "pacth: $patch, channels"))
    with pytest.raises(foveal.SpecError) as error:
        foveal.Preprocessor.from_spec(sparrow.name)
    assert f"    {error.value}\n" in ADDING
