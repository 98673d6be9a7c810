"""Machine code on disk: found again by another process, never stale, never mixed up."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from foveal_kernels import compile

PROGRAM = """
import json, numpy, foveal
from foveal_kernels.compile import cache_directories, compiled
results = []
for name, reference in (("qwen2_5_vl", "torchvision"), ("llava1_5", "pillow")):
    pre = foveal.Preprocessor.from_spec(name, reference)
    image = numpy.arange(90 * 61 * 3, dtype=numpy.uint32).astype(numpy.uint8).reshape(90, 61, 3)
    pre.warmup()
    results.append(pre(image)["pixel_values"].tobytes().hex()[:64])
print(json.dumps([list(compiled()), results, str(cache_directories()[0])]))
"""


def start(directory, program=PROGRAM):
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(directory)}
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=variables, text=True)


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(output)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def test_a_second_process_compiles_nothing(cache):
    """Two processes fill a cold cache at once; a third finds everything and computes the same."""
    first, second = start(cache), start(cache)
    compiled, results, directory = finish(first)
    assert compiled
    assert finish(second)[1] == results
    assert Path(directory).parent == cache
    assert finish(start(cache)) == [[], results, directory]


WITHOUT_RESIZE = """
import json, numpy, foveal
from foveal_kernels.compile import cache_directories, compiled
pre = foveal.Preprocessor.from_spec("qwen2_5_vl", min_pixels=3136)
image = numpy.arange(56 * 84 * 3, dtype=numpy.uint32).astype(numpy.uint8).reshape(56, 84, 3)
results = [pre(image, "uint8")["pixel_values"].tobytes().hex()[:64]]
print(json.dumps([list(compiled()), results, str(cache_directories()[0])]))
"""


def test_four_processes_on_a_cold_cache(tmp_path):
    """They compile the same kernels at the same time; what is left is whole, and nothing else is."""
    first, *others = [start(tmp_path, program=WITHOUT_RESIZE) for _ in range(4)]
    compiled, results, directory = finish(first)
    assert [finish(other)[1:] for other in others] == [[results, directory]] * 3
    assert finish(start(tmp_path, program=WITHOUT_RESIZE)) == [[], results, directory]
    assert sorted(path.name.rpartition(".")[2] for path in Path(directory).iterdir()) == ["nbc"] * len(compiled)


CALLEE = """
from .compile import helper

@helper
def number():
    return {}
"""
CALLER = """
import numpy as np

from .callee import number
from .compile import kernel

@kernel
def ask(out):
    out[0] = number()
