"""Print Foveal's speed beside that of transformers, other libraries and memcpy, measured in turns in one process.

    python asv_benchmarks/ratios.py [--parts NAME ...] [--families NAME ...] [--sizes WxH ...] [--quick] [--json FILE]

One thread on one CPU, but for the part threads. Every buffer of Foveal's is 64-byte aligned, reused, and its variant's
own: a kernel that writes what the previous one wrote looks 10 to 20 % faster than it is. Whatever has a peer is
compared with it bit for bit before it is timed. Peers that are not installed are listed as such. The exit code is 1 if
anything differs from its peer or is slower than it must be.
"""

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import date
from functools import cache, partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from benchmarks import common
from benchmarks.bench_import import FIRST_CALL
from benchmarks.common import MODELS, SIZES, parse, touched
from comparison.files import files
from comparison.libraries import RESIZES, libraries
from comparison.measure import Options, Times, child, cpu_seconds, in_turns
from comparison.peers import CLASSES, classes_of, differing, peer_of_spec, with_classes
from comparison.report import Line, l2_bytes, machine, show, show_ratios
from comparison.threads import threads
from PIL import Image

RESIZE_MUST = {"vnni": 10.0, "avx2": 5.0, "generic": 2.5}
RESIZE_AIM = {"vnni": 14, "avx2": 8, "generic": 5}
MUST = {
    "qwen2_vl": (5, 3.2, 3, 7.5, 12),
    "qwen2_5_vl": (5, 3.2, 3, 7.5, 12),
    "qwen3_vl": (4.6, 3.9, 3.5, 7.3, 12),
    "llava1_5": (11, 12, 12, 15, 24),
    "llama4": (5, 4.7, 4.7, 5.2, 13),
}
"""Beside the torchvision class, at each of ``SIZES``."""
MUST_OF_OTHERS = (3, 3, 3, 3, 4)
MUST_PIL = {"qwen2_vl": 7.5, "qwen2_5_vl": 7.5, "qwen3_vl": 10, "llava1_5": 20}
MUST_PIL_OF_OTHERS = 5
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
photo = cache(common.photo)


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
    for name in options.families or MODELS:
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
    command += ["--families", *(options.families or MODELS), "--sizes", *options.sizes]
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
    """Time decoded image to the primary tensor, each family and size, against each class that transformers has."""
    cells = [(name, size) for name in with_classes(options.families or _names()) for size in options.sizes]
    lines = [line for name, size in cells for line in _cell(name, size, options)]
    return sorted(lines, key=lambda line: list(CLASSES).index(line.part))


def _cell(name: str, size: str, options: Options) -> list[Line]:
    image, kinds = photo(*parse(size)), classes_of(name)
    ours = {kind: _reused(name, image, CLASSES[kind]) for kind in kinds}
    theirs = {kind: partial(call, image) for kind in kinds if (call := peer_of_spec(name, kind))}
    wrong = {kind: differing(ours[kind](), call()) for kind, call in theirs.items()}
    times = in_turns(theirs | {("Foveal", kind): call for kind, call in ours.items()}, options)
    lines = []
    for kind in kinds:
        line = Line(kind, f"{name} {size}", times["Foveal", kind], kind, times.get(kind), _must(name, size, kind))
        lines.append(replace(line, differing=wrong.get(kind), note=_about(ours[kind]())))
    return lines


def _must(name: str, size: str, kind: str) -> float:
    if kind == "PIL class":
        return MUST_PIL.get(name, MUST_PIL_OF_OTHERS)
    return MUST.get(name, MUST_OF_OTHERS)[SIZES.index(size)]


def _reused(name: str, image: Image.Image, reference: str, dtype: str | None = None):
    """Return a call that writes its primary tensor into a buffer of its own."""
    import foveal

    preprocess = foveal.Preprocessor.from_spec(name, reference=reference)
    primary = preprocess.spec.primary.name
    first = preprocess(image, dtype=dtype, threads=1)[primary]
    out = touched(first.shape, first.dtype)
    return lambda: preprocess(image, dtype=dtype, out=out, threads=1)[primary]


def _about(tensor: np.ndarray) -> str:
    return f"{tensor.dtype}, {tensor.nbytes / MB:.1f} MiB out"


def dtypes(options: Options) -> list[Line]:
    """Time other dtypes and fresh buffers, each family and size, against the family's own dtype in a reused buffer."""
    cells = [(name, size) for name in with_classes(options.families or MODELS) for size in options.sizes]
    return [line for name, size in cells for line in _dtypes(name, size, options)]


