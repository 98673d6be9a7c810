"""The pool: order of results and errors, limits, many callers."""

import contextlib
import gc
import inspect
import io
import os
import signal
import sys
import tempfile
import threading
import weakref
from functools import partial

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.errors import OptionError
from foveal.media.arrays import array_pixels
from foveal.media.sources import open_source
from foveal.run import cpus, execute, profile, schedule, seats
from foveal.run.execute import run_batch
from foveal.run.profile import DEFAULT, Profile
from foveal.run.schedule import available_threads, bands, run_all, thread_count, worthwhile


@pytest.fixture(autouse=True)
def eight_threads(monkeypatch):
    """Whatever the machine has and its other processes take."""
    monkeypatch.setenv("FOVEAL_THREADS", "8")


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
    def refuse(seat):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(schedule, "_thread_of", refuse)
    assert run_all([lambda i=i: i for i in range(5)], 4) == [0, 1, 2, 3, 4]
    assert not schedule._seats._owners


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


class Stop(BaseException):
    pass


def stopped(steps, work):
    """Do work, interrupted where a signal's handler may be: at the start or after the end of the n-th call in it."""
    left, files = [steps], (schedule.__file__, seats.__file__)

    def count(frame, event, argument):
        between = event == "c_return" or not frame.f_code.co_flags & inspect.CO_GENERATOR
        if event != "c_call" and between and frame.f_code.co_filename in files:
            left[0] -= 1
            if left[0] < 0:
                sys.setprofile(None)
                raise Stop

    sys.setprofile(count)
    try:
        work()
    except Stop:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_an_interrupt_at_any_step_leaves_all_as_it_was(monkeypatch, tmp_path, shared, failing):
    """No thread works on when the call has raised, no seat stays taken, and nothing waits for ever."""
    if shared:
        monkeypatch.delenv("FOVEAL_THREADS")
        monkeypatch.setattr(schedule, "available_threads", lambda: 8)
        monkeypatch.setattr(seats, "cpu_count", lambda: 8)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(schedule, "_seats", schedule.Seats())
    working, lock = [0], threading.Lock()

    def task(i):
        with lock:
            working[0] += 1
        threading.Event().wait(0.0005)
        with lock:
            working[0] -= 1
        if failing and i == 2:
            raise ValueError

    def work():
        with contextlib.suppress(ValueError):
            run_all([partial(task, i) for i in range(4)], 3)

    steps = 0
    while stopped(steps, work):
        assert working == [0]
        assert not any(vars(schedule._here).values())
        steps += 1
    assert steps > 50
    work()
    assert not schedule._seats._owners
    assert not schedule._seats._standing
    assert len({*run_all([lambda: (pause(), threading.get_ident())[1]] * 8, 3)}) > 1


@pytest.mark.parametrize("error", [None, ValueError, Stop])
def test_what_a_call_had_goes_with_it(error):
    """Outputs that wait for Python's collector would be memory of several calls."""

    class Output:
        def touch(self):
            pause()
            if error:
                raise error

    gc.disable()
    try:
        output = Output()
        gone = weakref.ref(output)
        with contextlib.suppress(ValueError, Stop):
            run_all([output.touch] * 6, 3)
        del output
        for _ in range(1000):  # a helper that came too late lets go of the call when it wakes
            if gone() is None:
                break
            pause()
        assert gone() is None
    finally:
        gc.enable()


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
    assert bands(100, DEFAULT.band_elements * 2 - 1, 8) == [(0, 100)]


