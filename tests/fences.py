"""Memory between pages that cannot be touched: reading or writing a byte too much ends the process."""

import ctypes
import mmap

import numpy as np

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
POISON = 0xA5


def fenced(size, at_end):
    """Return ``size`` poisoned bytes that end before a page that cannot be touched, or begin behind one."""
    page = mmap.PAGESIZE
    inside = -(-size // page) * page
    memory = np.frombuffer(mmap.mmap(-1, inside + 2 * page), np.uint8)
    for fence in (memory.ctypes.data, memory.ctypes.data + page + inside):
        if LIBC.mprotect(fence, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = page + inside - size if at_end else page
    array = memory[start : start + size]
    array.fill(POISON)
    return array
