"""What a resolved spec is: one struct a section, one struct an op; numbers only, frozen, hashable.

The structs are strict: a field that is unknown or missing is an error that names its path. Sizes are height before
width. Names of ops are those of the functions in ``foveal.plan`` that compute them.
"""

from typing import Annotated, Any, Literal

import msgspec

__all__ = [
    "Filter",
    "Reference",
    "Spec",
]

Filter = Literal["bilinear", "bicubic", "lanczos"]
Reference = Literal["torchvision", "pillow", "pillow<13"]
Dtype = Literal["float32", "bfloat16", "uint8", "int64"]
Count = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Side = Annotated[int, msgspec.Meta(ge=1, le=65536)]
Pixels = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[\w.-]{1,64}\Z")]
Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
Three = tuple[float, float, float]

SMALLEST, LARGEST = 1e-18, 1e18
"""Of the numbers that values are multiplied with or divided by: no product of two leaves the range of float32."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections."""


class Match(Strict, frozen=True):
    """Which checkpoints a spec is for; see ``foveal.spec.find.match``."""

    image_processor_type: tuple[str, ...]
    model_type: tuple[str, ...]
    id: tuple[str, ...]


class Fields(Strict, frozen=True):
    """How ``preprocessor_config.json`` and overrides are read, beyond the paths that ``from`` names.

    Attributes
    ----------
    folded : dict
        Field that sets one child of another: ``min_pixels: size.shortest_edge``.
    unset : dict
        What the reference's class assumes for a field that a checkpoint leaves out, where that is not the published
        value.
    fixed : dict
        Field, and the only value of it that the spec can honour. ``config.`` before a field means ``config.json``.
    ignored : tuple of str
        Fields of a checkpoint that the reference's class never uses.
    """

    folded: dict[str, str] = {}
    unset: dict[str, Any] = {}
    fixed: dict[str, bool | int | float | str] = {}
    ignored: tuple[str, ...] = ()


class BestFit(Strict, frozen=True, tag_field="choose", tag="best_fit"):
    """Canvas of whole tiles on which the image needs least rescaling; see ``foveal.plan.canvas.best_fit``."""

    tile: Side
    max_tiles: Count
    largest: bool


class Step(Strict, frozen=True, tag_field="op"):
    """Base of all ops."""


class SmartResize(Step, frozen=True, tag="smart_resize"):
    """Multiples of ``patch * merge`` whose area lies within a budget."""

    enabled: bool
    patch: Count
    merge: Count
    min_pixels: Pixels
    max_pixels: Pixels
    max_aspect: Side
    filter: Filter


class ResizeSize(Strict, frozen=True):
    """Either the length of the shorter edge, or height and width."""

    shortest_edge: Side | None = None
    height: Side | None = None
    width: Side | None = None

    def __post_init__(self) -> None:
        """Refuse any other set of keys."""
        given = [key for key in ("shortest_edge", "height", "width") if getattr(self, key) is not None]
        if given not in (["shortest_edge"], ["height", "width"]):
            raise ValueError(f"keys must be shortest_edge, or height and width, not {', '.join(given) or 'none'}")


class Resize(Step, frozen=True, tag="resize"):
    """To a fixed size, or by the shorter edge."""

    enabled: bool
    size: ResizeSize
    filter: Filter


class CropSize(Strict, frozen=True):
    """Height and width of a window."""

    height: Side
    width: Side


class CenterCrop(Step, frozen=True, tag="center_crop"):
    """Window in the middle; a smaller image is put in the middle of black pixels.

    ``odd_pad`` says on which side the odd pixel of an odd amount of padding goes: ``after`` or ``before`` the image.
    """

    enabled: bool
    size: CropSize
    odd_pad: Literal["after", "before"]


class ResizeToCanvas(Step, frozen=True, tag="resize_to_canvas"):
    """As large as fits on the canvas; beyond ``grow_limit`` an image grows only if ``grow`` says so."""

    grow_limit: Side
    grow: bool
    filter: Filter


class PadToCanvas(Step, frozen=True, tag="pad_to_canvas"):
    """Put the image on the canvas and fill the rest, before normalization."""

    anchor: Literal["top_left"]
    fill: tuple[Byte, Byte, Byte]


