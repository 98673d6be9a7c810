"""Where a call's time goes, by stage. The one switch is the logger ``foveal.timings``: below DEBUG nothing is measured.

Stages have the names of vLLM's multimodal processor, so that both can be read side by side; inside of
``apply_hf_processor``, which is what a processor of transformers does, Foveal's own are told apart.
Source: vllm 0.33.0, multimodal/processing/context.py, TimingContext.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from time import perf_counter

import msgspec

__all__ = ["PARTS", "STAGES", "Stage", "Timings", "bound_stage", "collected", "stage", "timed"]

STAGES = (
    "fetch",
    "get_mm_hashes",
    "get_cache_missing_items",
    "apply_hf_processor",
    "merge_mm_kwargs",
    "apply_prompt_updates",
)
"""Seconds of the thread that called. vLLM has no ``fetch``: it loads media before its processor begins."""

PARTS = ("plan", "decode", "resize", "copy", "small_tensors")
"""Of ``apply_hf_processor``: headers and plans; decoding; resizing, normalizing and writing, which is one pass; copying
images that a cache has; all other tensors. Seconds of all threads together."""

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

Stage = Callable[[str], AbstractContextManager[None]]

_OFF = nullcontext()
_current: ContextVar["_Clock | None"] = ContextVar("foveal_timings", default=None)


class Timings(msgspec.Struct, frozen=True):
    """Where the time of one call went: the one argument of its log record, which nobody formats unless it is shown.

    Attributes
    ----------
    call : str
        ``preprocess``, ``process``, or ``assemble`` and the backend.
    images : int
    seconds : dict of float
        By stage and part; those that did not occur are left out.
    total : float
        Seconds from the call's beginning to its end; what no stage has is the call's own: messages, checks, waiting.
    """

    call: str
    images: int
    seconds: dict[str, float]
    total: float

    def stats(self) -> dict[str, float]:
        """Return the stages in vLLM's form: ``..._secs``, and ``preprocessor_total_secs``, which has no ``fetch``."""
        found = {name: self.seconds[name] for name in STAGES if name in self.seconds}
        total = sum(seconds for name, seconds in found.items() if name != "fetch")
        return {f"{name}_secs": seconds for name, seconds in found.items()} | {"preprocessor_total_secs": total}

    @property
    def rest(self) -> float:
        """Seconds of the call itself, outside of all stages."""
        return self.total - sum(seconds for name, seconds in self.seconds.items() if name in STAGES)

    def __str__(self) -> str:
        """Return one line, in milliseconds."""
        words = [self._words(name) for name in STAGES if name in self.seconds]
        line = f"{self.call}: {self.images} image{'s' * (self.images != 1)}, {_shown(self.total)} ms"
        return f"{line}: {', '.join([*words, f'rest {_shown(self.rest)}'])}"

    def _words(self, name: str) -> str:
        parts = [f"{part} {_shown(self.seconds[part])}" for part in PARTS if part in self.seconds]
        inside = f" ({', '.join(parts)})" if name == "apply_hf_processor" and parts else ""
        return f"{name} {_shown(self.seconds[name])}{inside}"


def _shown(seconds: float) -> str:
    return f"{1000 * seconds:.3f}"


class _Clock:
    """The seconds of one call, added up by all of its threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            elapsed = perf_counter() - start
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + elapsed


def timed(call: str, images: int) -> AbstractContextManager[None]:
    """Return what logs the stages of a call, and nothing where the logger is off or the call fails."""
    return _timed(call, images) if logger.isEnabledFor(logging.DEBUG) else _OFF


@contextmanager
def _timed(call: str, images: int) -> Iterator[None]:
    clock = _Clock()
    token, start = _current.set(clock), perf_counter()
    try:
        yield
    finally:
        _current.reset(token)
    logger.debug("%s", Timings(call, images, clock.seconds, perf_counter() - start))


def stage(name: str) -> AbstractContextManager[None]:
    """Return what measures a block as a stage or part of the call around it; nothing where none is measured."""
    clock = _current.get()
    return _OFF if clock is None else clock.stage(name)


def bound_stage() -> Stage:
    """Return `stage` for the call around this line, to be used on other threads."""
    clock = _current.get()
    return _not_measured if clock is None else clock.stage


def _not_measured(name: str) -> AbstractContextManager[None]:
    return _OFF


@contextmanager
def collected() -> Iterator[list[Timings]]:
    """Switch the logger on for a block, in all threads, and collect what it says.

    Yields
    ------
    list of Timings
        Grows with each call that ends.

    Examples
    --------
    >>> with foveal.timings.collected() as calls:
    ...     tensors = preprocess("photo.jpg")
    >>> print(calls[0])
    """
    found: list[Timings] = []
    handler = _Collector(found)
    _switch_on(handler)
    try:
        yield found
    finally:
        _switch_off(handler)


_lock = threading.Lock()
_level_before = logging.NOTSET


def _switch_on(handler: "_Collector") -> None:
    """Note the level that the logger had before all blocks that are open now, which may overlap in any order."""
    global _level_before
    with _lock:
        if not _is_collecting():
            _level_before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)


def _switch_off(handler: "_Collector") -> None:
    with _lock:
        logger.removeHandler(handler)
        if not _is_collecting():
            logger.setLevel(_level_before)


def _is_collecting() -> bool:
    return any(isinstance(handler, _Collector) for handler in logger.handlers)


def _renew_lock() -> None:
    """After a fork the threads that held locks are gone: start anew."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _Collector(logging.Handler):
    def __init__(self, found: list[Timings]) -> None:
        super().__init__()
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and isinstance(record.args[0], Timings):
            self._found.append(record.args[0])
