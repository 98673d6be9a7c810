"""The profile of a machine: stored for one CPU, level and version, read where it fits, and without effect on bits."""

import json

import numpy as np
import pytest

import foveal
from foveal.errors import OptionError
from foveal.run import profile
from foveal.run.profile import DEFAULT, Profile
from foveal_kernels import compile, target

TUNED = Profile(threads=3, band_elements=5000, image_elements=2000)


@pytest.fixture
def directories(monkeypatch, tmp_path):
    """Two directories of a cache, of which only the second can be written."""
    found = (tmp_path / "nothing" / "image", tmp_path)
    monkeypatch.setattr(compile, "cache_directories", lambda: found)
    profile._loaded.cache_clear()
    yield found
    profile._loaded.cache_clear()


def test_stored_read_and_removed(directories):
    assert (profile.load(), profile.current(), profile.reset()) == (None, DEFAULT, False)
    file = profile.save(TUNED)
    assert file.parent == directories[1]
    assert profile.load() == (file, TUNED)
    assert profile.current() == TUNED
    assert profile.save(DEFAULT) == file
    assert profile.current() == DEFAULT
    assert profile.reset()
    assert (profile.load(), profile.current()) == (None, DEFAULT)
    assert list(directories[1].iterdir()) == []


def test_the_first_directory_that_has_one_counts(directories):
    profile.save(TUNED)
    directories[0].mkdir(parents=True)
    assert profile.load()[1] == TUNED
    file = profile.save(DEFAULT)
    assert file.parent == directories[0]
    assert profile.load() == (file, DEFAULT)
    assert profile.reset()  # both are removed
    assert profile.load() is None


@pytest.mark.parametrize("is_there", [False, True])
def test_where_nothing_can_be_written(monkeypatch, directories, is_there):
    """A file in the place of a directory refuses all that a read-only file system does."""
    if is_there:
        directories[0].parent.mkdir()
        directories[0].write_text("")
    monkeypatch.setattr(compile, "cache_directories", lambda: directories[:1])
    with pytest.raises(OptionError, match=r"^the profile cannot be stored: no directory of the cache can be written$"):
        profile.save(TUNED)
    directories[0].parent.mkdir(exist_ok=True)
    directories[0].write_text("")
    with pytest.raises(OptionError, match=r"^the profile cannot be stored: no directory of the cache can be written$"):
        profile.save(TUNED)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record | {"cpu": "another"},
        lambda record: record | {"level": "another"},
        lambda record: record | {"version": "kernels-0000000000000000"},
        lambda record: record | {"more": 1},
        lambda record: record | {"profile": record["profile"] | {"more": 1}},
        lambda record: record | {"profile": record["profile"] | {"threads": 0}},
        lambda record: record | {"profile": record["profile"] | {"threads": "3"}},
        lambda record: record | {"profile": record["profile"] | {"band_elements": 1}},
        lambda record: record | {"profile": record["profile"] | {"image_elements": 1 << 40}},
        lambda record: record | {"profile": record["profile"] | {"image_elements": 1e5}},
        lambda record: [record],
    ],
)
def test_what_does_not_hold_here_is_left_alone(directories, change):
    file = profile.save(TUNED)
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    profile._loaded.cache_clear()
    assert profile.current() == DEFAULT


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"null"])
def test_a_damaged_file_is_left_alone(directories, content):
    profile.save(TUNED).write_bytes(content)
    profile._loaded.cache_clear()
    assert profile.current() == DEFAULT


def test_each_level_has_its_own(monkeypatch, directories):
    profile.save(TUNED)
    monkeypatch.setattr(target, "level", lambda: "another")
    profile._loaded.cache_clear()
    assert profile.current() == DEFAULT
    monkeypatch.setattr(target, "level", refuse)
    profile._loaded.cache_clear()
    assert profile.current() == DEFAULT


def refuse():
    raise ValueError("FOVEAL_TARGET is 'x'")


def test_values_of_another_profile_for_a_while():
    before = profile.current()
    with profile.using(TUNED):
        assert profile.current() == TUNED
    with pytest.raises(ValueError, match="FOVEAL_TARGET"), profile.using(TUNED):
        refuse()
    assert profile.current() == before


IMAGES = [
    np.random.default_rng(i).integers(0, 256, (*size, 3), dtype=np.uint8)
    for i, size in enumerate([(700, 900), (50, 70)])
]


@pytest.mark.parametrize("name", ["qwen2_5_vl", "llava1_5", "llama4", "idefics3", "phi4mm", "siglip2"])
def test_no_value_changes_a_bit(monkeypatch, name):
    monkeypatch.setenv("FOVEAL_THREADS", "5")
    pre = foveal.Preprocessor.from_spec(name)
    want = {key: tensor.tobytes() for key, tensor in pre(IMAGES, threads=1).items()}
    for values in (
        TUNED,
        Profile(1, 1 << 10, 1 << 30),
        Profile(None, 1 << 30, 1 << 10),
        Profile(1024, 1 << 10, 1 << 10),
    ):
        with profile.using(values):
            for threads in (None, 2, 5):
                assert {key: tensor.tobytes() for key, tensor in pre(IMAGES, threads=threads).items()} == want
