"""Turn images into exactly what a vision-language model's encoder expects."""

from foveal.errors import (
    FovealError,
    ImageSizeError,
    MediaError,
    OptionError,
    OutputError,
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
    "Plan",
    "Preprocessor",
    "SpecError",
    "TargetError",
    "UnknownModelError",
    "__version__",
    "aligned_empty",
]
