"""Who runs where: a pool of threads of our own, running kernels that hold no GIL.

Many images are one task each, one large image is a task for each band of its rows, and what is small stays on the
caller's thread. A call has helpers only where CPUs are free: threads of this process that compute, and those of other
processes (`foveal.run.seats`), are counted. So callers on many threads, or in many processes, each work alone; a call
from a task of another call does, too. A thread that waits for a seat does not exist, hence no deadlock.

Numba's own threads are used only where ``FOVEAL_PARALLEL`` asks for them: see `foveal.run.numba_threads`.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from operator import length_hint
from typing import Generic, TypeVar

from foveal.errors import OptionError
from foveal.run import profile
from foveal.run.cpus import cpu_count
from foveal.run.seats import Seats

__all__ = [
    "available_threads",
    "bands",
    "counting_alone",
    "free_threads",
    "helping",
    "run_all",
    "thread_count",
    "worthwhile",
]

MOST_THREADS = 1024
NONE: list[int] = []

Result = TypeVar("Result")
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
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
    if not text.isdecimal() or not 1 <= int(text) <= MOST_THREADS:
        raise OptionError(f"FOVEAL_THREADS is {text[:20]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(text)


def _openmp_threads() -> int | None:
    """Return what ``OMP_NUM_THREADS`` says of the outermost level; like OpenMP, ignore what is no number."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(text) if text.isdecimal() and 1 <= int(text) <= MOST_THREADS else None


def _shared() -> bool:
    """Whether seats of other processes count: not where ``FOVEAL_THREADS`` says how many this one has."""
    return _counts_others and not os.environ.get("FOVEAL_THREADS", "").strip()


@contextmanager
def counting_alone() -> Iterator[None]:
    """Take no notice of other processes for a while, in all threads: so that what is measured depends on none."""
    global _counts_others
    _counts_others = False
    try:
        yield
    finally:
        _counts_others = True


def free_threads() -> int:
    """Return how many threads this process has left, the caller's included; others may take them at any time."""
    return available_threads() - _seats.taken


def thread_count(threads: int | None) -> int:
    """Return the number of threads of a call, checking what the caller asked for."""
    if threads is None:
        return available_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise OptionError("threads must be a whole number of at least 1, or None for all that are available")
    return threads


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
    with _seated():
        if threads == 1 or len(tasks) <= 1 or _is_inside():
            return [task() for task in tasks]
        return _Call(tasks, threads).run()


@contextmanager
def helping(threads: int) -> Iterator[int]:
    """Take seats for threads that are not of this pool; yield how many there are with the caller's."""
    with _seated():
        helpers = [] if _is_inside() else _seats.take(threads - 1, available_threads(), _shared())
        try:
            yield 1 + len(helpers)
        finally:
            _seats.leave(helpers)


def _is_inside() -> bool:
    """Whether this thread works on one of several tasks of a call."""
    return getattr(_here, "inside", False)


@contextmanager
def _seated() -> Iterator[None]:
    """Take a seat for the caller, who works whether there is one or not; once a thread."""
    if getattr(_here, "seated", False):
        yield
        return
    limit, seat = available_threads(), NONE
    try:
        _here.seated = True
        seat = _seats.take_or_stand(limit, _shared())
        yield
    finally:
        _here.seated = False
        _seats.leave(seat)


class _Call(Generic[Result]):
    """The tasks of a call, and who works on them."""

    def __init__(self, tasks: Sequence[Callable[[], Result]], threads: int) -> None:
        self._tasks = tasks
        self._numbers = iter(range(len(tasks)))
        self._results: list[Result | None] = [None] * len(tasks)
        self._errors: dict[int, BaseException] = {}
        self._limit = available_threads()
        self._most = min(threads, self._limit) - 1
        self._helpers: dict[Future[None], int] = {}

    def run(self) -> list[Result]:
        """Work until no task is left, wait for the helpers, and return the results."""
        _here.inside = True
        try:
            self._recruit()
            for number in self._numbers:
                self._do(number)
                self._recruit()
        finally:
            _here.inside = False
            self._exhaust()
            self._finish()
        if self._errors:
            interrupts = (error for error in self._errors.values() if not isinstance(error, Exception))
            raise next(interrupts, self._errors[min(self._errors)])
        return self._results  # type: ignore[return-value]

    def _recruit(self) -> None:
        """Ask the pool for helpers, on seats that are free; where no thread can be had, the caller works alone.

        No thread can be had at the interpreter's end.
        """
        helping = sum(not helper.done() for helper in self._helpers)
        wanted = min(self._most - helping, length_hint(self._numbers) - 1)
        if wanted <= 0:
            return
        for seat in _seats.take(wanted, self._limit, _shared()):
            try:
                helper = _executor().submit(self._help, seat)
            except RuntimeError:
                _seats.leave([seat])
                self._most = 0
            else:
                self._helpers[helper] = seat

    def _help(self, seat: int) -> None:
        """Work on a thread of the pool, until another caller of this process has no seat."""
        kept = True
        _here.inside = _here.seated = True
        try:
            for number in self._numbers:
                self._do(number)
                if _seats.hand_over(seat):
                    kept = False
                    return
        finally:
            _here.inside = _here.seated = False
            if kept:
                _seats.leave([seat])

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
        """Wait for the helpers that have started; those that have not would find nothing to do."""
        interrupt: BaseException | None = None
        while True:
            try:
                wait([helper for helper in tuple(self._helpers) if not self._is_cancelled(helper)])
                break
            except BaseException as error:
                interrupt = interrupt or error
        if interrupt:
            raise interrupt

    def _is_cancelled(self, helper: Future[None]) -> bool:
        if not helper.cancel():
            return False
        _seats.leave([self._helpers.pop(helper)])
        return True


def _executor() -> ThreadPoolExecutor:
    """Return the pool; it makes a thread when none is idle, and seats bound how many work."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="foveal")
        return _pool


def _forget_pool() -> None:
    """After a fork the child has no threads: start anew."""
    global _here, _lock, _pool
    _here, _lock, _pool = threading.local(), threading.Lock(), None
    _seats.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
