"""Tables that are kept for later calls, within a number of bytes."""

import os
import threading
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, TypeVar, cast

import numpy as np

__all__ = ["array_bytes", "kept", "release_tables"]

TABLES_BYTES = 32 << 20
"""Of the tables that each of a few functions made: those of some 100 sizes of photographs."""

ENTRIES = 256

Function = TypeVar("Function", bound=Callable[..., Any])


class _Tables:
    """Results of a function, all dropped when they become too large together.

    To drop them one by one, in the order of their use, costs 1.6 µs more each time one is found.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._bytes = 0
        self.find = lru_cache(ENTRIES)(self._made)

    def _made(self, *arguments: Any, **options: Any) -> Any:
        value = self._function(*arguments, **options)
        size = array_bytes(value)
        with self._lock:
            if self._bytes + size > TABLES_BYTES:
                self._drop()
            self._bytes += size
        return value

    def release(self) -> int:
        """Drop all, and return how many bytes they had."""
        with self._lock:
            return self._drop()

    def _drop(self) -> int:
        self.find.cache_clear()
        freed, self._bytes = self._bytes, 0
        return freed

    def renew_lock(self) -> None:
        self._lock = threading.Lock()


_all: list[_Tables] = []


def kept(function: Function) -> Function:
    """Keep what a function returns, as `functools.lru_cache` does, but within a number of bytes."""
    tables = _Tables(function)
    _all.append(tables)
    return cast(Function, update_wrapper(tables.find, function))


def array_bytes(value: object) -> int:
    """Return the bytes of all arrays in a tuple of tuples, each counted once."""
    found: dict[int, int] = {}
    left = [value]
    while left:
        entry = left.pop()
        if isinstance(entry, np.ndarray):
            found[id(entry)] = entry.nbytes
        elif isinstance(entry, tuple):
            left.extend(entry)
    return sum(found.values())


def release_tables() -> int:
    """Drop all tables, and return how many bytes they had."""
    return sum(tables.release() for tables in _all)


def _renew_locks() -> None:
    """After a fork the threads that held locks are gone: start anew."""
    for tables in _all:
        tables.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
