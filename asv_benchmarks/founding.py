"""Repeat the experiment that Foveal began with: preprocessing as it is first written, beside Foveal, step by step.

    python asv_benchmarks/founding.py [--images N] [--rounds N] [--buffers fresh reused] [--models NAME ...] [--write]

A seeded set of photographs with sizes like MMMU's, each from a decoded Pillow image to the bytes of float32
``pixel_values``, one thread on one CPU. Both sides resize with the same kernel. The plain loops of
``comparison/naive_forms.py`` follow it with a step for each of pad, tensor, tiles and serialization; Foveal writes the
bytes in the pass that resizes. Bytes are compared for every image. An image's figure is the fastest of its rounds, in
which the variants take turns. ``--write`` puts tables and picture into ``docs/founding.md``. The exit status is 1 if
any bytes differ.
"""

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from benchmarks.common import photo, touched
from comparison.naive_forms import AS_FIRST_WRITTEN, WITHOUT_CHECKS
from comparison.report import machine
from msgspec.structs import replace
from PIL import Image

import foveal
from foveal.media.decode import decode_pillow
from foveal.plan.plan import Pack
from foveal.run.execute import BYTES, run_view
from foveal.types import Size

MODELS = {"llama4": "Llama-4", "qwen3_vl": "Qwen3-VL"}
STAGES = ["resize", "pad", "tensor", "tiles", "serialize"]
ONE_PASS = "the rest, in the same pass"
COLORS = ["#9aa5b1", "#e4b363", "#d1495b", "#8d6a9f", "#30638e", "#2a9d8f"]
NAIVE, UNCHECKED, OURS = VARIANTS = ("as first written", "without checks", "Foveal")
LOOPS = {NAIVE: AS_FIRST_WRITTEN, UNCHECKED: WITHOUT_CHECKS}
LARGEST = 4000
DOCUMENT = Path(__file__).parent.parent / "docs" / "founding.md"
BLOCK = re.compile(r"(<!-- founding -->\n).*(<!-- end -->)", re.DOTALL)

Memory = Callable[[str, tuple[int, ...], type], np.ndarray]


def sizes(count: int) -> list[tuple[int, int]]:
    """Draw heights and widths: mostly 200 to 1,500 pixels a side, and a tail to 4,000."""
    random = np.random.default_rng(900)
    side = np.exp(random.normal(np.log(620), 0.42, count))
    tail = random.random(count) < 0.05
    side[tail] = np.exp(random.uniform(np.log(1500), np.log(LARGEST), tail.sum()))
    aspect = np.exp(random.normal(0.2, 0.35, count))
    pairs = np.stack([side / np.sqrt(aspect), side * np.sqrt(aspect)], 1)
    return [tuple(pair) for pair in np.clip(pairs, 64, LARGEST).astype(int).tolist()]


def images(count: int):
    """Yield decoded images: parts of one large photograph, for nothing here depends on what is seen."""
    whole, random = photo(LARGEST, LARGEST), np.random.default_rng(901)
    for height, width in sizes(count):
        top, left = random.integers(0, LARGEST - height + 1), random.integers(0, LARGEST - width + 1)
        yield whole.crop((left, top, left + width, top + height))


# ---- the variants


