"""Other libraries than transformers: what resizes an image to bytes, and hf-processors-rs.

The asv suite tracks the same ratios over time, for fewer sizes.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from benchmarks.bench_peers import RESIZERS
from benchmarks.common import MODELS, parse, photo, touched

from .measure import Options, in_turns
from .peers import FAMILIES, RUST, differing, rust_peer
from .report import Line

RESIZES = (("4000x3000", "1024x768"), ("1920x1080", "1280x704"), ("640x480", "336x336"))
OTHERS = {
    "opencv area": {"note": "a coarser filter"},
    "opencv cubic": {"note": "skips pixels: no antialiasing", "must": None},
}
"""Whose values are others."""
RUST_REFERENCES = {"torchvision": False, "pillow<13": True}
"""Of Foveal, and whether hf-processors-rs follows the PIL class: it resizes in the order of Pillow before 13."""


def libraries(options: Options) -> list[Line]:
    """Time the libraries that users may know instead: a bicubic resize to bytes, and whole families in Rust."""
    return [*_resizers(options), *_rust(options)]


def _resizers(options: Options) -> list[Line]:
    return [line for source, goal in RESIZES for line in _resize(source, goal, options)]


def _resize(source: str, goal: str, options: Options) -> list[Line]:
    import foveal.run

    image, (height, width) = photo(*parse(source)), parse(goal)
    theirs = {name: call for name in RESIZERS if (call := _installed(RESIZERS[name], image, height, width))}
    common = {"filter": "bicubic", "out": touched((3, height, width), np.uint8), "threads": 1}
    ours = {
        reference: partial(foveal.run.resize, image, (height, width), reference=reference, **common)
        for reference in ("pillow", "torchvision")
    }
    wrong = {"pillow": differing(ours["pillow"](), np.asarray(theirs["pillow"]()).transpose(2, 0, 1))}
    if "torchvision" in theirs:
        wrong["torchvision"] = differing(ours["torchvision"](), theirs["torchvision"]())
    times = in_turns(theirs | {("Foveal", reference): call for reference, call in ours.items()}, options)
    lines = []
    for name in RESIZERS:
        mine = times["Foveal", "torchvision" if name == "torchvision" else "pillow"]
        line = Line("resize beside libraries", f"{source} to {goal}", mine, name, times.get(name), 1.0, wrong.get(name))
        lines.append(replace(line, **OTHERS.get(name, {})))
    return lines


def _installed(make, *arguments):
    try:
        return make(*arguments)
    except ImportError:
        return None


def _rust(options: Options) -> list[Line]:
    names = [name for name in options.families or MODELS if name in FAMILIES and FAMILIES[name].peer in RUST]
    cells = [(name, reference, size) for name in names for reference in RUST_REFERENCES for size in options.sizes]
    return [_model(*cell, options) for cell in cells]


def _model(name: str, reference: str, size: str, options: Options) -> Line:
    import foveal

    image, preprocess = photo(*parse(size)), foveal.Preprocessor.from_spec(name, reference=reference)
    first = preprocess(image, threads=1)["pixel_values"]
    calls = {"ours": partial(preprocess, image, out=touched(first.shape, first.dtype), threads=1)}
    wrong = None
    if theirs := rust_peer(FAMILIES[name], RUST_REFERENCES[reference]):
        calls["theirs"], wrong = partial(theirs, image), differing(first, theirs(image))
    times = in_turns(calls, options)
    what = f"{name} {size}, {reference}"
    return Line("hf-processors-rs", what, times["ours"], "hf-processors-rs", times.get("theirs"), 1.0, wrong)
