"""What will be computed, as plain values: frozen, hashable, without arrays.

A plan follows from (height, width, resolved spec) alone, so it can be made from an image header. Kernels, token counts
and output buffers all read the same plan and therefore cannot disagree.
"""

import math
from typing import Literal

import msgspec

from foveal.spec.schema import Filter, Reference
from foveal.types import Box, Color, Size

__all__ = ["BatchPlan", "Normalization", "Pack", "Plan", "SideTensor", "View"]


class Pack(msgspec.Struct, frozen=True):
    """How a canvas is cut into the primary tensor.

    Attributes
    ----------
    kind : str
        ``planar``: (3, height, width). ``tiles``: (tiles, 3, block, block), tiles in raster order. ``patches``:
        (patches, 3 * block**2), raster order. ``merge_patches``: (patches, 3 * temporal * block**2), patches in
        merge x merge blocks, the still image repeated ``temporal`` times inside each patch.
    block : int
        Side of a tile or patch, in pixels; 0 for planar.
    merge, temporal : int
        Only for ``merge_patches``.
    """

    kind: Literal["planar", "tiles", "patches", "merge_patches"]
    block: int = 0
    merge: int = 1
    temporal: int = 1


class View(msgspec.Struct, frozen=True):
    """One picture that the encoder reads: resize the image, keep a window, put it on a canvas, cut it.

    Attributes
    ----------
    name : str
    resized : Size
        The whole image after the resize; equal to the source's size where nothing is resampled.
    filter : str
        Resampling filter.
    vertical_first : bool
        Whether the vertical pass runs before the horizontal one (Pillow 13 does for strongly flattened images).
    crop : Box
        Window of the resized image that is kept.
    canvas : Size
    place : tuple of int
        Top, left of the window on the canvas.
    fill : tuple of int
        Colour of the canvas outside the window, applied before normalization.
    pack : Pack
    offset : int
        First element of this view inside the image's part of the primary tensor.
    """

    name: str
    resized: Size
    filter: Filter
    vertical_first: bool
    crop: Box
    canvas: Size
    place: tuple[int, int]
    fill: Color
    pack: Pack
    offset: int


class Normalization(msgspec.Struct, frozen=True):
    """Arithmetic between a canvas byte and a value of the primary tensor.

    Attributes
    ----------
    rescale, normalize : bool
        Whether values are multiplied by ``factor``; whether ``mean`` is subtracted and ``std`` divided by.
    factor : float
    mean, std : tuple of float
        Per channel, for values in 0..1.
    compute : str
        ``float32``, or ``bfloat16`` where the reference rounds to bfloat16 after every step.
    """

    rescale: bool
    factor: float
    normalize: bool
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    compute: Literal["float32", "bfloat16"] = "float32"


class SideTensor(msgspec.Struct, frozen=True):
    """A small tensor beside the pixels; ``values`` are one image's rows."""

    name: str
    dtype: str
    values: tuple[tuple[int, ...], ...]


class Plan(msgspec.Struct, frozen=True):
    """Everything about one image that does not need its pixels.

    Attributes
    ----------
    spec, reference : str
    height, width : int
        Of the source image.
    views : tuple of View
        In the order in which the encoder reads them.
    shape : tuple of int
        Shape of this image's part of the primary tensor; images of a batch are concatenated on the first axis.
    dtype : str
        Default dtype of the primary tensor.
    features : int
        Number of image features: as many placeholder tokens stand in the prompt, beside separators, start and end.
    tensors : tuple of SideTensor
    """

    spec: str
    reference: Reference
    height: int
    width: int
    views: tuple[View, ...]
    shape: tuple[int, ...]
    dtype: str
    features: int
    tensors: tuple[SideTensor, ...]

    @property
    def elements(self) -> int:
        """Number of elements of this image's part of the primary tensor."""
        return math.prod(self.shape)


class BatchPlan(msgspec.Struct, frozen=True):
    """Plans of all images of a call, and the shape of their common primary tensor.

    Attributes
    ----------
    primary : str
        Name of the primary tensor, ``pixel_values``.
    plans : tuple of Plan
    shape : tuple of int
    dtype : str
        Default dtype of the primary tensor.
    """

    primary: str
    plans: tuple[Plan, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def features(self) -> int:
        """Number of image features of all images together."""
        return sum(plan.features for plan in self.plans)
