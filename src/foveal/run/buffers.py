"""Memory: aligned outputs, scratch that each thread keeps, and pictures between two resizes, which all calls share.

Fresh memory is the largest hidden cost on cloud guests (first-touched 4 KiB pages, about 1.4 ms per MB measured), so
scratch and pictures are reused and outputs can be passed in. There is no pool of outputs: with `foveal.tune_allocator`
glibc is one, new outputs take no longer than one that is passed in (1.00 to 1.03 times, where untuned ones of 48 MB
take twice as long), and it serves the bytes of requests, too, which no pool of arrays could hold.
"""

import math
import operator
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError

__all__ = ["aligned_empty", "borrowed", "give_back", "release_scratch", "scratch"]

ALIGNMENT = 64
KEPT_BYTES = 64 << 20
"""Of the scratch that all threads together keep; a thread needs 1 MB for a photograph of 12 megapixels."""
PICTURES_BYTES = 64 << 20
"""Of the pictures that no call has at the moment; one of Idefics3 has 4 to 6 MB."""


def aligned_empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an uninitialized C-contiguous array that starts at a multiple of 64 bytes.

    NumPy's own large arrays start at 16 mod 64, which costs 1.2 to 1.4 times in the stores of patches of 16 pixels.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype_like

    Returns
    -------
    ndarray

    Raises
    ------
    OptionError
        If a dimension is negative or no whole number, or the dtype is none.
    """
    try:
        sides = tuple(map(operator.index, shape)) if isinstance(shape, Iterable) else (operator.index(shape),)
        kind = np.dtype(dtype)
    except TypeError:
        raise OptionError("a shape has whole numbers, and a dtype is one of NumPy's or its name") from None
    if min(sides, default=0) < 0:
        raise OptionError(f"shape is {sides}: dimensions must not be negative")
    size = math.prod(sides) * kind.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(kind).reshape(sides)


class _Held:
    """Scratch of one thread."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    @property
    def size(self) -> int:
        return sum(array.nbytes for array in tuple(self.arrays.values()))


class _Local(threading.local):
    """Scratch of the thread that asks, which ends with it."""

    def __init__(self) -> None:
        self.held = _Held()
        with _lock:
            _all.add(self.held)


_all: "weakref.WeakSet[_Held]" = weakref.WeakSet()
_lock = threading.Lock()
_local = _Local()


def scratch(size: int, addresses: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Return this thread's scratch memory, at least ``size`` bytes and ``addresses`` row addresses."""
    arrays = _local.held.arrays
    return _kept(arrays, "memory", size, np.uint8), _kept(arrays, "addresses", addresses, np.uint64)


def _kept(arrays: dict[str, npt.NDArray[Any]], name: str, size: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Return an array of this thread, kept for the next call unless all threads then kept too much."""
    array = arrays.get(name)
    if array is None or array.size < size:
        array = np.empty(size, dtype)
        with _lock:
            if sum(held.size for held in _all) + array.nbytes <= KEPT_BYTES:
                arrays[name] = array
    return array


_free: list[npt.NDArray[np.uint8]] = []


def borrowed(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Return an array for a picture of bytes, to be given back when nothing reads it any more."""
    size = math.prod(shape)
    with _lock:
        fitting = min((i for i, array in enumerate(_free) if array.size >= size), key=_size_of_free, default=None)
        memory = None if fitting is None else _free.pop(fitting)
    if memory is None:
        memory = np.empty(size, np.uint8)
    return memory[:size].reshape(shape)


def _size_of_free(number: int) -> int:
    return _free[number].size


def give_back(picture: npt.NDArray[np.uint8]) -> None:
    """Keep the memory of a picture for others, unless what is kept became too much."""
    memory = picture.base
    with _lock:
        if isinstance(memory, np.ndarray) and sum(array.nbytes for array in _free) + memory.nbytes <= PICTURES_BYTES:
            _free.append(memory)


def release_scratch() -> int:
    """Drop the scratch of all threads and free pictures, and return how many bytes they had.

    A kernel that runs keeps its own.
    """
    with _lock:
        freed = sum(held.size for held in _all) + sum(array.nbytes for array in _free)
        for held in _all:
            held.arrays.clear()
        _free.clear()
    return freed


def _renew_lock() -> None:
    """After a fork the threads that held locks are gone: start anew."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
