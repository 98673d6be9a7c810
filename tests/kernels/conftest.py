"""Instruction levels for the tests of kernels."""

import pytest

from foveal.run import execute
from foveal_kernels import target


@pytest.fixture(params=target.LEVELS)
def level(request, monkeypatch):
    """Each instruction level that this CPU can run, in turn."""
    if request.param not in target.supported():
        pytest.skip(f"this CPU cannot run {request.param}")
    monkeypatch.setenv("FOVEAL_TARGET", request.param)
    target.level.cache_clear()
    execute.prepare.cache_clear()
    yield request.param
    target.level.cache_clear()
    execute.prepare.cache_clear()
