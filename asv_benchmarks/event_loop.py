"""Print how late an event loop runs while requests are prepared beside it.

    python asv_benchmarks/event_loop.py [--seconds 10] [--concurrency 2] [--threads N] [--keep-allocator]

A timer asks the loop to be woken every millisecond and notes how much later that happens; meanwhile so many requests
at a time go through `Preprocessor.process_async` and, on a thread, `foveal.assemble`. The first lines are those of the
loop alone and of the loop beside threads that do plain Python. All take turns. The allocator is tuned, as in a server.
"""

import argparse
import asyncio
import io
import time

import numpy as np
from PIL import Image

import foveal

PERIOD = 0.001
SIZES = ((480, 640), (1080, 1920), (3000, 4000))
PAD = 151655


def jpeg(height: int, width: int) -> bytes:
    rng = np.random.default_rng(height)
    small = Image.fromarray(rng.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8))
    file = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=88)
    return file.getvalue()


async def late(seconds: float) -> list[float]:
    """Return the milliseconds by which each wake-up was late."""
    found, end = [], time.perf_counter() + seconds
    while (due := time.perf_counter() + PERIOD) < end:
        await asyncio.sleep(PERIOD)
        found.append(1e3 * (time.perf_counter() - due))
    return found


async def beside(work, concurrency: int, seconds: float) -> tuple[list[float], int]:
    """Return the lateness of the loop while work is done, and how often it was done."""
    done, going = 0, True

    async def repeat() -> None:
        nonlocal done
        while going:
            await work()
            done += 1

    workers = [asyncio.create_task(repeat()) for _ in range(concurrency)]
    found = await late(seconds)
    going = False
    await asyncio.gather(*workers)
    return found, done


def plain_python() -> int:
    return sum(i * i for i in range(200_000))


async def measure(arguments: argparse.Namespace) -> None:
    preprocess = foveal.Preprocessor.from_spec("qwen2_5_vl")
    files = [jpeg(*size) for size in SIZES]

    def request(image: object):
        async def work() -> None:
            ready = await preprocess.process_async([1, PAD, 2], [image])
            await asyncio.to_thread(foveal.assemble, ready, arguments.backend, threads=arguments.threads)

        return work

    async def nothing() -> None:
        await asyncio.sleep(0.1)

    works = {"the loop alone": nothing, "plain Python on a thread": lambda: asyncio.to_thread(plain_python)}
    works |= {f"requests, {width}x{height}": request(file) for (height, width), file in zip(SIZES, files, strict=True)}
    for work in works.values():
        await asyncio.wait_for(work(), 600)  # compiled, and buffers touched
    found: dict[str, list[float]] = {name: [] for name in works}
    count = dict.fromkeys(works, 0)
    for _ in range(arguments.rounds):
        for name, work in works.items():
            lateness, done = await beside(work, arguments.concurrency, arguments.seconds / arguments.rounds)
            found[name] += lateness
            count[name] += done
    print(f"{'':26} {'calls':>6} {'median':>8} {'p99':>8} {'most':>8}   ms late")
    for name, lateness in found.items():
        middle, high = np.percentile(lateness, [50, 99])
        print(f"{name:26} {count[name]:6} {middle:8.2f} {high:8.2f} {max(lateness):8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="for each line")
    parser.add_argument("--rounds", type=int, default=5, help="in which all lines take turns")
    parser.add_argument("--concurrency", type=int, default=2, help="requests at a time")
    parser.add_argument("--threads", type=int, default=None, help="of a request at most; all that are free by default")
    parser.add_argument("--backend", default="vllm")
    parser.add_argument("--keep-allocator", action="store_true", help="leave the allocator as it is")
    arguments = parser.parse_args()
    if not arguments.keep_allocator:
        foveal.tune_allocator()
    asyncio.run(measure(arguments))


if __name__ == "__main__":
    main()
