"""Turn images into exactly what a vision-language model's encoder expects."""

import typing as _typing
from importlib import import_module as _import_module

from foveal.errors import (
    CorruptImage,
    FetchFailed,
    FovealError,
    HostNotAllowed,
    ImageSizeError,
    MediaError,
    MediaTooLarge,
    OptionError,
    OutputError,
    PlaceholderError,
    RequestError,
    SpecError,
    TargetError,
    UnknownModelError,
    UnsupportedFormat,
    WorkerError,
    WorkerTimeout,
)
from foveal.image_cache import ImageCache
from foveal.media.inspection import Inspection, inspect
from foveal.media.limits import Limits
from foveal.media.policy import DecodePolicy
from foveal.media.urls import FetchSettings
from foveal.plan.boxes import Edges
from foveal.plan.plan import BatchPlan, Plan
from foveal.preprocessor import Features, Preprocessor
from foveal.run.buffers import aligned_empty

__version__ = "0.1.0"

__all__ = [
    "BatchPlan",
    "CorruptImage",
    "DecodePolicy",
    "Edges",
    "Features",
    "FetchFailed",
    "FetchSettings",
    "FovealError",
    "HostNotAllowed",
    "ImageCache",
    "ImageSizeError",
    "Inspection",
    "Intermediate",
    "Limits",
    "MediaError",
    "MediaTooLarge",
    "OptionError",
    "OutputError",
    "PlaceholderError",
    "Plan",
    "Preprocessor",
    "Request",
    "RequestError",
    "ServerInfo",
    "SpecError",
    "TargetError",
    "UnknownModelError",
    "UnsupportedFormat",
    "WorkerError",
    "WorkerTimeout",
    "__version__",
    "aligned_empty",
    "assemble",
    "inspect",
    "release_memory",
    "tune_allocator",
    "verify",
]


_LATER = {
    "Intermediate": "foveal.intermediate",
    "Request": "foveal.backends",
    "ServerInfo": "foveal.backends",
    "assemble": "foveal.backends",
    "release_memory": "foveal.run.memory",
    "tune_allocator": "foveal.run.allocator",
    "verify": "foveal.verification",
}
_MODULES = ("backends", "chat", "grpc")


def __getattr__(name: str) -> _typing.Any:
    """Import what few callers need when it is asked for."""
    if name in _MODULES:
        return _import_module(f"foveal.{name}")
    module = _LATER.get(name)
    if module is not None:
        return getattr(_import_module(module), name)
    raise AttributeError(f"module 'foveal' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what is imported later, too, for who completes names."""
    return sorted({*globals(), *_LATER, *_MODULES})
