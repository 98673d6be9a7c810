"""Several threads against one, and against what memory allows."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter, process_time

import numpy as np
from benchmarks.common import parse, photo, touched
from PIL import Image, ImageChops

from comparison.measure import Options, in_turns
from comparison.peers import differing
from comparison.report import Line

BATCH, LARGE = "1024x768", "4000x3000"
MUST = {2: 1.7}
MUST_OF_BATCH = {"llava1_5": MUST | {16: 12.0}, "llama4": MUST}


def threads(options: Options) -> list[Line]:
    """Time 16 images and one large one on 2, 16 and all CPUs against one; Qwen's against memcpy on as many threads."""
    most = len(options.cpus)
    counts = sorted({count for count in (2, 16, most) if 2 <= count <= most})
    with _unpinned(options.cpus):
        lines = [line for name in ("llava1_5", "llama4") for line in _batch(name, counts, options)]
        lines += [line for name in ("llava1_5", "llama4") for line in _large(name, counts, options)]
        return lines + _share_of_memory("qwen2_5_vl", counts, options)


@contextmanager
def _unpinned(cpus):
    """Give this process the CPUs that it was started with, and Foveal a thread for each."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    os.environ["FOVEAL_THREADS"] = str(len(cpus))
    try:
        yield
    finally:
        del os.environ["FOVEAL_THREADS"]
        os.sched_setaffinity(0, pinned)


def _batch(name, counts, options):
    images = _different(photo(*parse(BATCH)), 16)
    what, must = f"{name}, {len(images)} images of {BATCH}", MUST_OF_BATCH[name]
    return _scaling(what, _on_threads(name, images, [1, *counts]), must, options)


def _large(name, counts, options):
    calls = _on_threads(name, [photo(*parse(LARGE))], [1, *counts])
    return _scaling(f"{name}, one image of {LARGE}", calls, MUST, options)


def _scaling(what, calls, must, options):
    first = calls[1]().copy()
    wrong = {count: differing(call(), first) for count, call in calls.items()}
    times = in_turns(calls, options)
    if len(calls) == 1:
        return [Line("threads", f"{what}, 1 thread", times[1], note="only 1 CPU: not measured on 2 threads")]
    lines = []
    for count in list(calls)[1:]:
        line = Line("threads", f"{what}, {count} threads", times[count], "1 thread", times[1], must.get(count))
        lines.append(replace(line, differing=wrong[count], note=f"had {_cpus_of(calls[count]):.1f} CPUs"))
    return lines


def _cpus_of(call):
    """Return how many CPUs a call has in fact: fewer than threads where other processes compute."""
    wall, cpu = perf_counter(), process_time()
    for _ in range(10):
        call()
    return (process_time() - cpu) / (perf_counter() - wall)


def _share_of_memory(name, counts, options):
    """Compare with copying as many bytes as images and tensors have: the ratio is a share of memory's bandwidth."""
    images = _different(photo(*parse(BATCH)), 16)
    calls = _on_threads(name, images, [1, *counts])
    nbytes = calls[1]().nbytes + sum(3 * image.width * image.height for image in images)
    source, target = (touched((nbytes // 2,), np.uint8) for _ in range(2))
    words = {count: f"{count} thread{'s' * (count > 1)}" for count in calls}
    with ThreadPoolExecutor(max(calls)) as pool:
        copies = {f"memcpy, {words[count]}": partial(_copy, pool, source, target, count) for count in calls}
        times = in_turns(calls | copies, options)
    lines = []
    for count, against in zip(calls, copies, strict=True):
        rate = nbytes / times[against].minimum / 1e9
        note = f"the ratio is a share of the memory's bandwidth, {rate:.1f} GB/s read and written"
        what = f"{name}, {len(images)} images of {BATCH}, {words[count]}"
        lines.append(Line("threads", what, times[count], against, times[against], note=note))
    return lines


def _copy(pool, source, target, count):
    list(pool.map(np.copyto, np.array_split(target, count), np.array_split(source, count)))


def _on_threads(name: str, images: list[Image.Image], counts: list[int]) -> dict[int, Callable]:
    """Return a function for each number of threads, with a buffer of its own."""
    import foveal

    preprocess = foveal.Preprocessor.from_spec(name, reference="torchvision")
    first = preprocess(images, threads=1)["pixel_values"]

    def call(count, out):
        return preprocess(images, out=out, threads=count)["pixel_values"]

    return {count: partial(call, count, touched(first.shape, first.dtype)) for count in counts}


def _different(image: Image.Image, count: int) -> list[Image.Image]:
    """Return images that do not share memory, each the first one moved to the side."""
    return [ImageChops.offset(image, 16 * number, 0) for number in range(count)]