def test_small_images_stay_on_the_callers_thread():
    assert [worthwhile([DEFAULT.image_elements] * count) for count in (2, 3, 9)] == [2, 3, 9]
    assert [worthwhile([size, size]) for size in (1, DEFAULT.image_elements // 2, DEFAULT.image_elements)] == [1, 1, 2]
    assert [worthwhile([DEFAULT.band_elements * count + 1]) for count in (0, 1, 2, 9)] == [1, 1, 2, 9]
    assert threads_that_decode([(56, 56)] * 3) == {threading.current_thread().name}
    assert len(threads_that_decode([(600, 600)] * 3)) > 1


def test_small_images_that_must_be_decoded_are_worth_a_thread():
    arrays = [np.zeros((120, 160, 3), np.uint8)] * 3
    assert threads_that_decode([(120, 160)] * 3) == {threading.current_thread().name}
    assert len(threads_that_decode([(120, 160)] * 3, decodes=[True] * 3)) > 1
    file = io.BytesIO()
    Image.fromarray(arrays[0]).save(file, "PNG")
    lazy, loaded = Image.open(file), Image.open(file)
    loaded.load()
    found = [open_source(item).decodes for item in (file.getvalue(), lazy, loaded, arrays[0])]
    assert found == [True, True, False, False]


def threads_that_decode(sizes, decodes=()):
    """Return the names of the threads on which images are decoded, which takes a while."""
    names = set()

    def load(array):
        pause()
        names.add(threading.current_thread().name)
        return array_pixels(array)

    pre = foveal.Preprocessor.from_spec("qwen2_vl")
    arrays = [np.zeros((*size, 3), np.uint8) for size in sizes]
    batch = pre.plan(arrays)
    run_batch(batch, pre.normalization, [partial(load, array) for array in arrays], "uint8", threads=2, decodes=decodes)
    return names


@pytest.mark.parametrize(
    ("sizes", "in_turn"),
    [
        ([(900, 900)], False),
        ([(900, 900)] * 2, True),
        ([(900, 900)] * 3, True),
        ([(900, 900), (60, 60)], False),
        ([(900, 900), *[(60, 60)] * 9], True),
    ],
)
def test_few_images_of_different_size_are_divided_into_bands(monkeypatch, sizes, in_turn):
    """Only then is every image decoded before the first one is written."""
    calls = []
    monkeypatch.setattr(execute, "run_all", lambda tasks, count: calls.append(count) or run_all(tasks, count))
    threads_that_decode(sizes)
    assert len(calls) == (1 if in_turn else 2)


def test_one_image_is_not_divided_where_other_calls_have_all_threads(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "3")
    calls = []
    monkeypatch.setattr(execute, "run_all", lambda tasks, count: calls.append(len(tasks)) or run_all(tasks, count))
    for others, images in (([], [1, 2]), ([0], [1, 2]), ([0, 1], [1]), ([0, 1, 2], [1])):
        monkeypatch.setattr(schedule._seats, "_owners", dict.fromkeys(others, weakref.ref(monkeypatch)))
        calls.clear()
        threads_that_decode([(900, 900)])
        assert calls == images


def test_threads_of_a_call(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "3")
    assert thread_count(None) == 3
    assert thread_count(5) == 5
    assert type(thread_count(np.int64(2))) is int
    for wrong in (0, -1, True, 1.5, "2", np.zeros(2, int), np.zeros((), float)):
        with pytest.raises(OptionError, match=r"^threads must be a whole number of at least 1, or None for all"):
            thread_count(wrong)


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "9999", "²"])
def test_a_wrong_environment_is_named(monkeypatch, text):
    monkeypatch.setenv("FOVEAL_THREADS", text)
    with pytest.raises(OptionError, match=rf"^FOVEAL_THREADS is '{text}': it must be a whole number from 1 to 1024$"):
        available_threads()


def test_a_number_that_python_does_not_read_is_none(monkeypatch):
    monkeypatch.setenv("FOVEAL_THREADS", "9" * 5000)
    with pytest.raises(OptionError, match=r"^FOVEAL_THREADS is '9{20}': it must be"):
        available_threads()
    monkeypatch.delenv("FOVEAL_THREADS")
    monkeypatch.setattr(schedule, "cpu_count", lambda: 6)
    monkeypatch.setenv("OMP_NUM_THREADS", "9" * 5000)
    assert available_threads() == 6


