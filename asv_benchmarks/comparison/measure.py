"""Timing in turns, in this process, and of whole processes."""

import gc
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class Times:
    """Seconds."""

    minimum: float
    median: float
    rounds: int

    @classmethod
    def of(cls, samples: list[float]) -> "Times":
        return cls(min(samples), median(samples), len(samples))


@dataclass(frozen=True)
class Options:
    """What to measure.

    ``families`` is empty where each part has its own, ``budget`` is in seconds for each variant of a comparison,
    ``rounds`` the fewest rounds, ``cpus`` those that this process was started with.
    """

    families: list[str]
    sizes: list[str]
    budget: float
    rounds: int
    cpus: set[int] = field(default_factory=set)


def in_turns(variants: dict[str, Callable[[], object]], options: Options) -> dict[str, Times]:
    """Time all variants in turns, in a new random order each round, none twice in a row.

    Freeing a result is not part of its time.
    """
    samples: dict[str, list[float]] = {name: [] for name in variants}
    for call in variants.values():
        call()
    order, shuffle = list(variants), random.Random(0).shuffle
    gc.collect()
    gc.disable()
    deadline = perf_counter() + options.budget * len(variants)
    rounds = 0
    while rounds < options.rounds or (perf_counter() < deadline and rounds < 2000):
        last = order[-1]
        shuffle(order)
        while len(order) > 1 and order[0] == last:
            shuffle(order)
        for name in order:
            start = perf_counter()
            result = variants[name]()
            samples[name].append(perf_counter() - start)
            del result
        rounds += 1
    gc.enable()
    return {name: Times.of(times) for name, times in samples.items()}


def child(code: str, *arguments: str, **environment: str) -> str:
    """Run Python code in a process of its own, which may use and write bytecode, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | environment
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the CPU seconds of the child processes that a call starts and awaits."""

    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    call()
    return used() - before
