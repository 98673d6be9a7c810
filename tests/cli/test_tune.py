"""``foveal tune``, and what ``foveal doctor`` says of threads."""

import json
import shutil

import pytest
from commands import fail, invoke, succeed

from foveal.run import profile, tuning
from foveal.run.profile import DEFAULT, Profile
from foveal.run.tuning import Timing
from foveal_kernels import compile, layer


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    """A cache of its own, in which there are the kernels of this process."""
    shutil.copytree(compile.cache_directories()[0], tmp_path / "kernels", ignore=shutil.ignore_patterns("profile-*"))
    monkeypatch.setattr(compile, "cache_directories", lambda: (tmp_path / "kernels",))
    monkeypatch.setattr("foveal.run.environment.cache_directories", lambda: (tmp_path / "kernels",))
    monkeypatch.setenv("FOVEAL_THREADS", "2")
    profile._loaded.cache_clear()
    yield tmp_path / "kernels"
    profile._loaded.cache_clear()


@pytest.fixture
def measured(monkeypatch):
    """What a sweep found, on a machine that is not busy."""
    timings = [Timing("one image", 1536, {1: 0.5, 2: 0.25}), Timing("large image", 12288, {1: 4.0, 2: 2.125})]
    found = Profile(threads=2, band_elements=70_000, image_elements=30_000)
    monkeypatch.setattr(tuning, "is_busy", lambda: False)
    monkeypatch.setattr(tuning, "sweep", lambda rounds: iter([*timings, found]))
    return found


def test_a_profile_is_measured_shown_and_removed(measured, directory):
    text = succeed("tune")
    (file,) = directory.glob("profile-*.json")
    assert text.splitlines()[:2] == [
        "one image          1536 elements   threads 1: 0.500 ms  2: 0.250 ms",
        "large image       12288 elements   threads 1: 4.000 ms  2: 2.125 ms",
    ]
    assert [line.split() for line in text.splitlines()[2:]] == [
        ["value", "by", "default"],
        ["threads", "2", "all"],
        ["band", "elements", "70000", "1048576"],
        ["image", "elements", "30000", "524288"],
        ["stored", "in", str(file)],
    ]
    assert text.splitlines()[2:] == succeed("tune", "--show").splitlines()
    assert profile.current() == measured
    assert succeed("tune", "--reset") == "the profile is removed\n"
    assert succeed("tune", "--reset") == "there is no profile\n"
    assert succeed("tune", "--show").endswith("\nthere is no profile: these are the defaults\n")
    assert not list(directory.glob("profile-*"))


def test_json(measured, directory):
    found = json.loads(succeed("tune", "--json"))
    assert found["profile"] == {"threads": 2, "band_elements": 70_000, "image_elements": 30_000}
    assert found["timings"][0] == {"kind": "one image", "elements": 1536, "milliseconds": {"1": 0.5, "2": 0.25}}
    assert json.loads(succeed("tune", "--show", "--json")) == found | {"timings": []}
    assert json.loads(succeed("tune", "--reset", "--json")) == {"removed": True}
    assert json.loads(succeed("tune", "--show", "--json"))["file"] is None


def test_a_busy_machine_stores_nothing_unless_told_to(measured, monkeypatch, directory):
    monkeypatch.setattr(tuning, "is_busy", lambda: True)
    result = invoke("tune")
    assert result.stderr == "nothing is stored, because this machine is busy: measure again when it is not\n"
    assert not list(directory.glob("profile-*"))
    assert "nothing is stored" not in invoke("tune", "--anyway").stderr
    assert profile.load()[1] == measured


def test_a_real_sweep():
    assert len(succeed("tune", "--rounds", "1", "--anyway").splitlines()) == 2 * len(tuning.SIDES) + 1 + 5
    assert profile.load() is not None


def test_one_thread(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "1")
    assert invoke("tune", "--anyway").stderr == "there is one thread, so nothing was measured\n"
    assert profile.load() is None


def test_wrong_options():
    assert fail("tune", "--rounds", "0") == "error: --rounds 0: must be at least 1"
    assert fail("tune", "--show", "--reset") == "error: say --show or --reset, not both"


def test_doctor_shows_the_profile(measured, directory):
    default = "threads all, elements of a band 1048576, of images 524288; default, foveal tune measures it"
    assert f"\nprofile          {default}\n" in succeed("doctor")
    assert json.loads(succeed("doctor", "--json"))["profile"] == vars_of(DEFAULT) | {"file": None}
    succeed("tune")
    tuned = "threads 2, elements of a band 70000, of images 30000; measured by foveal tune"
    assert f"\nprofile          {tuned}\n" in succeed("doctor")
    (file,) = directory.glob("profile-*.json")
    assert json.loads(succeed("doctor", "--json"))["profile"] == vars_of(measured) | {"file": str(file)}


def vars_of(values):
    return {name: getattr(values, name) for name in values.__struct_fields__}


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("tbb", "omp"), "tbb, omp"),
        (("omp",), "omp (tbb is not found: pip install tbb)"),
        ((), "none that several threads may enter (tbb is not found: pip install tbb)"),
    ],
)
def test_doctor_says_on_which_threads_numba_could_run(monkeypatch, names, text):
    monkeypatch.setattr(layer, "layers", lambda: names)
    assert f"\nrow bands on     Foveal's threads\nnumba layers     {text}\n" in succeed("doctor")
    monkeypatch.setenv("FOVEAL_PARALLEL", "numba")
    assert "\nrow bands on     Numba's threads\n" in succeed("doctor")
    monkeypatch.setenv("FOVEAL_PARALLEL", "all")
    assert fail("doctor") == "error: FOVEAL_PARALLEL is 'all': it must be pool or numba"


def test_doctor_shows_a_quota_of_cpu_time(monkeypatch):
    monkeypatch.setattr("foveal.run.environment.cpu_quota", lambda: 1.5)
    assert "\ncpu quota        1.5 CPUs\n" in succeed("doctor")
    assert json.loads(succeed("doctor", "--json"))["cpu_quota"] == 1.5
    monkeypatch.setattr("foveal.run.environment.cpu_quota", lambda: None)
    assert "cpu quota" not in succeed("doctor")
