"""Calls from many threads, from forked and from spawned processes: none aborts, hangs, or gives other bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import BY_NAME

PROGRAM = Path(__file__).parent / "processes.py"
COLD = "fork_while_another_thread_compiles"


def answer(part, **variables):
    """Return what the program says, and what it wrote beside it."""
    environment = {**os.environ, "FOVEAL_THREADS": "4", **variables}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAM), part]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("part", [part for part in BY_NAME if part != COLD])
def test_with_the_pool(part):
    assert answer(part) == (0, "as it had to be\n", "")


def test_with_an_empty_cache(tmp_path):
    assert answer(COLD, FOVEAL_CACHE_DIR=str(tmp_path)) == (0, "as it had to be\n", "")
