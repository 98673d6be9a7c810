"""What is kept between calls has a bound, and can be given back at any time."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import foveal
from foveal.run import buffers, kept
from foveal.run.buffers import borrowed, give_back, release_scratch, scratch
from foveal.run.memory import or_release


@pytest.fixture
def small(monkeypatch):
    """Bound tables to 100 bytes."""
    monkeypatch.setattr(kept, "TABLES_BYTES", 100)
    monkeypatch.setattr(kept, "_all", [])


def test_tables_are_found_again_and_stay_within_their_bytes(small):
    made = []

    @kept.kept
    def table(number, size=40):
        made.append(number)
        return np.zeros(size, np.uint8), (np.zeros(0),)

    assert table(1) is table(1)
    assert table.__name__ == "table"
    table(2)
    table(1)
    assert made == [1, 2]
    table(3)  # 120 bytes: the others go
    table(3)
    table(1)
    assert made == [1, 2, 3, 1]
    assert kept.release_tables() == 80
    assert kept.release_tables() == 0
    table(1)
    assert made == [1, 2, 3, 1, 1]


def test_arrays_are_counted_once():
    array = np.zeros(10, np.float32)
    assert kept.array_bytes((array, (array, 5, "text"), [array], np.zeros(3, np.uint8))) == 43


def test_many_sizes_of_images_leave_no_more_than_the_bound():
    preprocess, image = foveal.Preprocessor.from_spec("qwen2_5_vl"), np.zeros((3000, 4000, 3), np.uint8)
    preprocess(image[:300, :400], dtype="uint8", threads=1)
    foveal.release_memory()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(60):
            preprocess.plan(3000 - number, 4000 - number)
            views = preprocess.plan(3000 - number, 4000 - number).views
            for view in views:
                foveal.run.execute.prepare(view, "torchvision", preprocess.normalization, "uint8")
        held, _ = tracemalloc.get_traced_memory()
        released = foveal.release_memory()
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 10_000_000 < released <= 2 * kept.TABLES_BYTES + buffers.KEPT_BYTES + buffers.PICTURES_BYTES
    assert held - left > 0.9 * released


def test_pixels_are_the_same_when_memory_is_released_all_the_time():
    preprocess, image = (
        foveal.Preprocessor.from_spec("llama4"),
        np.random.default_rng(1).integers(0, 256, (700, 900, 3), np.uint8),
    )
    expected = preprocess([image] * 4)["pixel_values"].tobytes()
    stop = threading.Event()

    def release():
        while not stop.is_set():
            foveal.release_memory()
            time.sleep(0)

    thread = threading.Thread(target=release)
    thread.start()
    try:
        for _ in range(20):
            assert preprocess([image] * 4)["pixel_values"].tobytes() == expected
    finally:
        stop.set()
        thread.join()


# ---- scratch


def in_thread(action):
    """Return what an action returns on a thread that lives on until the answer is used, and what ends it."""
    answer, done, found = [], threading.Event(), threading.Event()

    def work():
        answer.append(action())
        found.set()
        done.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    found.wait(60)

    def end():
        done.set()
        thread.join()

    return answer[0], end


def test_scratch_of_every_thread_is_given_back_and_that_in_use_stays_whole():
    release_scratch()
    mine, _ = scratch(1000, 10)
    assert scratch(500, 5)[0] is mine
    (theirs, _), end = in_thread(lambda: scratch(2000, 0))
    try:
        theirs.fill(7)
        assert release_scratch() == 1000 + 80 + 2000
        assert release_scratch() == 0
        assert scratch(1000, 10)[0] is not mine
        assert (theirs == 7).all()
    finally:
        end()


def test_scratch_of_a_thread_ends_with_it():
    release_scratch()
    _, end = in_thread(lambda: scratch(1 << 20, 0)[0].nbytes)
    end()
    gc.collect()
    assert release_scratch() < 1 << 20


def test_threads_together_keep_no_more_than_the_bound(monkeypatch):
    release_scratch()
    monkeypatch.setattr(buffers, "KEPT_BYTES", 3000)
    mine, _ = scratch(2000, 0)
    kept_there, end = in_thread(lambda: scratch(2000, 0)[0] is scratch(2000, 0)[0])
    try:
        assert not kept_there
        assert scratch(2000, 0)[0] is mine
        assert scratch(4000, 0)[0] is not scratch(4000, 0)[0]
    finally:
        end()
        release_scratch()


def test_pictures_are_used_again_by_whoever_comes_next(monkeypatch):
    release_scratch()
    monkeypatch.setattr(buffers, "PICTURES_BYTES", 6000)
    small, large = borrowed((10, 30, 3)), borrowed((40, 40, 3))
    for picture in (large, small):
        give_back(picture)
    assert borrowed((10, 20, 3)).base is small.base
    assert borrowed((10, 20, 3)).base is large.base
    fresh = borrowed((10, 20, 3))
    assert fresh.base is not small.base
    assert fresh.base is not large.base
    for picture in (small, large, borrowed((20, 20, 3))):
        give_back(picture)
    assert release_scratch() == small.nbytes + large.nbytes


# ---- memory that cannot be had


def test_a_second_try_comes_after_a_release():
    scratch(5000, 0)
    tries = []

    def allocate():
        tries.append(release_scratch())
        if len(tries) == 1:
            scratch(3000, 0)
            raise MemoryError
        return "memory"

    assert or_release(allocate) == "memory"
    assert tries[1] == 0

    def refuse():
        raise MemoryError

    with pytest.raises(MemoryError):
        or_release(refuse)


GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names and bool(os.confstr("CS_GNU_LIBC_VERSION"))


@pytest.mark.skipif(not GLIBC, reason="the C library is not glibc")
def test_free_memory_goes_back_to_the_system():
    code = """
import foveal, numpy as np
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
assert foveal.tune_allocator()
arrays = [np.ones(64 << 20, np.uint8) for _ in range(3)]
held = resident()
del arrays[0], arrays[0]
before = resident()
foveal.release_memory()
print(held - before, before - resident())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kept_by_glibc, given_back = map(int, done.stdout.split())
    assert kept_by_glibc < 16 << 20
    assert given_back > 100 << 20


def release_in_child(answers):
    answers.put(foveal.release_memory() >= 0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_a_lock_of_its_parent():
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with buffers._lock, kept._all[0]._lock:  # as other threads may hold them
        child = context.Process(target=release_in_child, args=(answers,))
        child.start()
    child.join(60)
    assert child.exitcode == 0
    assert answers.get()
