"""What this process runs on, for ``foveal doctor`` and for reports."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from foveal.media.fast_jpeg import is_available
from foveal.media.limits import Limits
from foveal.media.urls import FetchSettings
from foveal.run import profile
from foveal.run.cpus import cpu_name, cpu_quota
from foveal.run.execute import instruction_level
from foveal.run.numba_threads import is_asked_for
from foveal.run.schedule import available_threads
from foveal_kernels import layer, target
from foveal_kernels.compile import cache_directories

__all__ = ["info"]

PACKAGES = (
    "foveal",
    "numpy",
    "numba",
    "llvmlite",
    "pillow",
    "simplejpeg",
    "pillow_heif",
    "httpx",
    "grpcio",
    "smg_grpc_proto",
    "tokenizers",
    "ml_dtypes",
    "torch",
    "torchvision",
    "transformers",
)


def info() -> dict[str, Any]:
    """Return versions, instruction level, threads, this machine's profile and the directory of compiled kernels.

    Returns
    -------
    dict
        ``level``; ``levels``, all that this CPU can run, best first; ``threads``; ``cpu_quota`` of
        the control groups, in CPUs; ``row_bands_on``, whose threads; ``numba_layers``, those that several threads may
        enter; ``profile``, with ``file`` None where it is the default; ``cache_directory``;
        ``cache_writable``, whether new kernels can be kept there; ``cache_fallback``, the directory that has them where
        they cannot, None for none; ``cached_kernels``, the number of files in the first of them;
        ``jpeg_decoder``; ``cpu``; ``settings``, those of `Limits` and `FetchSettings` that the environment changes;
        ``versions``, None for packages that are not installed.

    Raises
    ------
    TargetError
        If ``FOVEAL_TARGET`` names a level that does not exist or that this CPU cannot run.
    OptionError
        If a variable of the settings has no value that they can have.
    """
    directory, *others = cache_directories()
    tuned = profile.load()
    return {
        "level": instruction_level(),
        "levels": list(target.supported()),
        "threads": available_threads(),
        "cpu_quota": cpu_quota(),
        "row_bands_on": "Numba's threads" if is_asked_for() else "Foveal's threads",
        "numba_layers": list(layer.layers()),
        "profile": msgspec.to_builtins(profile.current()) | {"file": str(tuned[0]) if tuned else None},
        "cache_directory": str(directory),
        "cache_writable": os.access(directory, os.W_OK),
        "cache_fallback": str(others[0]) if others else None,
        "cached_kernels": sum(1 for _ in directory.glob("*.nbc")),
        "jpeg_decoder": "simplejpeg, as Pillow" if is_available() else "pillow",
        "cpu": cpu_name(),
        "settings": _changed(Limits.default(), Limits()) | _changed(FetchSettings.default(), FetchSettings()),
        "versions": {"python": platform.python_version()} | {package: _version(package) for package in PACKAGES},
    }


def _changed(found: Limits | FetchSettings, plain: Limits | FetchSettings) -> dict[str, Any]:
    names = found.__struct_fields__
    values = {name: (getattr(found, name), getattr(plain, name)) for name in names}
    return {f"{type(found).__name__}.{name}": value for name, (value, usual) in values.items() if value != usual}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
