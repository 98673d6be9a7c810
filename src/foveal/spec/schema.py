"""What a resolved spec is: one struct a section, one struct an op; numbers only, frozen, hashable.

The structs are strict: a field that is unknown or missing is an error that names its path. Sizes are height before
width. Names of ops are those of the functions in ``foveal.plan`` that compute them.
"""

from itertools import dropwhile
from typing import Annotated, Any, Literal

import msgspec

from foveal.spec import steps
from foveal.spec.steps import Count, Dtype, Name, Patches, Side, Strict
from foveal.spec.tokens import Tokens
from foveal.spec.wire import EngineWire, Wire
from foveal.types import Reference

__all__ = ["Spec"]

Three = tuple[float, float, float]

PILLOW_ALONE = ("box", "hamming")
"""Filters that torchvision does not have."""

SMALLEST, LARGEST = 1e-18, 1e18
"""Of the numbers that values are multiplied with or divided by: no product of two leaves the range of float32."""


class Match(Strict, frozen=True):
    """Which checkpoints a spec is for; see ``foveal.spec.find.match``."""

    image_processor_type: tuple[str, ...]
    model_type: tuple[str, ...]
    id: tuple[str, ...]
    architectures: tuple[str, ...] = ()


class Fields(Strict, frozen=True):
    """How ``preprocessor_config.json`` and overrides are read, beyond the paths that ``from`` names.

    Attributes
    ----------
    folded : dict
        Field that sets one child of another: ``min_pixels: size.shortest_edge``.
    unset : dict
        What the reference's class assumes for a field that a checkpoint leaves out, where that is not the published
        value.
    same : dict
        Field, and another one whose value, read as one edge, it must have where both are given.
    published : dict
        Value of a field in ``same`` that the spec does not read itself.
    fixed : dict
        Field, and the only value of it that the spec can honour. ``config.`` before a field means ``config.json``.
    nullable : tuple of str
        Fields of a checkpoint for which ``null`` means the default.
    ignored : tuple of str
        Fields of a checkpoint that the reference's class never uses.
    """

    folded: dict[str, str] = msgspec.field(default_factory=dict)
    unset: dict[str, Any] = msgspec.field(default_factory=dict)
    same: dict[str, str] = msgspec.field(default_factory=dict)
    published: dict[str, Any] = msgspec.field(default_factory=dict)
    fixed: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)
    nullable: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


AnyCanvas = (
    steps.BestFit
    | steps.ClosestAspectRatio
    | steps.CoveringGrid
    | steps.LeastUpscale
    | steps.BestResolution
    | steps.DynamicHd
    | steps.HdTransform
    | steps.OverlappingTiles
)
AnyWindows = steps.PanAndScan | steps.OverlappingCrops
AnyOp = (
    steps.SmartResize
    | steps.Resize
    | steps.ResizeBoundedEdge
    | steps.ResizeLongestEdge
    | steps.ResizeToMultiple
    | steps.ResizeLongestSide
    | steps.NavitResize
    | steps.LimitPatches
    | steps.FitPatches
    | steps.FitPooledPatches
    | steps.ResizeToCanvas
    | steps.FitCanvas
    | steps.HdResize
    | steps.StretchToCanvas
    | steps.FixedTaps
    | steps.CenterCrop
    | steps.PadToCanvas
    | steps.PadToSquare
    | steps.PadToMultiple
)
NEED_CANVAS = (steps.ResizeToCanvas, steps.FitCanvas, steps.HdResize, steps.StretchToCanvas, steps.PadToCanvas)
NO_RESIZE = (steps.CenterCrop, steps.PadToCanvas, steps.PadToSquare, steps.PadToMultiple)