def test_cpus_and_openmp_count_and_the_profile_of_a_large_image(monkeypatch):
    monkeypatch.delenv("FOVEAL_THREADS")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(schedule, "cpu_count", lambda: 6)
    assert available_threads() == 6
    for text, count in (("4", 4), ("3,2", 3), ("9", 6), ("0", 6), ("many", 6), ("", 6)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert available_threads() == count
    monkeypatch.setenv("FOVEAL_THREADS", "8")
    assert available_threads() == 8
    assert len(bands(1000, 1 << 30, 6)) == 6
    with profile.using(Profile(threads=2)):  # of a large image: whole ones may have more
        assert available_threads() == 8
        assert len(bands(1000, 1 << 30, 6)) == 2


def test_the_affinity_counts(monkeypatch):
    for name in ("FOVEAL_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cpus, "cpu_quota", lambda: None)
    monkeypatch.setattr(cpus, "_counted", (-cpus.KEPT_SECONDS, 0))
    with profile.using(DEFAULT):
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


def most_at_once(work, callers, tasks=24, threads=8):
    """Return how many tasks ran at once, each caller having some on a thread of its own."""
    together, most, lock = [0], [0], threading.Lock()

    def task():
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        work()
        with lock:
            together[0] -= 1

    started = [threading.Thread(target=run_all, args=([task] * tasks, threads)) for _ in range(callers)]
    for caller in started:
        caller.start()
    for caller in started:
        caller.join(60)
    assert not any(caller.is_alive() for caller in started)
    return most[0]


def pause():
    threading.Event().wait(0.002)


def test_callers_share_the_helpers():
    """When a caller comes, helpers of others may be in the middle of a task."""
    assert 2 < most_at_once(pause, callers=1) <= 8
    assert most_at_once(pause, callers=16) <= 16 + 7


def test_a_long_call_gives_its_helpers_up_to_other_callers():
    """At the moment that a caller comes there is one thread too many; after each helper's next task there is not."""
    counts, lock, working = [], threading.Lock(), [0]

    def task():
        with lock:
            working[0] += 1
        pause()
        with lock:
            counts.append(working[0])
            working[0] -= 1

    long = threading.Thread(target=run_all, args=([task] * 400, 8))
    long.start()
    while len(counts) < 20:
        pause()
    others = [threading.Thread(target=run_all, args=([task] * 30, 1)) for _ in range(6)]
    for other in others:
        other.start()
    while len(counts) < 140:
        pause()
    settled = counts[120:140]
    for thread in (long, *others):
        thread.join(60)
    assert len(counts) == 400 + 6 * 30
    assert max(settled) <= 9


def test_a_call_from_a_task_works_alone():
    names = []

    def inner():
        names.append(threading.current_thread().name)
        pause()

    def task():
        before = len(names)
        run_all([inner] * 4, 8)
        assert before + 4 <= len(names)
        return threading.current_thread().name

    used = set(run_all([task] * 12, 4))
    assert set(names) == used
    assert len(used) <= 4


def test_a_processes_seats_are_all_given_back():
    def fail():
        raise ValueError("no")

    for tasks in ([pause] * 9, [pause, fail] * 4, [lambda: run_all([pause] * 3, 3)] * 5):
        with contextlib.suppress(ValueError):
            run_all(tasks, 8)
    assert not schedule._seats._owners
    assert not schedule._seats._standing


def test_without_a_free_cpu_there_is_no_helper(monkeypatch, tmp_path):
    """Another process of this user has them: FOVEAL_THREADS says nothing of those, and is not set here."""
    monkeypatch.delenv("FOVEAL_THREADS")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(schedule, "_seats", schedule.Seats())
    other = schedule.Seats()
    other.take(monkeypatch, 1024, 1024, True)
    used = run_all([lambda: (pause(), threading.current_thread().name)[1]] * 8, 4)
    assert set(used) == {threading.current_thread().name}
    with schedule.counting_alone():  # as `foveal tune` measures
        used = run_all([lambda: (pause(), threading.current_thread().name)[1]] * 8, 4)
    assert len(set(used)) == min(cpus.cpu_count(), 4)
    other.leave(monkeypatch)
