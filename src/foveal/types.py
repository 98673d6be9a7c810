"""Small values that every layer shares. Sizes are always height before width."""

from typing import Literal, NamedTuple

import ml_dtypes
import numpy as np

__all__ = ["DTYPES", "PRIMARY_DTYPES", "Box", "Color", "Filter", "Method", "Reference", "Size", "dtype_name"]

Filter = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Method = Literal["antialias", "linear", "fixed_taps"]
Reference = Literal["torchvision", "pillow", "pillow<13"]

Color = tuple[int, int, int]
"""Red, green, blue, each 0..255."""


class Size(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


class Box(NamedTuple):
    """A window: its top left corner and its size, in pixels."""

    top: int
    left: int
    height: int
    width: int


DTYPES: dict[str, np.dtype] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "uint8": np.dtype(np.uint8),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
}
"""The dtypes that tensors can have, by the name that specs and the command line use."""


PRIMARY_DTYPES = ("float32", "bfloat16", "float16", "uint8")
"""Those that the kernels write; uint8 means the bytes before normalization."""


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype: of a NumPy dtype, a scalar type, or a name, ``"torch.bfloat16"`` included."""
    text = str(dtype) if isinstance(dtype, str) else str(np.dtype(dtype))  # type: ignore[call-overload]
    return text.removeprefix("torch.")