"""
ASK = """
import json, numpy
from foveal_kernels.caller import ask
from foveal_kernels.compile import cache_directories, compiled
out = numpy.zeros(1, numpy.int64)
ask(out)
print(json.dumps([int(out[0]), len(compiled()), cache_directories()[0].name]))
"""


def test_a_caller_of_code_that_has_changed_is_compiled_again(tmp_path):
    """Numba's own cache looks at the caller's file alone; Python's, at a file's size and the second of its time."""
    kernels = tmp_path / "foveal_kernels"
    shutil.copytree(Path(compile.__file__).parent, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (kernels / "caller.py").write_text(CALLER)

    def ask(value):
        (kernels / "callee.py").write_text(CALLEE.format(value))
        variables = {**os.environ, "FOVEAL_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [sys.executable, "-c", ASK]
        return json.loads(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)

    first, again, changed, back = ask(20), ask(20), ask(30), ask(20)
    assert first[:2] == [20, 1]
    assert again == [20, 0, first[2]]
    assert changed[:2] == [30, 1]
    assert changed[2] != first[2]
    assert back == again


def test_nothing_is_written_beside_the_package(tmp_path):
    """It may be installed where nobody can write: kernels are kept all the same."""
    kernels, home = tmp_path / "site" / "foveal_kernels", tmp_path / "home"
    shutil.copytree(Path(compile.__file__).parent, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (kernels / "callee.py").write_text(CALLEE.format(20))
    (kernels / "caller.py").write_text(CALLER)
    before = sorted(kernels.rglob("*"))
    variables = {name: value for name, value in os.environ.items() if name != "FOVEAL_CACHE_DIR"}
    variables |= {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", ASK]
    run = partial(subprocess.run, command, capture_output=True, text=True, check=True)
    answers = [json.loads(run(env=variables | {"PYTHONPATH": str(kernels.parent)}).stdout)[:2] for _ in range(2)]
    assert answers == [[20, 1], [20, 0]]
    assert sorted(kernels.rglob("*")) == before
    assert list(home.rglob("*.nbc"))


def test_files_that_are_gone_or_damaged_are_made_again(cache):
    _, results, directory = finish(start(cache))
    gone, empty, short = (
        sorted(Path(directory).glob("emit*.nbc"))[:2] + sorted(Path(directory).glob("weights*.nbc"))[:1]
    )
    gone.unlink()
    empty.write_bytes(b"")
    damaged = bytearray(short.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    short.write_bytes(damaged)
    compiled, again, _ = finish(start(cache))
    assert len(compiled) == 3
    assert again == results
    assert finish(start(cache))[0] == []


@pytest.fixture
def directories(monkeypatch, tmp_path):
    """`cache_directories` for a wanted root and a temporary directory of this test."""

    def find(wanted):
        monkeypatch.setenv("FOVEAL_CACHE_DIR", str(wanted))
        monkeypatch.setattr(compile.tempfile, "gettempdir", lambda: str(tmp_path))
        return compile.cache_directories.__wrapped__()

    return find


def test_a_directory_that_cannot_be_written_is_read_first(directories, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    wanted, own = directories(blocked)
    assert wanted.parent == blocked
    assert own.parent == tmp_path / f"foveal-{os.getuid()}"
    assert own.parent.stat().st_mode & 0o777 == 0o700


def test_kernels_that_a_read_only_directory_lacks_go_elsewhere(monkeypatch, tmp_path):
    image, own = tmp_path / "image", tmp_path / "own"
    for directory in (image, own):
        directory.mkdir()
    monkeypatch.setattr(compile, "cache_directories", lambda: (image,))
    files = compile._Files("kernel")
    files.save("warm", 1)
    written = compile.write_file
    monkeypatch.setattr(compile, "cache_directories", lambda: (image, own))
    monkeypatch.setattr(compile, "write_file", lambda path, content: path.parent == own and written(path, content))
    files.save("new", 2)
    assert (files.load("warm"), files.load("new"), files.load("other")) == (1, 2, None)
    assert len(list(image.iterdir())) == len(list(own.iterdir())) == 1


def test_what_no_directory_takes_is_not_kept(monkeypatch, tmp_path):
    """A file in the place of a directory refuses all that a read-only file system does."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(compile, "cache_directories", lambda: (tmp_path / "file", tmp_path))
    compile._Files("kernel").save("new", 1)
    assert compile._Files("kernel").load("new") == 1
    monkeypatch.setattr(compile, "cache_directories", lambda: (tmp_path / "file",))
    compile._Files("kernel").save("new", 1)
    assert compile._Files("kernel").load("new") is None


def test_without_a_home_kernels_are_kept_in_the_temporary_directory(tmp_path):
    """As a container's user may have none."""
    variables = {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    program = (
        "import json, os, pwd\n"
        "def nobody(uid):\n    raise KeyError(uid)\n"
        "pwd.getpwuid = nobody\n"
        "from foveal_kernels.compile import cache_directories\n"
        "print(json.dumps(list(map(str, cache_directories()))))"
    )
    result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    nowhere, own = map(Path, json.loads(result.stdout))
    assert nowhere.parent == Path(os.devnull)
    assert own.parent == tmp_path / f"foveal-{os.getuid()}"


def test_without_a_temporary_directory_the_wanted_one_is_read(directories, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    directories(tmp_path)

    def refuse():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(compile.tempfile, "gettempdir", refuse)
    monkeypatch.setenv("FOVEAL_CACHE_DIR", str(tmp_path / "file"))
    (wanted,) = compile.cache_directories.__wrapped__()
    assert wanted.parent == tmp_path / "file"


def test_a_home_that_is_not_known_is_a_name_like_any_other(directories, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert directories("~nobody-of-that-name/kernels")[0].parts[-3:-1] == ("~nobody-of-that-name", "kernels")


def test_another_compiler_has_another_directory(directories, monkeypatch, tmp_path):
    before = directories(tmp_path)
    monkeypatch.setattr(compile, "_COMPILER", ("another version",))
    assert directories(tmp_path) != before


def test_kernels_do_not_run_uncompiled():
    variables = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    program = "import foveal.run.execute"
    result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("RuntimeError: NUMBA_DISABLE_JIT is set, but Foveal's kernels")


def test_a_directory_that_others_can_write_is_never_read(directories, tmp_path):
    """Files of machine code are unpickled: whoever writes them runs code."""
    planted = tmp_path / f"foveal-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    (tmp_path / "file").write_text("")
    assert len(directories(tmp_path / "file")) == 1
    planted.rmdir()
    planted.symlink_to(tmp_path)
    assert len(directories(tmp_path / "file")) == 1


def test_files_are_readable_for_other_users(tmp_path):
    before = os.umask(0o022)
    try:
        assert compile.write_file(tmp_path / "kernel.nbc", b"code")
    finally:
        os.umask(before)
    assert (tmp_path / "kernel.nbc").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.nbc"]
