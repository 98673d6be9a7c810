"""What a view's section is made of: one struct an op, a canvas rule or a windows rule; numbers only.

Each has the name of the function in ``foveal.plan`` that computes it. Sizes are height before width.
"""

from typing import Annotated, Literal

import msgspec

from foveal.types import Filter

__all__ = ["CanvasRule", "Op", "WindowsRule"]

Name = Annotated[str, msgspec.Meta(pattern=r"^[\w.-]{1,64}\Z")]
Dtype = Literal["float32", "bfloat16", "float16", "uint8", "int32", "int64"]
Count = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Patches = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Side = Annotated[int, msgspec.Meta(ge=1, le=65536)]
Pixels = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
Fill = tuple[Byte, Byte, Byte]
Resampled = Literal["antialias", "linear"]

MOST_TILES = 1024
"""Of a canvas: choices of rows and columns are listed, and their number grows with it."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections."""


class HeightWidth(Strict, frozen=True):
    """Height and width of a window or an image."""

    height: Side
    width: Side


# ---- canvas rules


class CanvasRule(Strict, frozen=True, tag_field="choose"):
    """Base of the rules that choose a canvas from the size of an image; see ``foveal.plan.canvas``."""


class BestFit(CanvasRule, frozen=True, tag="best_fit"):
    """Whole tiles on which the image needs least rescaling."""

    tile: Side
    max_tiles: Count
    largest: bool
    precision: Literal["float32", "float64"]


class ClosestAspectRatio(CanvasRule, frozen=True, tag="closest_aspect_ratio"):
    """Whole tiles whose aspect ratio is closest to the image's; one tile where it is not ``enabled``."""

    enabled: bool
    tile: Side
    min_tiles: Count
    max_tiles: Count
    order: Literal["columns", "set"]

    def __post_init__(self) -> None:
        """Refuse a range without tiles."""
        if self.min_tiles > self.max_tiles:
            raise ValueError(f"the fewest tiles, {self.min_tiles}, are more than the most, {self.max_tiles}")


class CoveringGrid(CanvasRule, frozen=True, tag="covering_grid"):
    """Fewest tiles that keep nine tenths of the image's area, or else `ClosestAspectRatio`."""

    enabled: bool
    covering: bool
    tile: Side
    min_tiles: Count
    max_tiles: Count


class LeastUpscale(CanvasRule, frozen=True, tag="least_upscale"):
    """Whole tiles for which both sides of the image grow least; one tile where it is not ``enabled``."""

    enabled: bool
    tile: Side
    max_tiles: Count


class BestResolution(CanvasRule, frozen=True, tag="best_resolution"):
    """One of a list of sizes: most pixels of the image kept, then least canvas wasted."""

    tile: Side
    pinpoints: tuple[tuple[Side, Side], ...]

    def __post_init__(self) -> None:
        """Refuse sizes that are no whole tiles."""
        if not self.pinpoints:
            raise ValueError("image_grid_pinpoints must hold at least one height and width")
        for height, width in self.pinpoints:
            if height % self.tile or width % self.tile:
                raise ValueError(f"{height}x{width} (height x width) is not made of whole tiles of {self.tile}")


class DynamicHd(CanvasRule, frozen=True, tag="dynamic_hd"):
    """As many tiles as the image covers, or, beyond ``max_tiles``, the closest aspect ratio."""

    tile: Side
    max_tiles: Count


class HdTransform(CanvasRule, frozen=True, tag="hd_transform"):
    """Widest row of tiles (column, for an upright image) whose whole canvas has at most ``max_tiles``."""

    tile: Side
    max_tiles: Count


class OverlappingTiles(CanvasRule, frozen=True, tag="overlapping_tiles"):
    """Canvas that ``tile`` wide crops cover which share ``before + after`` patches with their neighbours."""

    tile: Side
    patch: Count
    before: Annotated[int, msgspec.Meta(ge=0, le=1024)]
    after: Annotated[int, msgspec.Meta(ge=0, le=1024)]
    max_tiles: Count

    def __post_init__(self) -> None:
        """Refuse margins that leave nothing between them."""
        if self.tile % self.patch:
            raise ValueError(f"tiles of {self.tile} are not made of whole patches of {self.patch}")
        if self.before + self.after >= self.tile // self.patch:
            raise ValueError(f"overlap_margins of {self.before} and {self.after} patches leave nothing of a tile")


# ---- windows rules


class WindowsRule(Strict, frozen=True, tag_field="cut"):
    """Base of the rules that make several views of one; see ``foveal.plan.windows``."""


class PanAndScan(WindowsRule, frozen=True, tag="pan_and_scan"):
    """Side by side along the longer edge of an image that is not nearly square; none where it is not ``enabled``."""

    enabled: bool
    min_crop: Side
    max_crops: Count
    min_ratio: float


class OverlappingCrops(WindowsRule, frozen=True, tag="overlapping_crops"):
    """All tiles of an `OverlappingTiles` canvas, in raster order."""

    tile: Side
    patch: Count
    before: Annotated[int, msgspec.Meta(ge=0, le=1024)]
    after: Annotated[int, msgspec.Meta(ge=0, le=1024)]


# ---- ops


class Op(Strict, frozen=True, tag_field="op"):
    """Base of all ops; see ``foveal.plan.sizes`` and ``foveal.plan.views``."""


