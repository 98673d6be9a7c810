"""Paths and files that are no paths and no files: one typed line for each, and nobody waits."""

import os
import stat
from pathlib import Path

import pytest

from foveal.errors import FovealError, SpecError, UnknownModelError
from foveal.spec import Checkpoint, load, match, names, read_checkpoint
from foveal.spec.files import MAX_BYTES


class Strange:
    def __init__(self, answer):
        self.answer = answer

    def __fspath__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


NO_PATHS = [
    (5, "5"),
    (None, "None"),
    ([], "[]"),
    (b"/tmp", "a bytes"),
    (Strange(5), "a Strange"),
    (Strange(b"/tmp"), "a Strange"),
    (Strange(RuntimeError("boom\nboom")), "a Strange"),
]


def message(action, kind, *args):
    with pytest.raises(kind) as caught:
        action(*args)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 300 + len(", ".join(names()))  # an unknown name lists those that are known
    return text


@pytest.mark.parametrize(("value", "shown"), NO_PATHS)
def test_what_is_no_path(value, shown):
    assert message(read_checkpoint, SpecError, value) == f"expected the directory of a checkpoint, not {shown}"
    expected = f"expected the name of a spec or the path of a .yaml file, not {shown}"
    assert message(load, SpecError, value) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x\ny", "x?y: no such directory"),
        ("", "the empty path: no such directory"),
        ("a\0b", "a?b: not a file name"),
        ("\ud800", "?: not a file name"),
        ("x" * 5000, f"{'x' * 60}...{'x' * 60}: File name too long"),
        ("/dev/null", "/dev/null: not a directory"),
        ("/dev/null/x", "/dev/null/x: Not a directory"),
    ],
)
def test_a_checkpoint_that_is_no_directory(name, text):
    assert message(read_checkpoint, SpecError, name) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a\0.yaml", "a?.yaml: not a file name"),
        ("\ud800.yaml", "?.yaml: not a file name"),
        ("x" * 5000 + ".yaml", f"{'x' * 60}...{'x' * 55}.yaml: File name too long"),
        ("none\n.yaml", "none?.yaml: No such file or directory"),
    ],
)
def test_a_spec_that_is_no_file(name, text):
    assert message(load, SpecError, name) == text


@pytest.mark.parametrize("name", ["x\ny", "x" * 5000, "\ud800", "a\0b", ""])
def test_a_spec_that_nobody_knows(name):
    assert message(load, UnknownModelError, name).startswith("no spec is named ")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory in which relative names are looked up."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pipe(path):
    os.mkfifo(path)


def listener(path):
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("make", [pipe, listener, Path.mkdir])
def test_only_regular_files_are_read(place, make):
    make(Path("own.yaml"))
    assert message(load, SpecError, "own.yaml") == "own.yaml: not a regular file"
    make(Path("config.json"))
    assert message(read_checkpoint, SpecError, ".") == "config.json: not a regular file"


def test_large_files_are_not_read(place):
    for name in ("own.yaml", "config.json"):
        Path(name).write_bytes(b" " * (MAX_BYTES + 1))
    assert message(load, SpecError, "own.yaml") == "own.yaml: larger than 1 MiB"
    assert message(read_checkpoint, SpecError, ".") == "config.json: larger than 1 MiB"


BOMB = "a: &a [1, 1, 1]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOMB, "line 2: aliases are not read"),
        ("a: 1\nb: !!int 3", "line 2: tags are not read"),
        ("a: !own 3", "line 1: tags are not read"),
        ("a: " + "9" * 5000, "holds a number or a date that cannot be read"),
        ("a: 2020-13-45", "holds a number or a date that cannot be read"),
        ("a: 9" + ":59" * 300 + ".5", "holds a number or a date that cannot be read"),
        ("a" * 500 + ": 1\n" + "a" * 500 + ": 2", "line 2: a long text is given twice"),
    ],
)
def test_yaml_that_no_spec_needs(place, text, expected):
    Path("own.yaml").write_text(text)
    assert message(load, SpecError, "own.yaml") == f"own.yaml: {expected}"


@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_yaml(place, depth):
    Path("own.yaml").write_text("a: " + "[" * depth + "]" * depth)
    assert message(lambda: load("own.yaml"), FovealError).startswith("own.yaml: ")


@pytest.mark.parametrize(
    ("content", "text"),
    [(b'{"size": ' + b"9" * 5000 + b"}", "a number has too many digits"), (b"[" * 100_000, "not JSON")],
)
def test_json_that_cannot_be_read(place, content, text):
    Path("preprocessor_config.json").write_bytes(content)
    assert message(read_checkpoint, SpecError, ".") == f"preprocessor_config.json: {text}"


@pytest.mark.parametrize(("kind", "shown"), [("a\nb", r"'a\nb'"), ("a" * 100_000, "a long text")])
def test_an_image_processor_with_a_strange_name(kind, shown):
    found = Checkpoint("x\ny", {"model_type": kind}, {"image_processor_type": kind})
    expected = f"no spec fits checkpoint 'x?y' with image_processor_type {shown}, model_type {shown}; "
    assert message(match, UnknownModelError, found).startswith(expected)
