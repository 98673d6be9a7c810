"""Measures what `foveal.run.profile` holds, on the machine that it will hold for.

Alternatives take turns in one process, so that what else the machine does meets each of them alike; the shortest time
of each counts.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from time import perf_counter
from typing import TypeVar

import msgspec
import numpy as np

from foveal.media.arrays import array_pixels
from foveal.plan.plan import BatchPlan, Normalization
from foveal.run.buffers import aligned_empty
from foveal.run.execute import run_batch
from foveal.run.profile import DEFAULT, Profile, using
from foveal.run.resizing import resize_plan
from foveal.run.schedule import available_threads, counting_alone
from foveal.types import Size

__all__ = ["Timing", "interleaved", "is_busy", "sweep"]

Name = TypeVar("Name")

EVERYTHING = Profile(band_elements=1 << 10, image_elements=1 << 10)
"""Under which every band and every image that can have a thread of its own has one."""

PAYS, GAINS = 0.9, 0.95
"""Share of the time on one thread up to which a second one pays; share of a time from which the best gains nothing."""

SIDES = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
LARGE = 2048

HALF = Normalization(rescale=True, factor=1 / 255, normalize=True, mean=(0.5,) * 3, std=(0.5,) * 3)


class Timing(msgspec.Struct, frozen=True):
    """One work on several numbers of threads.

    Attributes
    ----------
    kind : {"one image", "two images", "large image"}
    elements : int
        Of the output, all images together.
    milliseconds : dict
        Shortest time by number of threads.
    """

    kind: str
    elements: int
    milliseconds: dict[int, float]

    @property
    def pays(self) -> bool:
        """Whether a second thread pays."""
        return self.milliseconds[2] <= PAYS * self.milliseconds[1]


def is_busy() -> bool:
    """Whether so much else runs on this machine that what a thread is worth cannot be seen."""
    return os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def sweep(rounds: int = 25, sides: Sequence[int] = SIDES, large: int = LARGE) -> Iterator[Timing | Profile]:
    """Measure, yielding each timing, and at last the profile that follows.

    Parameters
    ----------
    rounds : int
        How often each alternative has its turn.
    sides : sequence of int
        Of the square outputs, ascending, with which it is found from where on a second thread pays.
    large : int
        Side of the output with which it is found how many threads pay.

    Notes
    -----
    Where a second thread does not pay for the largest works, or there is one CPU, the default is kept.
    """
    most = available_threads()
    found: dict[str, int | None] = {}
    if most > 1:
        for kind, count, name in (("one image", 1, "band_elements"), ("two images", 2, "image_elements")):
            timings = [_timing(kind, side, count, (1, 2), rounds) for side in sides]
            yield from timings
            found[name] = _smallest_that_pays(timings, getattr(DEFAULT, name))
        timing = _timing("large image", large, 1, _counts(most), max(rounds // 3, 3))
        yield timing
        found["threads"] = _threads(timing, most)
    yield msgspec.structs.replace(DEFAULT, **found)


def _counts(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4 and so on, and the most."""
    return (*(1 << i for i in range((most - 1).bit_length())), most)


def _smallest_that_pays(timings: Sequence[Timing], default: int) -> int:
    """Return the elements for each of two threads from which on both pay, seen in two works at least."""
    paying = list(takewhile(lambda timing: timing.pays, reversed(timings)))
    return max(paying[-1].elements // 2, 1 << 10) if len(paying) > 1 else default


def _threads(timing: Timing, most: int) -> int | None:
    """Return the smallest number of threads that is as fast as any, None for all."""
    best = min(timing.milliseconds.values())
    count = min(count for count, time in timing.milliseconds.items() if GAINS * time <= best)
    return None if count == most else count


def _timing(kind: str, side: int, images: int, counts: Sequence[int], rounds: int) -> Timing:
    call, elements = _call(side, images)
    with using(EVERYTHING), counting_alone():
        times = interleaved({count: partial(call, count) for count in counts}, rounds)
    return Timing(kind, elements, {count: round(1e3 * min(seconds), 4) for count, seconds in times.items()})


def interleaved(variants: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, list[float]]:
    """Return the seconds of each variant in turn, after one turn that does not count."""
    seconds: dict[Name, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, run in variants.items():
            start = perf_counter()
            run()
            if turn:
                seconds[name].append(perf_counter() - start)
    return seconds


def _call(side: int, images: int) -> tuple[Callable[[int], object], int]:
    """Return a resize of arrays to planar float32, to be called with a number of threads, and its elements."""
    edge, area = side * 3 // 2, 3 * side * side
    source = np.random.default_rng(side).integers(0, 256, (edge, edge, 3), dtype=np.uint8)
    plan = resize_plan(Size(edge, edge), Size(side, side), "bicubic", "torchvision", "float32")
    shape, offsets = (images, 3, side, side), tuple(range(0, images * area, area))
    batch = BatchPlan("image", (plan,) * images, (1,) * images, shape, offsets, "float32")
    out, load = aligned_empty(shape, np.float32), [partial(array_pixels, source)] * images
    return lambda threads: run_batch(batch, HALF, load, "float32", out, threads), images * area
