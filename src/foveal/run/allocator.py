"""glibc's allocator, for server processes: large buffers are used again, instead of mapped anew for every request.

By default a block of more than 32 MiB, and at first of more than 128 KiB, is a mapping of its own, which is given back
when it is freed. Each of its pages costs a fault when it is first touched, which takes longer than the kernel that
writes it: see `foveal.run.buffers`.
"""

import ctypes
import os

__all__ = ["tune_allocator"]

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""Source: glibc 2.36, malloc/malloc.h."""

SETTINGS = {
    M_MMAP_MAX: 0,  # not M_MMAP_THRESHOLD, which before glibc 2.35 cannot be above 32 MiB
    M_TRIM_THRESHOLD: 2**31 - 1,
    M_ARENA_MAX: 1,  # the others hold 64 MiB at most, so that threads would map what is larger in any case
}

PROBE = 64 << 20


def tune_allocator() -> bool:
    """Let this process keep the memory that it frees, and use it again for large buffers.

    Returns
    -------
    bool
        Whether a large buffer of this thread is now kept. It is not with other C libraries than glibc, where another
        allocator is preloaded, or in a thread that has a heap of its own, which is there before the call.

    Notes
    -----
    Call it when a server starts, before threads do. It holds for the whole process and cannot be undone; calling it
    again changes nothing. What it costs:

    - The process keeps what it used at its peak: free memory at the end of the heap goes back to the system when it is
      2 GiB together, and free memory before a block that is still used does not.
    - Threads share one heap, so that they wait for each other when they allocate at the same time. Blocks of up to
      1 KiB, which each thread keeps some of, and those of Python's own objects are not concerned.
    - A large block that grows is copied, where its pages were moved before.
    """
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names or not os.confstr("CS_GNU_LIBC_VERSION"):
        return False
    libc = ctypes.CDLL(None)
    return all(libc.mallopt(name, value) for name, value in SETTINGS.items()) and _is_kept(libc)


def _is_kept(libc: ctypes.CDLL) -> bool:
    """Return whether a large block lies in the heap that all threads share, which ends at the program break."""
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.malloc.argtypes, libc.free.argtypes, libc.sbrk.argtypes = [ctypes.c_size_t], [ctypes.c_void_p], [ctypes.c_long]
    block = libc.malloc(PROBE)
    try:
        return block is not None and block < libc.sbrk(0)
    finally:
        libc.free(block)
