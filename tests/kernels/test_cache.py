"""Machine code on disk: found again by another process, never stale, never mixed up."""

import json
import os
import subprocess
import sys
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


def start(directory, **environment):
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(directory), **environment}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=variables, text=True)


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
    written = compile._replace
    monkeypatch.setattr(compile, "cache_directories", lambda: (image, own))
    monkeypatch.setattr(compile, "_replace", lambda path, content: path.parent == own and written(path, content))
    files.save("new", 2)
    assert (files.load("warm"), files.load("new"), files.load("other")) == (1, 2, None)
    assert len(list(image.iterdir())) == len(list(own.iterdir())) == 1


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
        assert compile._replace(tmp_path / "kernel.nbc", b"code")
    finally:
        os.umask(before)
    assert (tmp_path / "kernel.nbc").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.nbc"]
