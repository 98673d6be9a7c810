"""The sweep: what is measured, and what follows from the figures."""

import pytest

from foveal.run import profile, schedule, tuning
from foveal.run.profile import DEFAULT, Profile
from foveal.run.tuning import Timing, interleaved, sweep


def test_alternatives_take_turns():
    order = []
    seconds = interleaved({1: lambda: order.append(1), 2: lambda: order.append(2)}, 3)
    assert order == [1, 2] * 4
    assert [len(times) for times in seconds.values()] == [3, 3]


def test_a_sweep_measures_every_work_and_ends_with_a_profile(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "3")
    *timings, found = sweep(2, (16, 32), 64)
    kinds = [(timing.kind, timing.elements, tuple(timing.milliseconds)) for timing in timings]
    assert kinds == [
        ("one image", 768, (1, 2)),
        ("one image", 3072, (1, 2)),
        ("two images", 1536, (1, 2)),
        ("two images", 6144, (1, 2)),
        ("large image", 12288, (1, 2, 3)),
    ]
    assert isinstance(found, Profile)
    assert profile._override is None


def test_while_it_measures_small_work_is_divided_too(monkeypatch):
    """Else both alternatives would be one."""
    monkeypatch.setenv("FOVEAL_THREADS", "2")
    counts = []
    whole = schedule._Call
    monkeypatch.setattr(schedule, "_Call", lambda tasks, threads: counts.append(len(tasks)) or whole(tasks, threads))
    list(sweep(1, (64,), 64))
    assert counts
    assert set(counts) == {2}


def test_one_thread_leaves_nothing_to_measure(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "1")
    assert list(sweep(1, (16,), 16)) == [DEFAULT]


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ([2.0, 1.5, 0.8, 0.6], 3000),
        ([0.8, 1.5, 0.9, 0.6], 3000),
        ([0.9, 0.9, 0.9, 0.9], 1024),
        ([2.0, 1.5, 1.2, 0.6], 77),
        ([2.0, 0.5, 0.5, 0.95], 77),
        ([2.0, 1.5, 1.2, 1.1], 77),
    ],
)
def test_the_smallest_work_from_which_on_a_second_thread_pays(ratios, found):
    timings = [Timing("one image", 2000 * (i + 1), {1: 1.0, 2: ratio}) for i, ratio in enumerate(ratios)]
    assert tuning._smallest_that_pays(timings, 77) == found


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({1: 8.0, 2: 4.2, 4: 2.3, 8: 1.3}, None),
        ({1: 8.0, 2: 4.2, 4: 2.3, 8: 2.25}, 4),
        ({1: 8.0, 2: 4.2, 4: 2.3, 8: 2.9}, 4),
        ({1: 8.0, 2: 9.0}, 1),
    ],
)
def test_the_smallest_number_of_threads_that_is_as_fast_as_any(times, found):
    assert tuning._threads(Timing("large image", 1, times), max(times)) == found
    assert tuning._counts(max(times)) == tuple(times)


def test_counts_up_to_any_number():
    assert [tuning._counts(most) for most in (2, 3, 5, 6)] == [(1, 2), (1, 2, 3), (1, 2, 4, 5), (1, 2, 4, 6)]
