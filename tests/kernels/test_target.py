"""The instruction level is chosen once and can be forced."""

import pytest

from foveal.errors import TargetError
from foveal.run.execute import instruction_level
from foveal_kernels import target


@pytest.fixture
def force(monkeypatch):
    def set_level(text):
        monkeypatch.setenv("FOVEAL_TARGET", text)
        target.level.cache_clear()

    yield set_level
    target.level.cache_clear()


def test_best_level_by_default(force):
    force("")
    assert instruction_level() == target.supported()[0]
    assert target.supported()[-1] == "generic"


def test_forced_level(force):
    force(" Generic ")
    assert instruction_level() == "generic"


def test_unknown_level(force):
    force("sse9")
    with pytest.raises(TargetError, match=r"^FOVEAL_TARGET is 'sse9': it must be one of generic, avx2, vnni$"):
        instruction_level()


def test_level_that_the_cpu_lacks(force, monkeypatch):
    monkeypatch.setattr(target, "supported", lambda: ("generic",))
    force("vnni")
    with pytest.raises(TargetError, match=r"^FOVEAL_TARGET is 'vnni', which this CPU cannot run: it has generic$"):
        instruction_level()


def test_features_named_for_numba_decide(monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(target.config, "CPU_FEATURES", "+avx2,+fma,-avx512f")
    target.supported.cache_clear()
    try:
        assert target.supported() == ("avx2", "generic")
    finally:
        monkeypatch.undo()
        target.supported.cache_clear()


def test_other_processors_are_generic(monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "aarch64")
    target.supported.cache_clear()
    try:
        assert target.supported() == ("generic",)
    finally:
        monkeypatch.undo()
        target.supported.cache_clear()
