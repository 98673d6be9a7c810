"""How kernels are compiled and where the machine code is kept: the one place that names Numba's options.

Two decorators. ``helper`` marks what is only called from other kernels; it becomes part of its caller's machine code.
``kernel`` marks what Python calls; its machine code is kept on disk.

Numba's own on-disk cache has two faults that matter here: a cached caller survives a change of a callee in another
file, and two processes that fill a cold cache at the same time can store one signature's code under another's name.
Both go away when the directory is named after the sources of all kernels and each file after its whole key.
"""

import hashlib
import os
import pickle
import tempfile
from functools import lru_cache
from pathlib import Path

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from platformdirs import user_cache_path

__all__ = ["cache_directory", "callback", "compiled", "helper", "kernel"]

OPTIONS = {"nogil": True, "error_model": "numpy"}
_compiled: list[str] = []


@lru_cache(maxsize=1)
def cache_directory():
    """Return the directory that holds this version's machine code.

    ``FOVEAL_CACHE_DIR`` or the user's cache directory, then a name that follows from the sources of all kernels; a
    directory of the user's own below the system's temporary directory where neither can be written.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    wanted = Path(os.environ.get("FOVEAL_CACHE_DIR") or user_cache_path("foveal", appauthor=False))
    for root in (wanted, Path(tempfile.gettempdir()) / f"foveal-{os.getuid()}"):
        try:
            (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=root / name).close()
        except OSError:
            continue
        return root / name
    raise OSError("no directory for compiled kernels can be written; set FOVEAL_CACHE_DIR")


def compiled():
    """Return the names of the kernels that this process compiled, rather than loaded."""
    return tuple(_compiled)


class _Locator(_CacheLocator):
    def __init__(self, py_func):
        self._line = py_func.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(py_func)

    def get_cache_path(self):
        return str(cache_directory())

    def get_source_stamp(self):
        return cache_directory().name

    def get_disambiguator(self):
        return str(self._line)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Files:
    """One file for each key, replaced atomically: no index that two processes could overwrite."""

    def __init__(self, directory, base):
        self._directory, self._base = Path(directory), base

    def _path(self, key):
        return self._directory / f"{self._base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def load(self, key):
        try:
            return pickle.loads(self._path(key).read_bytes())
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return None  # not there, or damaged by whatever damages files: compiled again and replaced

    def save(self, key, data):
        handle, temporary = tempfile.mkstemp(dir=self._directory)
        with os.fdopen(handle, "wb") as file:
            file.write(dumps(data))
        os.replace(temporary, self._path(key))


class _KernelCache(FunctionCache):
    _impl_class = _Implementation

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file = _Files(self._impl.locator.get_cache_path(), self._impl.filename_base)

    def save_overload(self, sig, data):
        _compiled.append(self._impl.filename_base)
        super().save_overload(sig, data)


helper = njit(**OPTIONS)


def kernel(py_func):
    """Compile a function that Python calls: without the GIL, kept on disk."""
    dispatcher = njit(**OPTIONS)(py_func)
    dispatcher._cache = _KernelCache(py_func)
    return dispatcher


def callback(signature, py_func):
    """Compile a function that kernels call by its address, kept on disk.

    Returns
    -------
    CFunc
        Must be kept alive as long as its ``address`` is used.
    """
    function = CFunc(py_func, normalize_signature(signature), locals={}, options=dict(OPTIONS))
    function._cache = _KernelCache(py_func)
    function.compile()
    return function