class Stage(Strict, frozen=True):
    """A picture of bytes that views, or later stages, read in place of the image.

    Attributes
    ----------
    name : str
    reads : str
        ``image``, or a stage before this one.
    canvas : CanvasRule, optional
        Chosen from the size of what is read.
    steps : tuple of Op
    """

    name: Name
    steps: tuple[AnyOp, ...] = ()
    reads: Name = "image"
    canvas: AnyCanvas | None = None

    def __post_init__(self) -> None:
        """Refuse steps that do not follow one another: padding to a square, one resize, one crop or canvas."""
        if self.canvas is None and any(isinstance(step, NEED_CANVAS) for step in self.steps):
            raise ValueError(f"'{self.name}' has steps that need a canvas, but no canvas")
        resizes = [number for number, step in enumerate(self.steps) if not isinstance(step, NO_RESIZE)]
        before = self.steps[: resizes[-1]] if resizes else ()
        if any(not isinstance(step, steps.PadToSquare) for step in before):
            raise ValueError(f"'{self.name}' is resized twice, or after a crop or a canvas: that needs a stage")
        rest = dropwhile(lambda step: isinstance(step, steps.PadToSquare), self.steps)
        if sum(isinstance(step, NO_RESIZE) for step in rest) > 1:
            raise ValueError(f"'{self.name}' is cropped or put on a canvas twice: that needs a stage")
        if self.has_fixed_taps and len(self.steps) > 1:
            raise ValueError(f"'{self.name}' has steps beside fixed_taps")

    @property
    def has_fixed_taps(self) -> bool:
        """Whether values are resampled, not bytes."""
        return any(isinstance(step, steps.FixedTaps) for step in self.steps)


class View(Stage, frozen=True):
    """One picture that the encoder reads, or several, where ``windows`` cuts what is read.

    Attributes
    ----------
    windows : WindowsRule, optional
    enabled : bool
    when : str
        ``always``; ``multi_tile``: the view or stage that is cut into tiles has more than one; ``one_image`` or
        ``many_images``: of the sample to which the image belongs.
    """

    windows: AnyWindows | None = None
    enabled: bool = True
    when: Literal["always", "multi_tile", "one_image", "many_images"] = "always"

    def __post_init__(self) -> None:
        """Refuse windows of what is put on a canvas, whose padding would be what lies beside the window."""
        super().__post_init__()
        if self.windows is not None and (self.canvas or any(isinstance(step, NO_RESIZE) for step in self.steps)):
            raise ValueError(f"'{self.name}' has windows, and a canvas or padding: that needs a stage")


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


class PatchPack(Strict, frozen=True, tag_field="as", tag="patches"):
    """Patches in raster order.

    ``channels`` says whether they are outermost or innermost within a patch, ``axes`` how many axes the tensor has: 2,
    one row a patch; 3, one block a view, rows of patches; 4, one block a patch of channel, row, column.
    """

    patch: Count
    channels: Literal["first", "last"]
    axes: Literal[2, 3, 4]

    def __post_init__(self) -> None:
        """Refuse blocks of patches that are not planar."""
        if self.axes == 4 and self.channels == "last":
            raise ValueError("patches of four axes have their channels first")


class MergePatches(Strict, frozen=True, tag_field="as", tag="merge_patches"):
    """Flat patches in blocks of ``merge * merge``, the image repeated ``temporal`` times in each."""

    patch: Count
    merge: Count
    temporal: Count


