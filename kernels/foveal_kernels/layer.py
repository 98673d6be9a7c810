"""Numba's threading layers: which can be had, and which one parallel kernels may run on.

``tbb`` and ``omp`` may be entered by several threads at once. Numba's own ``workqueue`` may not: it ends the process.
"""

import ctypes
import site
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import numba
from numba.core import config

__all__ = ["layers", "run", "start"]

POOLS = {"tbb": "numba.np.ufunc.tbbpool", "omp": "numba.np.ufunc.omppool"}
TBB = "libtbb.so.12"


@lru_cache(maxsize=1)
def layers():
    """Return the names of the layers that can be had and that several threads may enter, the preferred first."""
    _load_tbb()
    return tuple(name for name, module in POOLS.items() if _is_importable(module))


def _load_tbb():
    """Load a TBB that pip installed, which lies where no loader looks; Numba then finds it by its name."""
    for directory in (None, sys.prefix, site.getuserbase()):
        try:
            ctypes.CDLL(TBB if directory is None else str(Path(directory) / "lib" / TBB))
        except OSError:
            continue
        return


def _is_importable(module):
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def start():
    """Start Numba's threads, unless they run, and return the name of their layer.

    Raises
    ------
    ValueError
        If no layer that several threads may enter can be had, or another one runs.
    """
    found = layers()
    try:
        name = numba.threading_layer()
    except ValueError:
        if config.THREADING_LAYER == "default":
            config.THREADING_LAYER = "threadsafe"
        try:
            numba.get_num_threads()
            name = numba.threading_layer()
        except ValueError:
            raise ValueError(_wanted(f"has {', '.join(found) or 'neither'}")) from None
    if name not in POOLS:
        raise ValueError(_wanted(f"runs on {name}, which ends the process when two threads call at once"))
    return name


def _wanted(found):
    asked = config.THREADING_LAYER
    remedy = "set NUMBA_THREADING_LAYER=threadsafe" if asked in ("workqueue", "omp") else "pip install tbb"
    return f"it needs Numba's layer tbb or omp; Numba, asked for {asked!r}, {found} ({remedy})"


def run(kernel, threads, *arguments):
    """Run a parallel kernel on at most so many of Numba's threads."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, config.NUMBA_NUM_THREADS))
    try:
        kernel(*arguments)
    finally:
        numba.set_num_threads(before)
