"""Who runs where: threads of our own, running kernels that hold no GIL.

Many images are one task each, one large image is a task for each band of its rows, and what is small stays on the
caller's thread. A call has helpers only where CPUs are free: threads of this process that compute, and those of other
processes (`foveal.run.seats`), are counted. So callers on many threads, or in many processes, each work alone; a call
from a task of another call does, too. A thread that waits for a seat does not exist, hence no deadlock.

A signal's handler, as that of Ctrl-C, may raise in the caller's thread between any two steps of Python. The executors
of the standard library do not bear that: a lock that is taken in that moment is never given back, and the process hangs
when it ends. Here a call waits for its helpers by steps that can be taken again.

Numba's own threads are used only where ``FOVEAL_PARALLEL`` asks for them: see `foveal.run.numba_threads`.
"""

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from operator import length_hint
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from foveal.errors import OptionError
from foveal.run import profile
from foveal.run.cpus import cpu_count
from foveal.run.seats import Seats

__all__ = [
    "available_threads",
    "bands",
    "counting_alone",
    "free_threads",
    "run_all",
    "thread_count",
    "with_helpers",
    "worthwhile",
]

MOST_THREADS = 1024

Result = TypeVar("Result")
_seats = Seats()
_here = threading.local()
_counts_others = True


def available_threads() -> int:
    """Return how many threads this process uses at most.

    ``FOVEAL_THREADS``; else the CPUs that the process may use (`foveal.run.cpus`), of which ``OMP_NUM_THREADS`` may
    leave some free.
    """
    text = os.environ.get("FOVEAL_THREADS", "").strip()
    if not text:
        return min(cpu_count(), _openmp_threads() or MOST_THREADS)
    count = _threads_in(text)
    if count is None:
        raise OptionError(f"FOVEAL_THREADS is {text[:20]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return count


def _openmp_threads() -> int | None:
    """Return what ``OMP_NUM_THREADS`` says of the outermost level; like OpenMP, ignore what is no number."""
    return _threads_in(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip())


def _threads_in(text: str) -> int | None:
    """Return a number of threads, None for what is none; Python refuses to read thousands of digits."""
    count = int(text) if text.isdecimal() and len(text) < 100 else 0
    return count if 1 <= count <= MOST_THREADS else None


def _shared() -> bool:
    """Whether seats of other processes count: not where ``FOVEAL_THREADS`` says how many this one has."""
    return _counts_others and not os.environ.get("FOVEAL_THREADS", "").strip()


@contextmanager
def counting_alone() -> Iterator[None]:
    """Take no notice of other processes for a while, in all threads: so that what is measured depends on none."""
    global _counts_others
    before, _counts_others = _counts_others, False
    try:
        yield
    finally:
        _counts_others = before


def free_threads() -> int:
    """Return how many threads this process has left, the caller's included; others may take them at any time."""
    return available_threads() - _seats.taken


def thread_count(threads: int | None) -> int:
    """Return the number of threads of a call, checking what the caller asked for."""
    if threads is None:
        return available_threads()
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise OptionError("threads must be a whole number of at least 1, or None for all that are available")
    return int(threads)


def bands(rows: int, elements: int, threads: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Split the rows of a canvas for several threads, at multiples; one band where the work is small."""
    if threads == 1:
        return [(0, rows)]
    blocks, known = -(-rows // multiple), profile.current()
    count = max(1, min(threads, known.threads or threads, elements // known.band_elements, blocks))
    edges = [min(blocks * i // count * multiple, rows) for i in range(count + 1)]
    return list(pairwise(edges))


def worthwhile(elements: Sequence[int]) -> int:
    """Return how many threads images are worth, of so many elements each.

    Threads take whole images, or bands of one. What is worth one thread is over before another call could look for a
    CPU, so it needs no seat: to take one and to leave it takes 10 µs.
    """
    known = profile.current()
    least = known.band_elements if len(elements) == 1 else known.image_elements
    return max(1, sum(elements) // least)


def run_all(tasks: Sequence[Callable[[], Result]], threads: int) -> list[Result]:
    """Run tasks on at most ``threads`` threads, the caller's being one of them.

    Fewer where other calls, or other processes, have the CPUs; on the caller's alone where it already works on a task.

    Returns
    -------
    list
        Results, in the order of the tasks.

    Raises
    ------
    BaseException
        What the first failing task, in the order of the list, raised. Nothing is begun after a failure, and what was
        begun has ended when this returns or raises, even if the wait is interrupted: tasks write into memory of the
        call.
    """
    if threads == 1 or len(tasks) <= 1 or _is_inside():
        return _seated(lambda: [task() for task in tasks])
    return _seated(_Call(tasks, threads).run)


def with_helpers(work: Callable[[int], Result], threads: int) -> Result:
    """Take seats for threads that are not of this pool, and work on so many, the caller's being one of them."""
    return _seated(lambda: _with_helpers(work, threads))


def _with_helpers(work: Callable[[int], Result], threads: int) -> Result:
    owner = _Owner()
    try:
        helpers = [] if _is_inside() else _seats.take(owner, threads - 1, available_threads(), _shared())
        return work(1 + len(helpers))
    finally:
        _seats.leave(owner)


def _is_inside() -> bool:
    """Whether this thread works on one of several tasks of a call."""
    return getattr(_here, "inside", False)


class _Owner:
    """Whoever has seats."""


def _seated(work: Callable[[], Result]) -> Result:
    """Work on a seat for the caller, or without where there is none; once a thread.

    No context manager: where one is interrupted at its end, it may keep an error, and that the seat's owner.
    """
    if getattr(_here, "seated", False):
        return work()
    limit, owner = available_threads(), _Owner()
    try:
        _here.seated = True
        _seats.take_or_stand(owner, limit, _shared())
        return work()
    finally:
        _here.seated = False
        _seats.leave(owner)


class _Call(Generic[Result]):
    """The tasks of a call, and who works on them."""

    def __init__(self, tasks: Sequence[Callable[[], Result]], threads: int) -> None:
        self._tasks = tasks
        self._numbers = iter(range(len(tasks)))
        self._results: list[Result | None] = [None] * len(tasks)
        self._errors: dict[int, BaseException] = {}
        self._limit = available_threads()
        self._most = min(threads, self._limit) - 1
        self._helpers: list[_Helper] = []

    def run(self) -> list[Result]:
        """Work until no task is left, wait for the helpers, and return the results."""
        interrupt: BaseException | None = None
        _here.inside = True
        try:
            self._recruit()
            for number in self._numbers:
                self._do(number)
                self._recruit()
        finally:
            _here.inside = False
            while True:
                try:
                    self._finish()
                    break
                except BaseException as error:
                    interrupt = interrupt or error
            try:
                if interrupt:
                    raise interrupt
            finally:
                interrupt = None  # or it would have this frame, and this frame it
        if self._errors:
            raise self._taken_error()
        return self._results  # type: ignore[return-value]

    def _taken_error(self) -> BaseException:
        """Return the error to be raised, and keep none: they have the frames that have this call."""
        errors, self._errors = self._errors, {}
        interrupts = (error for error in errors.values() if not isinstance(error, Exception))
        return next(interrupts, errors[min(errors)])

    def _recruit(self) -> None:
        """Ask the pool for helpers, on seats that are free; where no thread can be had, the caller works alone.

        No thread can be had at the interpreter's end.
        """
        helping = sum(not helper.is_over for helper in self._helpers)
        for _ in range(min(self._most - helping, length_hint(self._numbers) - 1)):
            helper = _Helper(self._help)
            seats = _seats.take(helper, 1, self._limit, _shared())
            if not seats:
                return
            self._helpers.append(helper)
            try:
                _thread_of(seats[0]).jobs.put(helper)
            except RuntimeError:
                self._dismiss(helper)
                self._most = 0

    def _help(self, helper: "_Helper") -> None:
        """Work on a thread of the pool, until another caller of this process has no seat."""
        _here.inside = _here.seated = True
        try:
            for number in self._numbers:
                self._do(number)
                if _seats.hand_over(helper):
                    return
        finally:
            _here.inside = _here.seated = False
            _seats.leave(helper)

    def _do(self, number: int) -> None:
        """Do a task (advancing a range iterator, which two threads share, is atomic under the GIL)."""
        try:
            self._results[number] = self._tasks[number]()
        except BaseException as error:
            self._errors[number] = error
            self._exhaust()

    def _exhaust(self) -> None:
        """Take what is left, so that nothing more is begun."""
        deque(self._numbers, maxlen=0)

    def _finish(self) -> None:
        """Wait for the helpers that have begun; may be done again where it was interrupted."""
        self._exhaust()
        for helper in self._helpers:
            self._dismiss(helper)
        self._helpers.clear()  # they refer to this call, and it to the output

    def _dismiss(self, helper: "_Helper") -> None:
        helper.end()
        _seats.leave(helper)


class _Helper:
    """A thread's work for a call, and the owner of that thread's seat."""

    def __init__(self, work: Callable[["_Helper"], None]) -> None:
        self._work = work
        self._begun: dict[str, str] = {}
        self._running = threading.Lock()
        self._running.acquire()
        self.is_over = False

    def run(self) -> None:
        """Work, on a thread of the pool."""
        try:
            if self._begun.setdefault("by", "helper") == "helper":
                self._work(self)
        finally:
            self.is_over = True
            self._running.release()

    def end(self) -> None:
        """Wait until it is over; one that has not begun would find nothing to do, and never begins."""
        if self._begun.setdefault("by", "caller") == "helper":
            while not self.is_over:
                self._running.acquire()
        self.is_over = True


class _Thread(NamedTuple):
    """A thread of the pool, and what it does next."""

    thread: threading.Thread
    jobs: "SimpleQueue[_Helper | None]"


_threads: dict[int, _Thread] = {}


def _thread_of(seat: int) -> _Thread:
    """Return the thread of a seat: there are as many as helpers have ever worked at once."""
    found = _threads.get(seat)
    if found is None:
        jobs: SimpleQueue[_Helper | None] = SimpleQueue()
        found = _Thread(threading.Thread(target=_serve, args=(jobs,), name=f"foveal_{seat}", daemon=True), jobs)
        found.thread.start()
        _threads[seat] = found
    return found


def _serve(jobs: "SimpleQueue[_Helper | None]") -> None:
    while (helper := jobs.get()) is not None:
        helper.run()
        del helper  # what it holds is not kept until the next one comes


@atexit.register
def _end_threads() -> None:
    """Wait for helpers of daemon threads, which the interpreter's end would stop within a kernel."""
    for known in tuple(_threads.values()):
        known.jobs.put(None)
    for known in tuple(_threads.values()):
        known.thread.join()


def _forget_threads() -> None:
    """After a fork the child has no threads: start anew."""
    global _here
    _here = threading.local()
    _threads.clear()
    _seats.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