def fresh(name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return np.empty(shape, dtype)


class Reused:
    """One buffer for each name, as large as any that was asked for, its pages written before."""

    def __init__(self):
        self.kept = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if name not in self.kept or self.kept[name].size < size:
            self.kept[name] = touched((size,), np.uint8)
        return self.kept[name][:size].view(dtype).reshape(shape)


class Laps(dict):
    """Seconds of each stage."""

    def __init__(self):
        super().__init__(dict.fromkeys(STAGES, 0.0))
        self.last = perf_counter()

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self[stage] += now - self.last
        self.last = now


@dataclass(frozen=True)
class Naive:
    """Preprocessing in steps, following a plan of Foveal's."""

    preprocess: foveal.Preprocessor
    loops: object
    memory: Memory

    def __call__(self, image: Image.Image) -> tuple[Laps, np.ndarray]:
        plan = self.preprocess.plan(image.height, image.width)
        made = self.memory("tensor", plan.shape, np.float32)
        laps = Laps()
        pixels = decode_pillow(image, Size(image.height, image.width))
        for view in plan.views:
            self._view(view, plan.reference, pixels, made, laps)
        bits = made.reshape(-1).view(np.uint32)
        known = self.loops is not AS_FIRST_WRITTEN or isinstance(self.memory, Reused)
        payload = self.loops.serialize(bits, self.memory("payload", (made.nbytes if known else 0,), np.uint8))
        laps.lap("serialize")
        return laps, payload

    def _view(self, view, reference, pixels, made, laps):
        numbers = self.preprocess.normalization
        mean, std = (np.array(values, np.float32) * np.float32(255) for values in (numbers.mean, numbers.std))
        picture = self.memory("picture", (*view.resized, 3), np.uint8)
        alone = replace(view, canvas=view.resized, place=(0, 0), pack=Pack("pixels"), offset=0)
        run_view(alone, reference, BYTES, pixels, "uint8", picture.ctypes.data)
        laps.lap("resize")
        if view.canvas != view.resized:
            canvas = self.memory("canvas", (*view.canvas, 3), np.uint8)
            self.loops.pad(picture, np.array(view.fill, np.uint8), canvas)
            picture = canvas
            laps.lap("pad")
        planar = self.memory("planar", (3, *view.canvas), np.float32)
        self.loops.planar(picture, mean, std, planar)
        laps.lap("tensor")
        self._cut(view, planar, made.reshape(-1)[view.offset : view.offset + planar.size * view.pack.temporal])
        laps.lap("tiles")

    def _cut(self, view, planar, part):
        side, merge, frames = view.pack.block, view.pack.merge, view.pack.temporal
        if view.pack.kind == "tiles":
            self.loops.tiles(planar, side, part.reshape(-1, 3, side, side))
        else:
            self.loops.merge_patches(planar, side, merge, part.reshape(-1, 3, frames, side, side))


@dataclass(frozen=True)
class Fused:
    """Foveal: the tensor's memory is the payload."""

    preprocess: foveal.Preprocessor
    memory: Memory

    def __call__(self, image: Image.Image) -> tuple[dict[str, float], np.ndarray]:
        out = None
        if isinstance(self.memory, Reused):
            out = self.memory("tensor", self.preprocess.plan(image.height, image.width).shape, np.float32)
        start = perf_counter()
        made = self.preprocess(image, dtype="float32", out=out, threads=1)["pixel_values"]
        payload = made.reshape(-1).view(np.uint8)
        return {ONE_PASS: perf_counter() - start}, payload


def variants(name: str, buffers: str) -> dict[str, Callable]:
    """Return the three variants of a model; each has its own memory."""
    preprocess = foveal.Preprocessor.from_spec(name, reference="torchvision")
    # Llama-4's reference rounds to bfloat16 after each step; the gateway computed and sent float32.
    preprocess.normalization = replace(preprocess.normalization, compute="float32")
    memory = {variant: Reused() if buffers == "reused" else fresh for variant in VARIANTS}
    naive = {variant: Naive(preprocess, loops, memory[variant]) for variant, loops in LOOPS.items()}
    return naive | {OURS: Fused(preprocess, memory[OURS])}


# ---- measuring


def measure(calls: dict[str, Callable], pictures, rounds: int) -> tuple[dict[str, list[dict]], int]:
    """Return the stage times of every image's fastest round for each variant, and how many images' bytes differ."""
    best: dict[str, list[dict]] = {name: [] for name in calls}
    wrong = 0
    for number, image in enumerate(pictures):
        if number == 0:
            for call in calls.values():  # compiles
                call(image)
        payloads = {name: call(image)[1].copy() for name, call in calls.items()}
        wrong += any(not np.array_equal(payloads[OURS], other) for other in payloads.values())
        del payloads
        found: dict[str, list[dict]] = {name: [] for name in calls}
        gc.disable()
        for turn in range(rounds):
            order = list(calls)[turn % len(calls) :] + list(calls)[: turn % len(calls)]
            for name in order:
                found[name].append(calls[name](image)[0])
        gc.enable()
        for name, laps in found.items():
            best[name].append(min(laps, key=lambda stages: sum(stages.values())))
    # Foveal's pass resizes with the kernel that was timed alone for the other variants.
    for laps, alone in zip(best[OURS], best[UNCHECKED], strict=True):
        laps |= {"resize": alone["resize"], ONE_PASS: laps[ONE_PASS] - alone["resize"]}
    return best, wrong


def _totals(laps: list[dict]) -> np.ndarray:
    return 1e3 * np.array([sum(stages.values()) for stages in laps])


def _averages(laps: list[dict]) -> dict[str, float]:
    return {stage: 1e3 * float(np.mean([stages[stage] for stages in laps])) for stage in laps[0]}


def table(best: dict[str, list[dict]]) -> str:
    """Return milliseconds as Markdown: averages of the stages with their shares, then totals with what was saved."""
    averages = {variant: _averages(best[variant]) for variant in VARIANTS}
    totals = {variant: _totals(best[variant]) for variant in VARIANTS}

    def stage(name, variant):
        if averages[variant].get(name) is None:
            return ""
        return f"{averages[variant][name]:.2f} ({averages[variant][name] / totals[variant].mean():.0%})"

    def total(of, variant):
        value, before = of(totals[variant]), of(totals[NAIVE])
        return f"{value:.2f}" + ("" if variant == NAIVE else f" ({value / before - 1:+.0%})")

    stages = [name for name in [*STAGES, ONE_PASS] if any(averages[variant].get(name) for variant in VARIANTS)]
    rows = [[name, *(stage(name, variant) for variant in VARIANTS)] for name in stages]
    summaries = {"average": np.mean, "median": np.median, "P95": lambda values: np.percentile(values, 95)}
    rows += [[f"**total, {name}**", *(total(of, variant) for variant in VARIANTS)] for name, of in summaries.items()]
    lines = [["ms per image", *VARIANTS], ["---"] * (1 + len(VARIANTS)), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def draw(found: dict[str, dict[str, list[dict]]], file: Path) -> None:
    """Draw the averages of the stages as bars, one row of bars for each model."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "founding", "font.size": 9}
    from matplotlib import pyplot

    colors = dict(zip([*STAGES, ONE_PASS], COLORS, strict=True))
    figure, axes = pyplot.subplots(len(found), 1, figsize=(8, 0.6 + 1.5 * len(found)), squeeze=False)
    for axis, (model, best) in zip(axes[:, 0], found.items(), strict=True):
        ends = dict.fromkeys(VARIANTS, 0.0)
        averages = {variant: _averages(best[variant]) for variant in VARIANTS}
        for stage in (stage for stage in colors if any(averages[variant].get(stage) for variant in VARIANTS)):
            widths = [averages[variant].get(stage, 0.0) for variant in VARIANTS]
            axis.barh(VARIANTS, widths, left=list(ends.values()), color=colors[stage], label=stage)
            ends = {variant: end + width for (variant, end), width in zip(ends.items(), widths, strict=True)}
        for variant, end in ends.items():
            axis.text(end, variant, f" {end:.1f} ms", va="center")
        axis.set(title=MODELS[model], xlim=(0, 1.12 * max(ends.values())))
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("average of all images, ms")
    bars = {label: bar for axis in axes[:, 0] for bar, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    labels = [label for label in colors if label in bars]
    figure.legend([bars[label] for label in labels], labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


BUFFERS = {
    "fresh": "allocated in every call, as the gateway did",
    "reused": "one for each variant and step, kept from image to image, 64-byte aligned",
}


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=_count, default=900)
    parser.add_argument("--rounds", type=_count, default=3, help="of which an image's fastest counts")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME")
    parser.add_argument("--buffers", nargs="+", choices=BUFFERS, default=list(BUFFERS))
    parser.add_argument("--write", nargs="?", type=Path, const=DOCUMENT, metavar="DOCUMENT", help="docs/founding.md")
    arguments = parser.parse_args()

    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    about = {"command": f"python asv_benchmarks/founding.py {' '.join(sys.argv[1:])}".rstrip()} | machine(cpu)
    del about["buffers"]
    parts, wrong, drawn = ["\n".join(f"- {name}: {value}" for name, value in about.items())], 0, {}
    print(parts[0], flush=True)
    for buffers in arguments.buffers:
        for name in arguments.models:
            best, differing = measure(variants(name, buffers), images(arguments.images), arguments.rounds)
            drawn.setdefault(name, best)
            wrong += differing
            same = f"the bytes of {arguments.images - differing} of {arguments.images} images are the same"
            heading = f"### {MODELS[name]}, {buffers} buffers"
            parts.append(f"{heading}\n\nBuffers: {BUFFERS[buffers]}; {same} in all variants.\n\n{table(best)}")
            print(f"\n{parts[-1]}", flush=True)
    if arguments.write:
        picture = arguments.write.with_suffix(".svg")
        draw(drawn, picture)
        alternative = f"Average time of each step, {arguments.buffers[0]} buffers"
        parts.insert(1, f"![{alternative}]({picture.name})")
        text, document = "\n\n".join(parts), arguments.write.read_text()
        arguments.write.write_text(BLOCK.sub(lambda block: f"{block[1]}\n{text}\n\n{block[2]}", document))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
