"""Page faults of large buffers, each in a process of its own: what was set stays set."""

import mmap
import os
import shutil
import subprocess
import sys

import pytest

from foveal.run import allocator

PAGES = 2 * (100 << 20) // mmap.PAGESIZE
"""Of the two largest buffers of a turn."""

GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names and bool(os.confstr("CS_GNU_LIBC_VERSION"))
needs_glibc = pytest.mark.skipif(not GLIBC, reason="the C library is not glibc")

COUNT = """
import ctypes, resource, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from foveal.run.allocator import tune_allocator

ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: each page is a fault
new = ctypes.pythonapi.PyBytes_FromStringAndSize
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t]

def touch_bytes(size):
    held = new(None, size)
    ctypes.memset(id(held) + 64, 1, size - 64)

def touch_array(size):
    np.empty(size, np.uint8).fill(1)

def turn():
    for size in (100 << 20, 48 << 20):
        touch_bytes(size)
        touch_array(size)

def faults():
    turn()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    turn()
    turn()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", COUNT + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_glibc
def test_buffers_are_used_again():
    before, tuned, after, again = run("print(faults(), tune_allocator(), faults(), tune_allocator())")
    assert int(before) >= 2 * PAGES
    assert tuned == again == "True"
    assert int(after) < 100


@needs_glibc
def test_buffers_of_threads_are_used_again():
    """Above 64 MiB a thread's own heap has no room."""
    in_thread = "ThreadPoolExecutor(1).submit(faults).result()"
    assert int(*run(f"print({in_thread})")) >= 2 * PAGES
    tuned, after = run(f"print(tune_allocator(), {in_thread})")
    assert tuned == "True"
    assert int(after) < 100


@needs_glibc
def test_threads_at_a_time_do_not_lose_theirs():
    code = """
tuned, barrier = tune_allocator(), threading.Barrier(2)

def both():
    turn()
    barrier.wait()
    counted = faults()
    barrier.wait()
    return counted

with ThreadPoolExecutor(2) as pool:
    print(tuned, *[done.result() for done in [pool.submit(both), pool.submit(both)]])
"""
    tuned, *after = run(code)
    assert tuned == "True"
    assert len(after) == 2
    assert sum(map(int, after)) < 2 * PAGES  # of 8: the heap may grow once more, where large buffers meet


@needs_glibc
def test_a_thread_with_a_heap_of_its_own_is_told():
    code = """
pool = ThreadPoolExecutor(1)
pool.submit(touch_bytes, 100_000).result()
print(pool.submit(tune_allocator).result(), tune_allocator())
"""
    assert run(code) == ["False", "True"]


@needs_glibc
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_another_allocator_is_told(tmp_path):
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("""
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
void *malloc(size_t size) {
    size_t *block = mmap(0, size + 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 0;
    block[0] = size;
    return block + 2;
}
void free(void *block) { if (block) munmap((size_t *)block - 2, ((size_t *)block)[-2] + 16); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
    void *larger = malloc(size);
    if (block && larger) {
        size_t old = ((size_t *)block)[-2];
        memcpy(larger, block, old < size ? old : size);
        free(block);
    }
    return larger;
}
""")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    code = "import foveal.run.allocator as allocator; print(allocator.tune_allocator())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(library)}
    )
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.parametrize("name", ["confstr", "confstr_names"])
def test_another_c_library_is_left_alone(monkeypatch, name):
    def refuse(*arguments):
        raise AssertionError

    monkeypatch.setattr(allocator.ctypes, "CDLL", refuse)
    monkeypatch.setattr(allocator.os, name, {} if name == "confstr_names" else lambda name: None)
    assert allocator.tune_allocator() is False
