"""Peak memory of a call, by family and size of image: what it needs beyond the image, its tensors, and one stage.

    python asv_benchmarks/peak_memory.py [--families NAME...] [--sizes 4000x3000...] [--dtype float32]

Two figures a line, in MB. *traced*: the most that Python's and NumPy's allocators had given, without the tensors.
*resident*: the most pages that the process had, without those that it had before and those of the tensors. Tables and
scratch are dropped before a call whose pages are counted, and count. Neither figure may be above 8 MB and the largest
stage: a family that resizes twice over holds one picture of bytes.
"""

import argparse
import gc
import math
import tracemalloc
from pathlib import Path

from benchmarks.common import parse, photo

import foveal
from foveal.spec import names

MOST = 8e6
SIZES = ["640x480", "1920x1080", "4000x3000"]


def resident(field):
    """Return VmRSS or VmHWM of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def traced(call):
    """Return the traced peak without what the call returns."""
    gc.collect()
    tracemalloc.start()
    tensors = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - sum(array.nbytes for array in tensors.values())


def touched(call):
    """Return the resident peak without what was there before and what the call returns."""
    gc.collect()
    foveal.release_memory()  # or free memory of glibc would be used first, and not be seen
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    tensors = call()
    return resident("VmHWM") - before - sum(array.nbytes for array in tensors.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=names())
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--dtype", default=None)
    arguments = parser.parse_args()
    images = {size: photo(*parse(size)) for size in arguments.sizes}
    print(f"{'family':16} {'size':>10} {'tensors':>9} {'stage':>7} {'traced':>8} {'resident':>9}   MB")
    for name in arguments.families:
        preprocess = foveal.Preprocessor.from_spec(name)
        for size, image in images.items():
            call = lambda: preprocess(image, arguments.dtype, threads=1)  # noqa: B023, E731
            tensors = call()
            total = sum(array.nbytes for array in tensors.values())
            stage = max((3 * math.prod(stage.canvas) for stage in tensors.plans[0].stages), default=0)
            del tensors
            found = traced(call), touched(call)
            mark = "" if max(found) <= MOST + stage else "  too much"
            shown = "".join(f" {number / 1e6:8.2f}" for number in found)
            print(f"{name:16} {size:>10} {total / 1e6:9.2f} {stage / 1e6:7.2f}{shown}{mark}", flush=True)


if __name__ == "__main__":
    main()
