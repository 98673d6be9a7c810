"""Which instruction level this process uses.

``vnni``: AVX-512 with the byte dot product. ``avx2``: the 16-bit multiply-add. ``generic``: portable vector code, the
only level outside x86-64. All three give the same bits. ``FOVEAL_TARGET`` forces one, for tests and comparisons.
"""

import os
import platform
from functools import lru_cache

from llvmlite import binding
from numba.core import config

__all__ = ["AVX2", "GENERIC", "LEVELS", "VNNI", "has_f16c", "level", "supported"]

GENERIC, AVX2, VNNI = range(3)
LEVELS = {"generic": GENERIC, "avx2": AVX2, "vnni": VNNI}
NEEDED = {
    "generic": (),
    "avx2": ("avx2", "fma"),
    "vnni": ("avx512f", "avx512bw", "avx512vl", "avx512vnni", "fma"),
}


def _features():
    """Features that Numba compiles for: the host's, unless the user told Numba otherwise."""
    if config.CPU_FEATURES is not None:
        return {name[1:] for name in config.CPU_FEATURES.split(",") if name.startswith("+")}
    return {name for name, there in binding.get_host_cpu_features().items() if there}


@lru_cache(maxsize=1)
def supported():
    """Return the names of the levels that this CPU can run, best first."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ("generic",)
    features = _features()
    return tuple(name for name in reversed(LEVELS) if features.issuperset(NEEDED[name]))


@lru_cache(maxsize=1)
def level():
    """Return the name of the level of this process.

    Raises
    ------
    ValueError
        If ``FOVEAL_TARGET`` names no level, or one that the CPU cannot run.
    """
    forced = os.environ.get("FOVEAL_TARGET", "").strip().lower()
    if not forced:
        return supported()[0]
    if forced not in LEVELS:
        raise ValueError(f"FOVEAL_TARGET is {forced[:40]!r}: it must be one of {', '.join(LEVELS)}")
    if forced not in supported():
        raise ValueError(f"FOVEAL_TARGET is {forced!r}, which this CPU cannot run: it has {', '.join(supported())}")
    return forced


def has_f16c():
    """Whether the level of this process converts float32 to float16 in hardware: AVX-512 does, AVX2 nearly always."""
    return level() == "vnni" or (level() == "avx2" and "f16c" in _features())
