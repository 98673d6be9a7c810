"""Decoded pixels as addresses: how every source, of any memory layout, is handed to the kernels."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.types import Color

__all__ = ["ON_WHITE", "Backdrop", "Pixels"]


class Backdrop(NamedTuple):
    """What transparent pixels are composited on, when, and how.

    Attributes
    ----------
    light, dark : tuple of int
        Colours of the fields of a chessboard, the one in the top left corner light; equal where there is one colour.
    square : int
        Side of a field in pixels.
    after_resize : bool
        Whether colours and alpha are resized first.
    rounds_down : bool
        Whether the fraction of a composited value is cut off.
    """

    light: Color
    dark: Color
    square: int = 1
    after_resize: bool = False
    rounds_down: bool = False


ON_WHITE = Backdrop((255, 255, 255), (255, 255, 255))


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """An 8-bit image in somebody's memory. Nothing is copied; the owner travels with the addresses.

    Attributes
    ----------
    height, width : int
    rows : uint64[height]
        Address of the pixel (y, 0) of every row; rows may lie in any order.
    step : int
        Bytes from a pixel to its right neighbour; negative for a mirrored image.
    channels : tuple of int
        Offsets in bytes of red, green and blue from a pixel's address; all 0 for grey.
    alpha : int or None
        Offset of the alpha byte; None where every pixel is opaque.
    backdrop : Backdrop
    owner : object
        Keeps the memory alive.
    """

    height: int
    width: int
    rows: npt.NDArray[np.uint64]
    step: int
    channels: tuple[int, int, int]
    alpha: int | None
    backdrop: Backdrop
    owner: object
