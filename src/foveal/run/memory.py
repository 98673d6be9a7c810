"""What this process keeps for later calls, given back at once."""

import ctypes
import os
from collections.abc import Callable
from typing import TypeVar

from foveal.run.buffers import release_scratch
from foveal.run.kept import release_tables

__all__ = ["or_release", "release_memory"]

Result = TypeVar("Result")


def release_memory() -> int:
    """Give back what is kept for later calls: tables of weights, scratch of all threads, and free memory of glibc.

    What is needed again is made again. Nothing that a caller holds is touched, and no `foveal.ImageCache`, which has a
    bound and a method ``clear`` of its own. It is called where memory for an output cannot be had; a server may call it
    when it is idle. It may be called at any time, from any thread.

    Returns
    -------
    int
        Bytes of tables and scratch that were dropped.
    """
    freed = release_tables() + release_scratch()
    if "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION"):
        ctypes.CDLL(None).malloc_trim(0)
    return freed


def or_release(allocate: Callable[[], Result]) -> Result:
    """Allocate; where memory cannot be had, give back what is kept and try once more.

    Raises
    ------
    MemoryError
    """
    try:
        return allocate()
    except MemoryError:
        release_memory()
        return allocate()
