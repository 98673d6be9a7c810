"""How kernels are compiled and where the machine code is kept: the one place that names Numba's options.

Two decorators. ``helper`` marks what is only called from other kernels; it becomes part of its caller's machine code.
``kernel`` marks what Python calls; its machine code is kept on disk.

Numba's own on-disk cache has two faults that matter here: a cached caller survives a change of a callee in another
file, and two processes that fill a cold cache at the same time can store one signature's code under another's name.
Both go away when the directory is named after the sources of all kernels and each file after its whole key.
"""

import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import llvmlite
import numba
from numba import njit, typeof
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from platformdirs import user_cache_path

__all__ = [
    "assembly",
    "cache_directories",
    "callback",
    "compiled",
    "helper",
    "inlined",
    "kernel",
    "parallel_kernel",
    "write_file",
]

if config.DISABLE_JIT:
    raise RuntimeError("NUMBA_DISABLE_JIT is set, but Foveal's kernels work on addresses and run only when compiled")

OPTIONS = {"nogil": True, "error_model": "numpy"}
_SETTINGS = ("OPT", "DEBUGINFO_DEFAULT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX")
_COMPILER = (numba.__version__, llvmlite.__version__, sys.version, [str(getattr(config, s, "")) for s in _SETTINGS])
_compiled: list[str] = []


@lru_cache(maxsize=1)
def cache_directories():
    """Return the directories of this version's machine code, in the order in which they are tried.

    ``FOVEAL_CACHE_DIR``, or the user's cache directory, below it a name that follows from the compiler and the sources
    of all kernels. Where that cannot be written, as in an image that was warmed up by another user, it is still read,
    and what it lacks goes to a directory of the user's own below the system's temporary directory. Where there is
    neither, the one directory that is returned holds nothing.
    """
    digest = hashlib.sha256(repr(_COMPILER).encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    wanted = _wanted_root() / name
    if _is_writable(wanted):
        return (wanted,)
    try:
        own = Path(tempfile.gettempdir()) / f"foveal-{os.getuid()}"
    except OSError:  # nothing can be written anywhere
        return (wanted,)
    return (wanted, own / name) if _is_private(own) and _is_writable(own / name) else (wanted,)


def _wanted_root():
    """Return what was asked for; a file, below which nothing can lie, where a user without a home asked for nothing."""
    given = os.environ.get("FOVEAL_CACHE_DIR")
    if given:
        return Path(os.path.expanduser(given)).absolute()
    try:
        usual = user_cache_path("foveal", appauthor=False)
    except RuntimeError:
        return Path(os.devnull)
    return usual if usual.is_absolute() else Path(os.devnull)


def _is_writable(directory):
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _is_private(directory):
    """Whether a directory is, or can be made, one that nobody else can put files into: they hold code."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        state = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022


def compiled():
    """Return the names of the kernels that this process compiled, rather than loaded."""
    return tuple(_compiled)


class _Locator(_CacheLocator):
    def __init__(self, py_func):
        self._line = py_func.__code__.co_firstlineno
        self._py_file = py_func.__code__.co_filename  # named by Numba's warnings

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(py_func)

    def get_cache_path(self):
        return str(cache_directories()[0])

    def ensure_cache_path(self):
        pass  # `cache_directories` did

    def get_source_stamp(self):
        return cache_directories()[0].name

    def get_disambiguator(self):
        return str(self._line)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Files:
    """One file for each key, replaced atomically: no index that two processes could overwrite.

    A digest comes first: damaged machine code would end the process, so it is compiled again.
    """

    def __init__(self, base):
        self._base = base

    def _name(self, key):
        return f"{self._base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def load(self, key):
        for directory in cache_directories():
            try:
                content = (directory / self._name(key)).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return pickle.loads(content[32:])
        return None

    def save(self, key, data):
        content = dumps(data)
        content = hashlib.sha256(content).digest() + content
        for directory in cache_directories():
            if write_file(directory / self._name(key), content):
                return


def write_file(path, content):
    """Write a file, readable for all whom the umask allows; return whether that was possible."""
    temporary = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):  # a read-only file system refuses this of a file that is not there, too
            temporary.unlink()
        return False
    return True


class _KernelCache(FunctionCache):
    _impl_class = _Implementation

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file = _Files(self._impl.filename_base)

    def save_overload(self, sig, data):
        _compiled.append(self._impl.filename_base)
        super().save_overload(sig, data)


if hasattr(os, "register_at_fork"):  # a child forked in the middle of another thread's compilation could never compile
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )

helper = njit(**OPTIONS)
inlined = njit(forceinline=True, **OPTIONS)
"""A helper that LLVM must not leave as a call, which would hand vectors over through memory."""


def kernel(py_func):
    """Compile a function that Python calls: without the GIL, kept on disk."""
    dispatcher = njit(**OPTIONS)(py_func)
    dispatcher._cache = _KernelCache(py_func)
    return dispatcher


def parallel_kernel(py_func):
    """Compile a kernel whose ``prange`` runs on Numba's threads; for nothing but calls of other kernels."""
    dispatcher = njit(parallel=True, **OPTIONS)(py_func)
    dispatcher._cache = _KernelCache(py_func)
    return dispatcher


def assembly(dispatcher, signature, **constants):
    """Return the machine code of a kernel as text: compiled anew, because what comes from disk has no text.

    Parameters
    ----------
    dispatcher : Dispatcher
        A kernel.
    signature : tuple of Numba types
        One of its ``signatures``.
    **constants
        Arguments of other compile-time constants, by name: ``dot=Dot(level=GENERIC, digits=2)``.
    """
    names = inspect.signature(dispatcher.py_func).parameters
    kinds = tuple(
        typeof(constants[name]) if name in constants else kind for name, kind in zip(names, signature, strict=True)
    )
    fresh = njit(**OPTIONS)(dispatcher.py_func)
    fresh.compile(kinds)
    return fresh.inspect_asm(fresh.signatures[0])


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
