"""Machine code on disk: found again by another process, never stale, never mixed up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, numpy, foveal
from foveal_kernels.compile import cache_directory, compiled
results = []
for name, reference in (("qwen2_5_vl", "torchvision"), ("llava1_5", "pillow")):
    pre = foveal.Preprocessor.from_spec(name, reference)
    image = numpy.arange(90 * 61 * 3, dtype=numpy.uint32).astype(numpy.uint8).reshape(90, 61, 3)
    list(pre.warmup())
    results.append(pre(image)["pixel_values"].tobytes().hex()[:64])
print(json.dumps([list(compiled()), results, str(cache_directory())]))
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
    short.write_bytes(short.read_bytes()[:100])
    compiled, again, _ = finish(start(cache))
    assert len(compiled) == 3
    assert again == results
    assert finish(start(cache))[0] == []


def test_an_unwritable_directory_falls_back(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    program = "from foveal_kernels.compile import cache_directory; print(cache_directory())"
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(blocked), "TMPDIR": str(tmp_path)}
    output = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    assert Path(output.stdout.strip()).parent.parent == tmp_path