class Batch(Strict, frozen=True):
    """How the images of a call share the primary tensor; what is padded is zero after normalization.

    Attributes
    ----------
    join : str
        ``concat``: one after the other on the first axis. ``longest``: a block for each, as long as the longest.
        ``room``: a block for each, of a fixed length. ``largest``: planar images, in the top left of the largest.
    count, pool, spare : int
        The fixed length is ``count * pool**2 + spare``.
    by_sample : bool
        The outermost axis is that of the samples. With ``longest`` the images of a sample share a block, with
        ``room`` they are a second axis.
    flat_list : str
        What a list of images that is not nested means: ``samples`` of one image each, or ``one_sample``.
    """

    join: Literal["concat", "longest", "room", "largest"] = "concat"
    count: Patches | None = None
    pool: Count = 1
    spare: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    by_sample: bool = False
    flat_list: Literal["samples", "one_sample"] = "samples"

    def __post_init__(self) -> None:
        """Require a count where one is used."""
        if (self.join == "room") != (self.count is not None):
            raise ValueError("count is needed with join: room, and only there")
        if self.by_sample and self.join not in ("longest", "room"):
            raise ValueError("by_sample needs join: longest or join: room")

    @property
    def room(self) -> int:
        """The fixed length, where there is one."""
        return (self.count or 0) * self.pool**2 + self.spare


class Image(Strict, frozen=True):
    """From the decoded image to the primary tensor.

    Attributes
    ----------
    references : tuple of str
    stages : tuple of Stage
        Computed first, in this order.
    views : tuple of View
        In the order in which the encoder reads them.
    grid : str
        The view or stage that is cut into tiles; the first view by default.
    normalize : Normalize
    pack : Planar, Tiles, PatchPack or MergePatches
    batch : Batch
    """

    references: tuple[Literal["torchvision", "pillow"], ...]
    views: tuple[View, ...]
    normalize: Normalize
    pack: Planar | Tiles | PatchPack | MergePatches
    stages: tuple[Stage, ...] = ()
    grid: Name = ""
    batch: Batch = Batch()

    def __post_init__(self) -> None:
        """Refuse names that name nothing, and packs that do not fit."""
        known = {"image"}
        for stage in self.stages:
            _check_name(stage.reads, known)
            known.add(stage.name)
        if len(known) <= len(self.stages):
            raise ValueError("two stages have one name, or one is named image")
        if any(stage.has_fixed_taps for stage in self.stages):
            raise ValueError("fixed_taps are of a view, a stage holds bytes")
        for view in self.views:
            _check_name(view.reads, known)
            if view.has_fixed_taps and not isinstance(self.pack, Planar | Tiles):
                raise ValueError(f"'{view.name}' has fixed_taps, which need a pack of planar images or tiles")
            if view.has_fixed_taps and (view.reads == "image" or view.windows is not None):
                raise ValueError(f"'{view.name}' has fixed_taps, which read a stage, and all of it")
        self._check_views(known - {"image"})
        for view in self.views:
            self._check_crops(view)
        if self.batch.join == "largest" and not isinstance(self.pack, Planar):
            raise ValueError("join: largest needs pack: planar")

    def _check_crops(self, view: View) -> None:
        """Refuse overlapping crops of anything but the canvas that is made for them."""
        crops = view.windows
        if isinstance(crops, steps.OverlappingCrops):
            canvas = next((stage.canvas for stage in self.stages if stage.name == view.reads), None)
            sides = msgspec.structs.asdict(crops)
            if (
                not isinstance(canvas, steps.OverlappingTiles)
                or not sides.items() <= msgspec.structs.asdict(canvas).items()
            ):
                raise ValueError(
                    f"'{view.name}' has overlapping_crops, which are not those of the canvas that it reads"
                )
            if isinstance(self.pack, PatchPack) and self.pack.patch != crops.patch:
                raise ValueError(f"'{view.name}' has patches of {crops.patch}, and the pack of {self.pack.patch}")

    def _check_views(self, stages: set[str]) -> None:
        """Refuse views that an image may be left without, and a grid of what may not be there."""
        whole = [view for view in self.views if view.windows is None and view.when != "multi_tile"]
        for sample in ("one_image", "many_images"):
            if not any(view.enabled and view.when in ("always", sample) for view in whole):
                raise ValueError(f"no view is there for every image, with {sample} in the sample")
        cut = {view.name for view in whole}
        if len({view.name for view in self.views} | stages) < len(self.views) + len(stages):
            raise ValueError("two views have one name, or that of a stage")
        _check_name(self.grid or self.views[0].name, cut | stages)