class View(Strict, frozen=True):
    """One picture that the encoder reads."""

    name: Name
    steps: tuple[SmartResize | Resize | CenterCrop | ResizeToCanvas | PadToCanvas, ...]
    canvas: BestFit | None = None
    when: Literal["always", "multi_tile"] = "always"

    def __post_init__(self) -> None:
        """Refuse ops that need a canvas in a view that has none."""
        if self.canvas is None and any(isinstance(step, ResizeToCanvas | PadToCanvas) for step in self.steps):
            raise ValueError(f"view '{self.name}' has steps that need a canvas, but no canvas")


class Normalize(Strict, frozen=True):
    """Arithmetic between a byte and a value; ``untouched`` is the dtype when neither half of it is on."""

    rescale: bool
    factor: float
    normalize: bool
    mean: Three
    std: Three
    compute: Literal["float32", "bfloat16"] = "float32"
    untouched: Literal["uint8", "float32"] = "uint8"

    def __post_init__(self) -> None:
        """Refuse numbers that give no finite float32, and what the reference itself cannot do."""
        if not SMALLEST <= abs(self.factor) <= LARGEST:
            raise ValueError(f"rescale_factor must be of a size from {SMALLEST} to {LARGEST}, not {self.factor}")
        if not all(abs(value) <= LARGEST for value in self.mean):
            raise ValueError(f"image_mean must be of a size up to {LARGEST}")
        if not all(SMALLEST <= abs(value) <= LARGEST for value in self.std):
            raise ValueError(f"image_std must be of a size from {SMALLEST} to {LARGEST}")
        if self.compute == "bfloat16" and self.normalize and not self.rescale:
            raise ValueError("do_normalize without do_rescale is not possible, the reference cannot normalize bytes")


class Planar(Strict, frozen=True, tag_field="as", tag="planar"):
    """One array of channel, row, column."""


class Tiles(Strict, frozen=True, tag_field="as", tag="tiles"):
    """Square tiles in raster order, each channel, row, column."""

    tile: Side


class MergePatches(Strict, frozen=True, tag_field="as", tag="merge_patches"):
    """Flat patches in blocks of ``merge * merge``, the image repeated ``temporal`` times in each."""

    patch: Count
    merge: Count
    temporal: Count


class Image(Strict, frozen=True):
    """From the decoded image to the primary tensor."""

    references: tuple[Literal["torchvision", "pillow"], ...]
    views: tuple[View, ...]
    normalize: Normalize
    pack: Planar | Tiles | MergePatches


class MergedPatches(Strict, frozen=True, tag_field="count", tag="merged_patches"):
    """One feature for each block of merged patches."""


class PerTile(Strict, frozen=True, tag_field="count", tag="per_tile"):
    """Patches of each tile (or planar view), divided by ``pool**2``."""

    patch: Count
    pool: Count


class Tokens(Strict, frozen=True):
    """What an image becomes in the prompt."""

    placeholder: str
    feature: str
    features: MergedPatches | PerTile


class Tensor(Strict, frozen=True):
    """One entry of the result; ``dtype`` of the primary tensor holds while it is rescaled and normalized."""

    name: Name
    value: Literal["primary", "grid_thw", "tile_grid"]
    dtype: Dtype


class Spec(Strict, frozen=True, cache_hash=True):
    """A model's preprocessing with every number filled in. Made by ``foveal.spec.resolve``."""

    schema: Literal[1]
    name: Name
    source: tuple[str, ...]
    match: Match
    reference: Reference
    image: Image
    tokens: Tokens
    tensors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        """Require one primary tensor and at least one view."""
        if sum(tensor.value == "primary" for tensor in self.tensors) != 1:
            raise ValueError("tensors must hold exactly one whose value is primary")
        if not self.image.views or self.image.views[0].when != "always":
            raise ValueError("the first view must exist and be there always")

    @property
    def primary(self) -> Tensor:
        """The tensor that holds the pixels."""
        return next(tensor for tensor in self.tensors if tensor.value == "primary")
