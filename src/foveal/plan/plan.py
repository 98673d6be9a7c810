"""What will be computed, as plain values: frozen, hashable, without arrays.

A plan follows from (height, width, resolved spec) alone, so it can be made from an image header. Kernels, token counts
and output buffers all read the same plan and therefore cannot disagree.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from foveal.plan import boxes
from foveal.types import Box, Color, Filter, Method, Reference, Size

__all__ = ["BatchPlan", "Normalization", "Pack", "Plan", "SideTensor", "View"]


class Pack(msgspec.Struct, frozen=True):
    """How a canvas is cut into the primary tensor, or laid out as a picture that other views read.

    Attributes
    ----------
    kind : str
        ``planar``: (3, height, width). ``tiles``: (tiles, 3, block, block), tiles in raster order. ``patches``:
        (patches, 3 * block**2), raster order, channels outermost; ``channels_last_patches``: the same with channels
        innermost. ``merge_patches``: (patches, 3 * temporal * block**2), patches in merge x merge blocks, the still
        image repeated ``temporal`` times inside each patch. ``pixels``: (height, width, 3), of stages.
    block : int
        Side of a tile or patch, in pixels; 0 for planar and pixels.
    merge, temporal : int
        Only for ``merge_patches``.
    allotted : Size or None
        Only for ``planar``: height and width of the array that the canvas is the top left part of, where images of a
        batch are padded to the largest.
    """

    kind: Literal["planar", "tiles", "patches", "channels_last_patches", "merge_patches", "pixels"]
    block: int = 0
    merge: int = 1
    temporal: int = 1
    allotted: Size | None = None


class View(msgspec.Struct, frozen=True):
    """One picture that the encoder reads: resize a window of an image, keep a part, put it on a canvas, cut it.

    Attributes
    ----------
    name : str
    reads : str
        ``image``, or the name of the plan's stage whose canvas is read instead.
    window : Box
        The part of what is read that is resized. Where it reaches over an edge, ``border`` fills it.
    border : tuple of int
        Colour around what is read.
    resized : Size
        The window after the resize; equal to the window's size where nothing is resampled.
    filter : str
        Resampling filter.
    method : str
        ``antialias``: the filter is widened where the window shrinks. ``linear``: two taps an axis in float32,
        rounded. ``fixed_taps``: a cubic of one or four taps an axis on normalized values; of whole canvases only.
    vertical_first : bool
        Whether the vertical pass runs before the horizontal one (Pillow 13 does for strongly flattened images).
    crop : Box
        Part of the resized window that is kept.
    canvas : Size
    place : tuple of int
        Top, left of that part on the canvas.
    fill : tuple of int
        Colour of the canvas outside of it, applied before normalization.
    pack : Pack
    offset : int
        First element of this view inside the image's part of the primary tensor.
    """

    name: str
    reads: str
    window: Box
    border: Color
    resized: Size
    filter: Filter
    method: Method
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
    """One image's part of a small tensor beside the pixels; `foveal.plan.tensors` computes its values.

    Attributes
    ----------
    name : str
    dtype : str
    shape : tuple of int
        Of this image's part, before images are padded and joined.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


class Plan(msgspec.Struct, frozen=True):
    """Everything about one image that does not need its pixels.

    Attributes
    ----------
    spec, reference : str
    height, width : int
        Of the source image.
    stages : tuple of View
        Pictures of bytes that are computed first, because views, or later stages, read them. Their pack is ``pixels``.
    views : tuple of View
        In the order in which the encoder reads them.
    grid : tuple of int
        Rows and columns of tiles (or of patches, where nothing is tiled) of the view that is cut.
    shape : tuple of int
        Shape of this image's part of the primary tensor.
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
    stages: tuple[View, ...]
    views: tuple[View, ...]
    grid: tuple[int, int]
    shape: tuple[int, ...]
    dtype: str
    features: int
    tensors: tuple[SideTensor, ...]

    @property
    def elements(self) -> int:
        """Number of elements of this image's part of the primary tensor."""
        return math.prod(self.shape)

    def to_original(self, view: str | int, box: Sequence[float], scale: float | None = None) -> boxes.Edges:
        """Return a box on a view's canvas in pixels of the original image.

        Parameters
        ----------
        view : str or int
            Name or index of the view on which the model found it.
        box : sequence of float
            (top, left, bottom, right) in pixels of the canvas, from its top left corner; a point is a box without
            extent. ``foveal.plan.boxes.Edges.from_xyxy`` takes (x1, y1, x2, y2).
        scale : float, optional
            Of coordinates that run from 0 to 1, 100 or 1000 over the whole canvas: that number.

        Returns
        -------
        Edges
            Named (top, left, bottom, right), which may reach over the edges of the image where the box covers padding.

        Raises
        ------
        OptionError
            If there is no such view, or the box is not one.
        """
        return boxes.to_original(self, view, box, scale)

    def from_original(self, box: Sequence[float], scale: float | None = None) -> tuple[boxes.Edges | None, ...]:
        """Return a box of the original image on the canvas of each view, in the order of the views.

        Parameters
        ----------
        box : sequence of float
            (top, left, bottom, right) in pixels of the original image.
        scale : float, optional
            As for `to_original`: what the canvas measures in the coordinates that are returned.

        Returns
        -------
        tuple of Edges or None
            Cut off at the edges of what the view shows; None where it shows nothing of the box.

        Raises
        ------
        OptionError
            If the box is not one.
        """
        return boxes.from_original(self, box, scale)


class BatchPlan(msgspec.Struct, frozen=True):
    """Plans of all images of a call, and the shape of their common primary tensor.

    Attributes
    ----------
    primary : str
        Name of the primary tensor, ``pixel_values``.
    plans : tuple of Plan
        Of all images, in order.
    samples : tuple of int
        Number of images of each sample: ``sum(samples) == len(plans)``.
    shape : tuple of int
        Of the primary tensor.
    offsets : tuple of int
        First element of each image's part of the primary tensor. What lies between the parts is zero.
    dtype : str
        Default dtype of the primary tensor.
    """

    primary: str
    plans: tuple[Plan, ...]
    samples: tuple[int, ...]
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    dtype: str

    @property
    def features(self) -> int:
        """Number of image features of all images together."""
        return sum(plan.features for plan in self.plans)