def _dtypes(name: str, size: str, options: Options) -> list[Line]:
    import foveal

    image, reference = photo(*parse(size)), CLASSES[classes_of(name)[0]]
    reused = _reused(name, image, reference)
    fresh = partial(foveal.Preprocessor.from_spec(name, reference=reference), image, threads=1)
    tensor, own = reused(), str(reused().dtype)
    gains = {"fresh": 0.7 if tensor.nbytes <= 32 * MB else None}
    calls, wrong = {own: reused, "fresh": fresh}, {}
    if own == "float32":
        gains |= DTYPE_MUST if tensor.nbytes > l2_bytes() else dict.fromkeys(DTYPE_MUST, 0.95)
        calls |= {dtype: _reused(name, image, reference, dtype) for dtype in DTYPE_MUST}
        wrong = {dtype: differing(calls[dtype](), theirs) for dtype, theirs in _in_dtypes(name, image).items()}
    times, note = in_turns(calls, options), _about(tensor)
    lines = []
    for kind, must in gains.items():
        line = Line("dtypes and buffers", f"{name} {size}, {kind}", times[kind], f"{own}, reused", times[own], must)
        lines.append(replace(line, differing=wrong.get(kind), note=note))
    return lines


def _in_dtypes(name: str, image: Image.Image) -> dict[str, object]:
    """Return what the torchvision class makes of an image in each of the other dtypes."""
    normalized = peer_of_spec(name, "torchvision class")
    if normalized is None:
        return {}
    as_bytes = peer_of_spec(name, "torchvision class", do_rescale=False, do_normalize=False)
    return {"bfloat16": normalized(image).bfloat16(), "uint8": as_bytes(image)}


def emit(options: Options) -> list[Line]:
    """No resize: RGB bytes to planar float32, against a copy that reads and writes as many bytes in all."""
    import foveal

    unchanged = {"do_resize": False, "do_center_crop": False}
    preprocess = foveal.Preprocessor.from_spec("llava1_5", reference="torchvision", **unchanged)
    image = photo(960, 1280)
    array = np.asarray(image)
    out, out_of_image = (touched((1, 3, 960, 1280), np.float32) for _ in range(2))
    source, copy = (touched(((array.nbytes + out.nbytes) // 2,), np.uint8) for _ in range(2))
    theirs = peer_of_spec("llava1_5", "torchvision class", **unchanged)
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
    for name in options.families or MODELS:
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
    for name in options.families or MODELS:
        child(TIMED_FIRST_CALL, name)
        calls = [float(child(TIMED_FIRST_CALL, name)) for _ in repeats]
        lines.append(Line("start", f"{name}: import, spec, first call", Times.of(calls), must=1.0))
    return lines


def warmup(options: Options) -> list[Line]:
    """CPU seconds of ``foveal warmup`` with an empty cache, the whole process."""
    lines = []
    child(IMPORT)
    for argument, must in [(name, 12.0) for name in options.families or MODELS] + [("--all", 45.0)]:
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
    theirs = {f"{kind} + protobuf": kind for kind in ("PIL class", "torchvision class")}
    for against, kind in theirs.items():
        if call := usual_request("qwen2_5_vl", kind, "float32"):
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


USUAL_PARTS = (levels, families, libraries, dtypes, files, threads, emit, plan, start, warmup, requests)
PARTS = {part.__name__: part for part in (*USUAL_PARTS, resize_here, families_here)}


def _names() -> list[str]:
    from foveal.spec import names

    return names()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [part.__name__ for part in USUAL_PARTS]
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=usual, metavar="NAME", help=" ".join(usual))
    parser.add_argument("--families", nargs="+", choices=_names(), default=[], metavar="NAME", help="for every part")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES, metavar="WxH")
    parser.add_argument("--budget", type=float, default=0.6, help="seconds for each variant of a comparison")
    parser.add_argument("--rounds", type=int, default=5, help="fewest rounds of a comparison")
    parser.add_argument("--quick", action="store_true", help="the same as --budget 0.1 --rounds 2")
    parser.add_argument("--ignore-speed", action="store_true", help="exit with 1 only where values differ")
    parser.add_argument("--json", metavar="FILE", help="also write the lines there; - prints them instead of tables")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.budget, arguments.rounds = 0.1, 2
    cpus = os.sched_getaffinity(0)
    options = Options(arguments.families, arguments.sizes, arguments.budget, arguments.rounds, cpus)

    cpu = max(cpus)
    os.sched_setaffinity(0, {cpu})
    os.environ |= {"OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    command = f"python asv_benchmarks/ratios.py {shlex.join(sys.argv[1:])}".rstrip()
    about = {"command": command, "date": date.today().isoformat(), "CPUs": len(cpus)} | machine(cpu)
    tables, lines = arguments.json != "-", []
    if tables:
        for name, value in about.items():
            print(f"- {name}: {value}")
    for part in arguments.parts:
        found = PARTS[part](options)
        lines += found
        if tables:
            show(found)
            show_ratios([line for line in found if line.part in CLASSES])
            sys.stdout.flush()
    rows = ",\n".join(json.dumps(line.to_json()) for line in lines)
    written = f'{{"machine": {json.dumps(about, indent=1)},\n"lines": [\n{rows}\n]}}\n'
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