def _check_name(name: str, known: set[str]) -> None:
    if name not in known:
        raise ValueError(f"'{name}' is not one of {', '.join(sorted(known))}")


class Limits(Strict, frozen=True):
    """What engines accept in one request; ``images`` of one prompt by default."""

    images: Count | None = None


Value = Literal[
    "primary",
    "grid_thw",
    "grid_hw",
    "tile_grid",
    "tile_grid_id",
    "tile_mask",
    "image_size",
    "canvas_size",
    "blocks",
    "crops",
    "features",
    "images_of_sample",
    "pixel_mask",
    "patch_mask",
    "block_mask",
    "patch_positions",
    "pooling",
    "pooled_grids",
]


class Tensor(Strict, frozen=True):
    """One entry of the result; ``dtype`` of the primary tensor holds while it is rescaled and normalized.

    Attributes
    ----------
    name : str
    value : str
        What it holds; see ``foveal.plan.tensors``.
    dtype : str
    join : str
        ``rows``: rows of all images one after the other. ``blocks``: padded as the primary tensor is. ``images``: an
        axis of samples and one of their images.
    pad : int
        What stands where there is no image or block.
    patch : int, optional
        Side of an encoder patch, for ``patch_mask``.
    pool : tuple of int, optional
        Rows and columns of patches that become one feature, for ``pooling`` and ``pooled_grids``.
    split : str
        How an engine takes an image's part: ``images``, an index of the first axis; ``shared``, all of it; or the name
        of the tensor that holds each image's number of rows.
    keep_on_cpu : bool
        Whether an engine must not move it to the device.
    hf : bool
        Whether the reference returns it; others are for engines alone.
    """

    name: Name
    value: Value
    dtype: Dtype
    join: Literal["rows", "blocks", "images"] = "rows"
    pad: Annotated[int, msgspec.Meta(ge=-1, le=1)] = 0
    patch: Count | None = None
    pool: tuple[Count, Count] = (1, 1)
    split: Name = "images"
    keep_on_cpu: bool = False
    hf: bool = True


SMALL_DTYPES = ("uint8", "float16", "bfloat16")
"""Which do not hold every number that a value can be."""
PER_BLOCK = ("pixel_mask", "patch_mask", "block_mask", "patch_positions")
"""Values with a row for each block of the primary tensor."""


def _check_tensor(tensor: Tensor, image: Image) -> None:
    """Refuse a value that the image does not have, and keys that the value does not use."""
    value, pack, views = tensor.value, image.pack, image.views
    one_grid = isinstance(pack, PatchPack | MergePatches) and len(views) == 1
    cut_stage = bool(image.stages) and image.grid == image.stages[0].name and isinstance(pack, Tiles)
    crops = any(isinstance(view.windows, steps.OverlappingCrops) for view in views) and _axes(pack) == 3
    room = image.batch.join == "room"
    needs = {
        "grid_thw": (one_grid, "one view that is packed as patches"),
        "grid_hw": (one_grid, "one view that is packed as patches"),
        "patch_positions": (one_grid and _axes(pack) != 3, "one view that is packed as patches, one after the other"),
        "tile_grid_id": (room, "a batch with join: room"),
        "tile_mask": (room, "a batch with join: room"),
        "pixel_mask": (isinstance(pack, Planar | Tiles), "a pack of planar images or tiles"),
        "patch_mask": (cut_stage and tensor.patch is not None, "a patch, and a first stage that is cut into tiles"),
        "pooling": (crops, "overlapping_crops, packed as patches in blocks of a view"),
        "pooled_grids": (crops, "overlapping_crops, packed as patches in blocks of a view"),
    }
    has, need = needs.get(value, (True, ""))
    if not has:
        raise ValueError(f"'{tensor.name}' is {value}, which needs {need}")
    used = {
        "join: blocks": tensor.join != "blocks" or value in PER_BLOCK,
        "join: images": tensor.join != "images" or value not in (*PER_BLOCK, "primary", "pooling", "images_of_sample"),
        "pad": tensor.pad == 0 or tensor.join != "rows",
        "patch": tensor.patch is None or value == "patch_mask",
        "pool": tensor.pool == (1, 1) or value in ("pooling", "pooled_grids"),
    }
    if tensor.dtype in SMALL_DTYPES and value != "primary" and (not value.endswith("_mask") or tensor.pad < 0):
        raise ValueError(f"'{tensor.name}' is {value}, whose numbers {tensor.dtype} cannot hold")
    for key, is_used in used.items():
        if not is_used:
            raise ValueError(f"'{tensor.name}' has {key}, which is not for {value} joined as {tensor.join}")


