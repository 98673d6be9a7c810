"""The pool: order of results and errors, limits, forks, many callers."""

import os
import signal
import threading

import numpy as np
import pytest

import foveal
from foveal.errors import OptionError
from foveal.run import schedule
from foveal.run.schedule import MIN_BAND_ELEMENTS, available_threads, bands, run_all, thread_count


def test_results_keep_the_order_of_the_tasks():
    for threads in (1, 2, 7):
        assert run_all([lambda i=i: i * i for i in range(50)], threads) == [i * i for i in range(50)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_failing_task_is_reported_and_nothing_more_is_begun(threads):
    done = []

    def task(i):
        threading.Event().wait(0.001)
        if i >= 3:
            raise ValueError(str(i))
        done.append(i)

    with pytest.raises(ValueError, match=r"^3$"):
        run_all([lambda i=i: task(i) for i in range(100)], threads)
    assert sorted(done) == [0, 1, 2]


def test_an_interrupted_wait_still_waits():
    """Tasks write into memory of the call, which is gone once it has raised."""
    done, begun = threading.Event(), threading.Event()

    def task():
        if threading.current_thread() is threading.main_thread():
            begun.wait(5)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        else:
            begun.set()
            threading.Event().wait(0.3)
            done.set()

    class Interrupt(Exception):
        pass

    def handle(number, frame):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with pytest.raises(Interrupt):
            run_all([task, task], 2)
        assert done.is_set()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_where_no_thread_can_be_had_the_caller_works_alone(monkeypatch):
    def refuse():
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(schedule, "_executor", refuse)
    assert run_all([lambda i=i: i for i in range(5)], 4) == [0, 1, 2, 3, 4]


def test_an_interrupt_begins_nothing_more():
    begun = []

    def task(i):
        begun.append(i)
        if i == 0:
            raise KeyboardInterrupt
        threading.Event().wait(0.01)

    for threads in (1, 2):
        begun.clear()
        with pytest.raises(KeyboardInterrupt):
            run_all([lambda i=i: task(i) for i in range(200)], threads)
        threading.Event().wait(0.05)
        assert len(begun) < 10
        assert run_all([lambda: 7] * 3, threads) == [7, 7, 7]


def test_at_most_so_many_threads():
    together, most, lock = [0], [0], threading.Lock()

    def task():
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        threading.Event().wait(0.005)
        with lock:
            together[0] -= 1

    run_all([task] * 12, 2)
    assert most[0] <= 2


def test_bands_cover_every_row_once():
    for rows, elements, threads in ((1, 1 << 24, 8), (100, 1 << 24, 3), (7, 1 << 24, 16), (100, 1000, 8)):
        found = bands(rows, elements, threads)
        assert [row for start, stop in found for row in range(start, stop)] == list(range(rows))
        assert len(found) <= threads
    assert bands(100, MIN_BAND_ELEMENTS * 2 - 1, 8) == [(0, 100)]


def test_threads_of_a_call(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "3")
    assert thread_count(None) == 3
    assert thread_count(5) == 5
    for wrong in (0, -1, True, 1.5, "2"):
        with pytest.raises(OptionError, match=r"^threads must be a whole number of at least 1, or None for all"):
            thread_count(wrong)


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "9999"])
def test_a_wrong_environment_is_named(monkeypatch, text):
    monkeypatch.setenv("FOVEAL_THREADS", text)
    with pytest.raises(OptionError, match=rf"^FOVEAL_THREADS is '{text}': it must be a whole number from 1 to 1024$"):
        available_threads()


def test_the_affinity_counts(monkeypatch):
    monkeypatch.delenv("FOVEAL_THREADS", raising=False)
    assert available_threads() == len(os.sched_getaffinity(0))


IMAGE = np.random.default_rng(0).integers(0, 256, (700, 900, 3), dtype=np.uint8)


def test_threads_give_the_same_bits(monkeypatch):
    pre = foveal.Preprocessor.from_spec("qwen2_vl")
    one = pre([IMAGE, IMAGE[:300]], threads=1)["pixel_values"].tobytes()
    for threads in (2, 3, 8):
        assert pre([IMAGE, IMAGE[:300]], threads=threads)["pixel_values"].tobytes() == one


def test_many_threads_call_at_once():
    pre = foveal.Preprocessor.from_spec("llama4")
    want = pre(IMAGE)["pixel_values"].tobytes()
    wrong = []

    def call():
        for _ in range(5):
            if pre(IMAGE, threads=4)["pixel_values"].tobytes() != want:
                wrong.append(1)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers)
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own():
    pre = foveal.Preprocessor.from_spec("llava1_5")
    want = pre([IMAGE] * 3, threads=2)["pixel_values"].tobytes()
    child = os.fork()
    if child == 0:
        same = pre([IMAGE] * 3, threads=2)["pixel_values"].tobytes() == want
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