class SmartResize(Op, frozen=True, tag="smart_resize"):
    """Multiples of ``patch * merge`` whose area, times ``frames``, lies within a budget."""

    enabled: bool
    patch: Count
    merge: Count
    min_pixels: Pixels
    max_pixels: Pixels
    max_aspect: Side
    filter: Filter
    frames: Count = 1
    grow_short_side: bool = False


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


def _check_method(method: Resampled, name: Filter) -> None:
    if method == "linear" and name != "bilinear":
        raise ValueError(f"method: linear has filter: bilinear alone, not {name}")


class Resize(Op, frozen=True, tag="resize"):
    """To a fixed size, or by the shorter edge."""

    enabled: bool
    size: ResizeSize
    filter: Filter
    method: Resampled = "antialias"

    def __post_init__(self) -> None:
        """Refuse a filter that the method does not have."""
        _check_method(self.method, self.filter)


class ResizeBoundedEdge(Op, frozen=True, tag="resize_bounded_edge"):
    """Multiples of ``patch * merge``; shrunk first where an edge is longer than ``bound``."""

    enabled: bool
    bound: HeightWidth
    patch: Count
    merge: Count
    filter: Filter


class ResizeLongestEdge(Op, frozen=True, tag="resize_longest_edge"):
    """Longer edge to a length, the shorter to an even number."""

    enabled: bool
    edge: Side
    cap: Side
    filter: Filter


class ResizeToMultiple(Op, frozen=True, tag="resize_to_multiple"):
    """Both edges up to a multiple, or to one tile where it is not ``enabled``."""

    enabled: bool
    of: Side
    filter: Filter


class ResizeLongestSide(Op, frozen=True, tag="resize_longest_side"):
    """Longer edge to ``side``, the shorter in proportion, none below ``least``."""

    enabled: bool
    side: Side
    least: Side
    filter: Filter


class NavitResize(Op, frozen=True, tag="navit_resize"):
    """Shrunk to a number of patches in all, and along each edge."""

    enabled: bool
    patch: Count
    max_patches: Patches
    max_side: Side
    filter: Filter


class LimitPatches(Op, frozen=True, tag="limit_patches"):
    """Shrunk to a number of patches in all; ``max_side`` or more along an edge, in whole blocks, are refused."""

    patch: Count
    merge: Count
    max_patches: Patches
    max_side: Side
    filter: Filter


class FitPatches(Op, frozen=True, tag="fit_patches"):
    """Grown or shrunk to the largest whole patches that a number of them allows."""

    enabled: bool
    patch: Count
    max_patches: Patches
    filter: Filter


class FitPooledPatches(Op, frozen=True, tag="fit_pooled_patches"):
    """Grown or shrunk to multiples of ``patch * pool`` with at most ``max_features`` of them, one of ``choices``."""

    enabled: bool
    choices: tuple[Patches, ...]
    patch: Count
    pool: Count
    max_features: Patches
    filter: Filter

    def __post_init__(self) -> None:
        """Refuse any other number, and the filter of which the reference's classes use two rules."""
        if self.filter == "nearest":
            raise ValueError("nearest is another rule here than elsewhere, and cannot be honoured")
        if self.max_features not in self.choices:
            raise ValueError(f"expected one of {', '.join(map(str, self.choices))}, not {self.max_features}")


class ResizeToCanvas(Op, frozen=True, tag="resize_to_canvas"):
    """As large as fits on the canvas; beyond ``grow_limit`` an image grows only if ``grow`` says so."""

    grow_limit: Side
    grow: bool
    filter: Filter
    precision: Literal["float32", "float64"]


class FitCanvas(Op, frozen=True, tag="fit_canvas"):
    """As large as fits on the canvas; an edge below ``least`` is refused."""

    round: Literal["up", "down"]
    filter: Filter
    least: Annotated[int, msgspec.Meta(ge=0, le=65536)] = 0


class HdResize(Op, frozen=True, tag="hd_resize"):
    """Longer edge to that of the canvas of `HdTransform`; an upright image is resized as if it lay on its side."""

    filter: Filter


class StretchToCanvas(Op, frozen=True, tag="stretch_to_canvas"):
    """To the size of the canvas, whatever the aspect ratio."""

    filter: Filter
    method: Resampled = "antialias"

    def __post_init__(self) -> None:
        """Refuse a filter that the method does not have."""
        _check_method(self.method, self.filter)


class FixedTaps(Op, frozen=True, tag="fixed_taps"):
    """Cubic of fixed taps on normalized values, from a canvas of whole tiles to one tile."""

    tile: Side


class CenterCrop(Op, frozen=True, tag="center_crop"):
    """Window in the middle; a smaller image is put in the middle of black pixels.

    ``odd_pad`` says on which side the odd pixel of an odd amount of padding goes: ``after`` or ``before`` the image.
    """

    enabled: bool
    size: HeightWidth
    odd_pad: Literal["after", "before"]


class PadToCanvas(Op, frozen=True, tag="pad_to_canvas"):
    """Put the image on the canvas and fill the rest, before normalization."""

    anchor: Literal["top_left", "center"]
    fill: Fill


class PadToSquare(Op, frozen=True, tag="pad_to_square"):
    """Put the image in the middle of a square of its longer edge."""

    enabled: bool
    fill: tuple[int, int, int]


class PadToMultiple(Op, frozen=True, tag="pad_to_multiple"):
    """Fill below and to the right up to multiples of ``patch * merge``."""

    enabled: bool
    patch: Count
    merge: Count
    fill: Fill