def _axes(pack: Planar | Tiles | PatchPack | MergePatches) -> int:
    return pack.axes if isinstance(pack, PatchPack) else 2


def _check_engine(name: str, engine: EngineWire | None, spec: "Spec") -> None:
    """Refuse tensors that the spec does not have, and keys beside a refusal."""
    if engine is None:
        return
    if engine.refusal is not None and engine != EngineWire(refusal=engine.refusal):
        raise ValueError(f"wire.{name}: refusal stands alone")
    small = {tensor.name: tensor for tensor in spec.tensors if tensor.value != "primary"}
    unknown = [entry.tensor for entry in engine.tensors if entry.tensor not in small]
    if unknown:
        raise ValueError(f"wire.{name}: no small tensor is named {unknown[0]}")
    primary = next(tensor for tensor in spec.tensors if tensor.value == "primary")
    taken = {entry.tensor for entry in engine.tensors}
    splits = {primary.split, *(small[tensor].split for tensor in taken)} - {"images", "shared"}
    if name == "vllm" and not splits <= taken:
        raise ValueError(f"wire.{name}: {min(splits - taken)} is needed to split others")
    if spec.tokens is None:
        raise ValueError(f"wire.{name}: a spec without tokens cannot be sent")


class Spec(Strict, frozen=True, cache_hash=True):
    """A model's preprocessing with every number filled in. Made by ``foveal.spec.resolve``."""

    schema: Literal[1]
    name: Name
    source: tuple[str, ...]
    match: Match
    reference: Reference
    image: Image
    tensors: tuple[Tensor, ...]
    tokens: Tokens | None = None
    limits: Limits = Limits()
    wire: Wire = Wire()

    def __post_init__(self) -> None:
        """Require one primary tensor, values that the image has, splits by numbers, and filters of the reference."""
        if sum(tensor.value == "primary" for tensor in self.tensors) != 1:
            raise ValueError("tensors must hold exactly one whose value is primary")
        known = {"images", "shared"} | {tensor.name for tensor in self.tensors if tensor.value == "blocks"}
        for tensor in self.tensors:
            _check_name(tensor.split, known)
            _check_tensor(tensor, self.image)
        for name, engine in (("vllm", self.wire.vllm), ("sglang", self.wire.sglang)):
            _check_engine(name, engine, self)
        tile = self.image.pack.tile if isinstance(self.image.pack, Tiles) else None
        patch = getattr(self.tokens.features, "patch", 1) if self.tokens else 1
        if tile is not None and patch > tile:
            raise ValueError(f"tiles of {tile} are smaller than the encoder's patches of {patch}")
        for part in (*self.image.stages, *self.image.views):
            alone = {getattr(step, "filter", "") for step in part.steps} & set(PILLOW_ALONE)
            if self.reference == "torchvision" and alone:
                raise ValueError(f"'{part.name}': {' and '.join(sorted(alone))} exists only for the reference pillow")

    @property
    def primary(self) -> Tensor:
        """The tensor that holds the pixels."""
        return next(tensor for tensor in self.tensors if tensor.value == "primary")
