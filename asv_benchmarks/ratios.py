"""Print Foveal's speed beside that of Pillow, transformers and memcpy, measured in turns in one process.

    python asv_benchmarks/ratios.py [--parts NAME ...] [--families NAME ...] [--sizes WxH ...] [--quick] [--json FILE]

One thread on one CPU. Every buffer of Foveal's is 64-byte aligned, reused, and its variant's own: a kernel that writes
what the previous one wrote looks 10 to 20 % faster than it is. Whatever has a peer is compared with it bit for bit
before it is timed. Peers that are not installed are listed as such. The exit code is 1 if anything differs from its
peer or is slower than it must be.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from benchmarks.bench_import import FIRST_CALL
from benchmarks.common import SIZES, parse, photo, touched
from comparison.measure import Options, Times, child, cpu_seconds, in_turns
from comparison.peers import FAMILIES, differing, peer, peer_of_spec
from comparison.report import Line, l2_bytes, machine, show
from PIL import Image

RESIZES = [("4000x3000", "1024x768"), ("1920x1080", "1280x704"), ("640x480", "336x336")]
RESIZE_MUST = {"vnni": 10.0, "avx2": 5.0, "generic": 2.5}
RESIZE_AIM = {"vnni": 14, "avx2": 8, "generic": 5}
EVERY_SIZES = ["1024x768", "1920x1080"]
REQUEST_DTYPES = ["float32", "bfloat16", "uint8"]
DTYPE_MUST = {"bfloat16": 1.2, "uint8": 1.3}
MB = 1 << 20
IMPORT = """
from time import perf_counter
start = perf_counter()
import foveal
print(perf_counter() - start)
import sys
assert not {"numba", "torch"} & set(sys.modules), "import foveal must not import numba or torch"
"""
TIMED_FIRST_CALL = f"from time import perf_counter\nstart = perf_counter()\n{FIRST_CALL}\nprint(perf_counter() - start)"
WARMUP = "from foveal.cli import main; main()"


def resize_here(options: Options) -> list[Line]:
    """Bicubic uint8 resize at this process's instruction level, against Pillow."""
    import foveal.run

    lines, level = [], foveal.run.info()["level"]
    for source, goal in RESIZES:
        image, (height, width) = photo(*parse(source)), parse(goal)
        out = touched((3, height, width), np.uint8)
        ours = partial(foveal.run.resize, image, (height, width), filter="bicubic", reference="pillow", threads=1)
        theirs = partial(image.resize, (width, height), Image.Resampling.BICUBIC)
        wrong = differing(ours(out=out), np.asarray(theirs()).transpose(2, 0, 1))
        times = in_turns({"ours": partial(ours, out=out), "fresh": ours, "theirs": theirs}, options)
        what = f"{source} to {goal}, {level}"
        line = Line("resize", what, times["ours"], "Pillow", times["theirs"], RESIZE_MUST[level], wrong)
        lines.append(replace(line, note=f"aim {RESIZE_AIM[level]}x"))
        lines.append(replace(line, what=f"{what}, fresh", ours=times["fresh"], must=None))
    return lines


def families_here(options: Options) -> list[Line]:
    """Foveal alone, each family and size, at this process's instruction level."""
    import foveal.run

    lines, level = [], foveal.run.info()["level"]
    for name in options.families:
        preprocess = foveal.Preprocessor.from_spec(name, reference="torchvision")
        for size in options.sizes:
            image = photo(*parse(size))
            first = preprocess(image, threads=1)["pixel_values"]
            call = partial(preprocess, image, out=touched(first.shape, first.dtype), threads=1)
            lines.append(Line("levels", f"{name} {size}, {level}", in_turns({"": call}, options)[""]))
    return lines


def _at_level(level: str, options: Options) -> list[Line]:
    command = [sys.executable, __file__, "--parts", "resize_here", "families_here", "--json", "-"]
    command += ["--budget", str(options.budget), "--rounds", str(options.rounds)]
    command += ["--families", *options.families, "--sizes", *options.sizes]
    environment = os.environ | {"FOVEAL_TARGET": level}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"ratios.py failed at level {level}: its message is above")
    return [Line.from_json(values) for values in json.loads(done.stdout)["lines"]]


