"""A program that `test_processes.py` starts: calls from threads and forked children, each in a process of its own.

It prints one line when everything was as it had to be, and ends by a signal where something hangs.
"""

import multiprocessing
import os
import signal
import sys
import threading
from functools import partial

import numpy as np

import foveal

SECONDS = 120
IMAGE = np.random.default_rng(0).integers(0, 256, (600, 800, 3), dtype=np.uint8)
PRE = foveal.Preprocessor.from_spec("qwen2_vl")


def digest(threads=4):
    return PRE([IMAGE, IMAGE[:300]], dtype="uint8", threads=threads)["pixel_values"].tobytes()


def in_child(work):
    """Fork, do the work in the child, and return whether it did and the child ended well."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Busy:
    """Threads that call without end."""

    def __init__(self, count=3):
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(count)]

    def _call(self):
        while not self._stop.is_set():
            digest()

    def __enter__(self):
        for thread in self._threads:
            thread.start()

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def same(want):
    return digest() == want


def fork_while_the_pool_is_busy():
    want = digest(1)
    with Busy():
        return all(in_child(partial(same, want)) for _ in range(6))


def fork_in_a_thread_while_the_pool_is_busy():
    want, answers = digest(1), []
    with Busy():
        for _ in range(4):
            thread = threading.Thread(target=lambda: answers.append(in_child(partial(same, want))))
            thread.start()
            thread.join()
    return answers == [True] * 4


def fork_in_a_task():
    """The child of a thread of the pool has a pool of its own."""
    from foveal.run.schedule import run_all

    want = digest(1)
    return all(run_all([lambda: in_child(lambda: same(want) and used_threads() > 1)] * 4, 3))


def used_threads():
    from foveal.run.schedule import run_all

    return len(set(run_all([lambda: (threading.Event().wait(0.01), threading.get_ident())[1]] * 8, 4)))


def fork_while_another_thread_compiles():
    """The cache is empty."""
    image = IMAGE[:56, :56]
    pre = foveal.Preprocessor.from_spec("qwen2_vl", min_pixels=56 * 56)
    import foveal_kernels.view as view

    begun = threading.Event()
    compile_place = view.place.compile

    def compile_and_say(signature):
        begun.set()
        return compile_place(signature)

    view.place.compile = compile_and_say
    thread = threading.Thread(target=lambda: pre(image, dtype="uint8"))
    thread.start()
    begun.wait(SECONDS)
    answer = in_child(lambda: pre(image, dtype="uint8")["pixel_values"].any())
    thread.join()
    return answer


def sixteen_threads_at_once():
    want, answers = digest(1), []
    threads = [threading.Thread(target=lambda: answers.extend(same(want) for _ in range(6))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers == [True] * (16 * 6)


def work_of_a_process(number):
    return hash(digest(1 + number % 4)) == hash(digest(1))


def processes(method):
    digest()
    with multiprocessing.get_context(method).Pool(3) as pool:
        return pool.map(work_of_a_process, range(9)) == [True] * 9


PARTS = [
    fork_while_the_pool_is_busy,
    fork_in_a_thread_while_the_pool_is_busy,
    fork_in_a_task,
    fork_while_another_thread_compiles,
    sixteen_threads_at_once,
]
BY_NAME = {part.__name__: part for part in PARTS}
BY_NAME |= {f"{method}_processes": partial(processes, method) for method in ("fork", "spawn", "forkserver")}

if __name__ == "__main__":
    signal.alarm(2 * SECONDS)
    print("as it had to be" if BY_NAME[sys.argv[1]]() else "not so")
