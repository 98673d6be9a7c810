"""Turn images into exactly what a vision-language model's encoder expects."""

import typing as _typing

from foveal.errors import (
    FovealError,
    ImageSizeError,
    MediaError,
    OptionError,
    OutputError,
    PlaceholderError,
    SpecError,
    TargetError,
    UnknownModelError,
)
from foveal.plan.plan import BatchPlan, Plan
from foveal.preprocessor import Features, Preprocessor
from foveal.run.buffers import aligned_empty

__version__ = "0.1.0"

__all__ = [
    "BatchPlan",
    "Features",
    "FovealError",
    "ImageSizeError",
    "MediaError",
    "OptionError",
    "OutputError",
    "PlaceholderError",
    "Plan",
    "Preprocessor",
    "SpecError",
    "TargetError",
    "UnknownModelError",
    "__version__",
    "aligned_empty",
    "verify",
]


def __getattr__(name: str) -> _typing.Any:
    """Import what few callers need when it is asked for."""
    if name == "verify":
        from foveal.verification import verify

        return verify
    raise AttributeError(f"module 'foveal' has no attribute {name!r}")