def levels(options: Options) -> list[Line]:
    """Run resize and the families in a process for each level of this CPU; the best level is the families' peer."""
    import foveal.run

    there = foveal.run.info()["levels"]
    found = {level: _at_level(level, options) for level in there}
    lines = [line for level in there for line in found[level] if line.part == "resize"]
    timed = {level: [line for line in found[level] if line.part == "levels"] for level in there}
    for level in there[1:]:
        for line, best in zip(timed[level], timed[there[0]], strict=True):
            lines.append(replace(line, against=there[0], theirs=best.ours, must=0.5))
    return lines


def families(options: Options) -> list[Line]:
    """Time decoded image to ``pixel_values`` against both classes of transformers, other dtypes and fresh buffers."""
    lines = [line for name in options.families for size in options.sizes for line in _cell(name, size, options)]
    order = ("torchvision class", "PIL class", "dtypes and buffers")
    return sorted(lines, key=lambda line: order.index(line.part))


def _cell(name: str, size: str, options: Options) -> list[Line]:
    import foveal

    family, image = FAMILIES[name], photo(*parse(size))
    preprocess = foveal.Preprocessor.from_spec(name, reference="torchvision")
    first = preprocess(image, threads=1)["pixel_values"]
    dtype, note = str(first.dtype), f"{first.nbytes / MB:.1f} MiB out"
    calls = {"fresh": partial(preprocess, image, threads=1)}
    for other in {dtype: 1} | (DTYPE_MUST if dtype == "float32" else {}):
        out = touched(first.shape, foveal.types.DTYPES[other])
        calls[other] = partial(preprocess, image, dtype=other, out=out, threads=1)
    ours, wrong = {"torchvision class": dtype}, {}
    if family.must_pil:
        as_pillow = foveal.Preprocessor.from_spec(name, reference="pillow")
        calls["pillow"] = partial(as_pillow, image, out=touched(first.shape, first.dtype), threads=1)
        ours["PIL class"] = "pillow"
    for against, mine in ours.items():
        if theirs := peer(family, pil=against == "PIL class"):
            calls[against] = partial(theirs, image)
            wrong[against] = differing(calls[mine]()["pixel_values"], theirs(image))
    if "bfloat16" in calls and "torchvision class" in calls:
        wrong["bfloat16"] = differing(calls["bfloat16"]()["pixel_values"], calls["torchvision class"]().bfloat16())
    if "uint8" in calls and (theirs := peer(family, do_rescale=False, do_normalize=False)):
        wrong["uint8"] = differing(calls["uint8"]()["pixel_values"], theirs(image))

    times = in_turns(calls, options)
    must = {"torchvision class": family.must[size], "PIL class": family.must_pil}
    what = f"{name} {size}, {dtype}"
    lines = [
        Line(against, what, times[mine], against, times.get(against), must[against], wrong.get(against), note)
        for against, mine in ours.items()
    ]
    part, large = "dtypes and buffers", first.nbytes > l2_bytes()
    for other in DTYPE_MUST if dtype == "float32" else ():
        gain, mine = DTYPE_MUST[other] if large else 0.95, times[other]
        lines.append(Line(part, f"{name} {size}, {other}", mine, dtype, times[dtype], gain, wrong.get(other), note))
    gain = 0.7 if first.nbytes <= 32 * MB else None
    lines.append(Line(part, f"{what}, fresh", times["fresh"], "reused", times[dtype], gain, note=note))
    return lines


def every_family(options: Options) -> list[Line]:
    """Time a call of every spec that has a torchvision class in transformers, reused and fresh buffers."""
    import foveal
    from foveal.spec import names

    return [line for name in names() for size in EVERY_SIZES for line in _call_of(foveal, name, size, options)]


