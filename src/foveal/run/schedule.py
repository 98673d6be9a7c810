"""Who runs where: a pool of threads of our own, running kernels that hold no GIL.

Numba's ``parallel=True`` is not used: its workqueue layer aborts the process when two threads call at once, and its
OpenMP layer kills a forked child.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import TypeVar

from foveal.errors import OptionError

__all__ = ["available_threads", "bands", "run_all", "thread_count"]

MIN_BAND_ELEMENTS = 1 << 18
"""Elements of a band below which a second thread costs more than it brings."""

Result = TypeVar("Result")
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def available_threads() -> int:
    """Return how many threads this process uses: ``FOVEAL_THREADS``, else the CPUs it may run on."""
    text = os.environ.get("FOVEAL_THREADS", "").strip()
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise OptionError(f"FOVEAL_THREADS is {text[:20]!r}: it must be a whole number from 1 to 1024")
    return int(text)


def thread_count(threads: int | None) -> int:
    """Return the number of threads of a call, checking what the caller asked for."""
    if threads is None:
        return available_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise OptionError("threads must be a whole number of at least 1, or None for all that are available")
    return threads


def bands(rows: int, elements: int, threads: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Split the rows of a canvas for several threads, at multiples; one band where the work is small."""
    blocks = -(-rows // multiple)
    count = max(1, min(threads, elements // MIN_BAND_ELEMENTS, blocks))
    edges = [min(blocks * i // count * multiple, rows) for i in range(count + 1)]
    return list(pairwise(edges))


def run_all(tasks: Sequence[Callable[[], Result]], threads: int) -> list[Result]:
    """Run tasks on at most ``threads`` threads, the caller's being one of them.

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
    if threads == 1 or len(tasks) <= 1:
        return [task() for task in tasks]
    results: list[Result | None] = [None] * len(tasks)
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(tasks)))
    helpers: list[Future[None]] = []
    try:
        _start(helpers, min(threads, len(tasks)) - 1, partial(_work, tasks, numbers, results, errors))
        _work(tasks, numbers, results, errors)
    finally:
        _exhaust(numbers)
        _finish(helpers)
    if errors:
        interrupts = (error for error in errors.values() if not isinstance(error, Exception))
        raise next(interrupts, errors[min(errors)])
    return results  # type: ignore[return-value]


def _start(helpers: list[Future[None]], count: int, work: Callable[[], None]) -> None:
    """Ask the pool for helpers; where no thread can be had, as at the interpreter's end, the caller works alone."""
    for _ in range(count):
        try:
            helpers.append(_executor().submit(work))
        except RuntimeError:
            return


def _work(
    tasks: Sequence[Callable[[], Result]],
    numbers: Iterator[int],
    results: list[Result | None],
    errors: dict[int, BaseException],
) -> None:
    """Take the next task until none is left (advancing a range iterator is atomic under the GIL)."""
    for number in numbers:
        try:
            results[number] = tasks[number]()
        except BaseException as error:
            errors[number] = error
            _exhaust(numbers)


def _exhaust(numbers: Iterator[int]) -> None:
    """Take what is left, so that nothing more is begun."""
    deque(numbers, maxlen=0)


def _finish(helpers: Sequence[Future[None]]) -> None:
    """Wait for the helpers that have started; those that have not would find nothing to do."""
    started = [helper for helper in helpers if not helper.cancel()]
    interrupt: BaseException | None = None
    while True:
        try:
            wait(started)
            break
        except BaseException as error:
            interrupt = interrupt or error
    if interrupt:
        raise interrupt


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(available_threads() - 1, 1), thread_name_prefix="foveal")
        return _pool


def _forget_pool() -> None:
    """After a fork the child has no threads: start anew."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