def _call_of(foveal, name: str, size: str, options: Options) -> list[Line]:
    theirs, image = peer_of_spec(name), photo(*parse(size))
    if theirs is None:
        return []
    preprocess = foveal.Preprocessor.from_spec(name, reference="torchvision")
    primary = preprocess.spec.primary.name
    first = preprocess(image, threads=1)[primary]
    reused = partial(preprocess, image, out=touched(first.shape, first.dtype), threads=1)
    wrong = differing(reused()[primary], theirs(image))
    calls = {"reused": reused, "fresh": partial(preprocess, image, threads=1), "theirs": partial(theirs, image)}
    times = in_turns(calls, options)
    what, note = f"{name} {size}, {first.dtype}", f"{first.nbytes / MB:.1f} MiB out"
    line = Line("every family", what, times["reused"], "torchvision class", times["theirs"], None, wrong, note)
    return [line, replace(line, what=f"{what}, fresh", ours=times["fresh"])]


def emit(options: Options) -> list[Line]:
    """No resize: RGB bytes to planar float32, against a copy that reads and writes as many bytes in all."""
    import foveal

    unchanged = {"do_resize": False, "do_center_crop": False}
    preprocess = foveal.Preprocessor.from_spec("llava1_5", reference="torchvision", **unchanged)
    image = photo(960, 1280)
    array = np.asarray(image)
    out, out_of_image = (touched((1, 3, 960, 1280), np.float32) for _ in range(2))
    source, copy = (touched(((array.nbytes + out.nbytes) // 2,), np.uint8) for _ in range(2))
    theirs = peer(FAMILIES["llava1_5"], **unchanged)
    made = preprocess(array, out=out, threads=1)["pixel_values"]
    calls = {
        "array": partial(preprocess, array, out=out, threads=1),
        "image": partial(preprocess, image, out=out_of_image, threads=1),
        "memcpy": partial(np.copyto, copy, source),
    }
    times = in_turns(calls, options)
    what, note = "1280x960 to planar float32, from", f"{source.nbytes} bytes copied"
    line = Line("emit", f"{what} an RGB array", times["array"], "memcpy", times["memcpy"], 1.0, note=note)
    from_image = replace(line, what=f"{what} a Pillow image", ours=times["image"], must=None)
    return [replace(line, differing=differing(made, theirs(image)) if theirs else None), from_image]


def plan(options: Options) -> list[Line]:
    """Planning one image: a size that was never asked for, and one that was."""
    import foveal

    def timed(call, repeats):
        start = perf_counter()
        for _ in range(repeats):
            call()
        return (perf_counter() - start) / repeats

    lines, sides = [], range(201, 2201)
    widths = random.Random(0).sample(sides, len(sides))
    for name in options.families:
        make = foveal.Preprocessor.from_spec(name).plan
        make(1080, 1920)
        new = [timed(partial(make, height, width), 1) for height, width in zip(sides, widths, strict=True)]
        known = [timed(partial(make, 1080, 1920), 200) for _ in range(50)]
        lines.append(Line("plan", f"{name}, new size", Times.of(new), must=100e-6))
        lines.append(Line("plan", f"{name}, known size", Times.of(known), must=5e-6))
    return lines


def start(options: Options) -> list[Line]:
    """Start processes with compiled kernels: import alone, and everything from import to the first result."""
    repeats = range(max(3, options.rounds))
    child(IMPORT)
    imports = [float(child(IMPORT)) for _ in repeats]
    lines = [Line("start", "import foveal", Times.of(imports), must=0.25, note="without numba")]
    for name in options.families:
        child(TIMED_FIRST_CALL, name)
        calls = [float(child(TIMED_FIRST_CALL, name)) for _ in repeats]
        lines.append(Line("start", f"{name}: import, spec, first call", Times.of(calls), must=1.0))
    return lines


def warmup(options: Options) -> list[Line]:
    """CPU seconds of ``foveal warmup`` with an empty cache, the whole process."""
    lines = []
    child(IMPORT)
    for argument, must in [(name, 12.0) for name in options.families] + [("--all", 45.0)]:
        with tempfile.TemporaryDirectory() as cache:
            used = cpu_seconds(partial(child, WARMUP, "warmup", argument, FOVEAL_CACHE_DIR=cache))
        lines.append(Line("warmup", f"foveal warmup {argument}", Times.of([used]), must=must, note="CPU, cold cache"))
    return lines


def requests(options: Options) -> list[Line]:
    """Time decoded 1080p image to serialized vLLM request; then, with the allocator tuned for good, once more."""
    from foveal import tune_allocator

    lines = _requests("default allocator", options)
    if tune_allocator():
        lines += _requests("tuned allocator", options)
    return [*lines, _trtllm(options)]


def _requests(allocator: str, options: Options) -> list[Line]:
    from comparison.requests import usual_request

    import foveal

    preprocess, image = foveal.Preprocessor.from_spec("qwen2_5_vl"), photo(1080, 1920)
    ids = [1, *[151655] * preprocess.plan(1080, 1920).features]

    def ours(dtype, normalize=False):
        info = foveal.ServerInfo(encoder_dtype=dtype, device_normalize=normalize)
        ready = preprocess.process([1, 151655], [image])
        return foveal.assemble(ready, "vllm", info, threads=1).serialized

    calls = {dtype: partial(ours, dtype) for dtype in ("float32", "bfloat16")} | {
        "uint8": partial(ours, "float32", True)
    }
    theirs = {"PIL class + protobuf": True, "torchvision class + protobuf": False}
    for against, pil in theirs.items():
        if call := usual_request(FAMILIES["qwen2_5_vl"], pil, "float32"):
            calls[against] = partial(call, image, ids)
    times = in_turns(calls, options)
    lines = []
    for against, must in zip(theirs, ({"float32": 8, "bfloat16": 15, "uint8": 15}, {"float32": 3}), strict=True):
        for dtype in REQUEST_DTYPES if against in times else ():
            what = f"qwen2_5_vl 1920x1080, {dtype}, {allocator}"
            lines.append(Line("requests", what, times[dtype], against, times[against], must.get(dtype)))
    return lines


def _trtllm(options: Options) -> Line:
    """CPU seconds of a request that holds a JPEG of 12 megapixels as it is."""
    import io

    import foveal

    file = io.BytesIO()
    photo(3000, 4000).save(file, "JPEG", quality=88)
    preprocess = foveal.Preprocessor.from_spec("qwen2_5_vl")

    def request():
        start = process_time()
        foveal.assemble(preprocess.process([1, 151655], [file.getvalue()]), "trtllm")
        return process_time() - start

    times = [request() for _ in range(max(20, options.rounds))]
    note = f"CPU, {len(file.getvalue()) / MB:.1f} MiB JPEG"
    return Line("requests", "trtllm, file to request", Times.of(times[1:]), must=3e-3, note=note)


ALL_PARTS = (levels, families, every_family, emit, plan, start, warmup, requests, resize_here, families_here)
PARTS = {part.__name__: part for part in ALL_PARTS}
USUAL_PARTS = ["levels", "families", "every_family", "emit", "plan", "start", "warmup", "requests"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=USUAL_PARTS)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES, metavar="WxH")
    parser.add_argument("--budget", type=float, default=0.6, help="seconds for each variant of a comparison")
    parser.add_argument("--rounds", type=int, default=5, help="fewest rounds of a comparison")
    parser.add_argument("--quick", action="store_true", help="the same as --budget 0.1 --rounds 2")
    parser.add_argument("--ignore-speed", action="store_true", help="exit with 1 only where values differ")
    parser.add_argument("--json", metavar="FILE", help="also write the lines there; - prints them instead of tables")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.budget, arguments.rounds = 0.1, 2
    options = Options(arguments.families, arguments.sizes, arguments.budget, arguments.rounds)

    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    os.environ |= {"OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    tables, about, lines = arguments.json != "-", machine(cpu), []
    if tables:
        for name, value in about.items():
            print(f"- {name}: {value}")
    for part in arguments.parts:
        found = PARTS[part](options)
        lines += found
        if tables:
            show(found)
            sys.stdout.flush()
    written = json.dumps({"machine": about, "lines": [line.to_json() for line in lines]}, indent=1)
    if arguments.json:
        sys.stdout.write(written) if arguments.json == "-" else Path(arguments.json).write_text(written)
    failed = [line for line in lines if line.passed is False]
    if tables:
        print(f"\n{len(lines)} lines, {len(failed)} failed")
        for line in failed:
            print(f"- {line.part}: {line.what}")
    return 1 if any(line.differing or not arguments.ignore_speed for line in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
