"""Boxes: from a view's canvas to the original image and back, as grounding models need them.

Coordinates are continuous and begin at the top left corner: pixel (row, column) reaches from ``row`` to ``row + 1`` and
from ``column`` to ``column + 1``, so the whole of a picture is ``(0, 0, height, width)``. Along each axis the map is
affine; it is composed of fractions and rounded once, at the end. A point is a box without extent.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Self

from foveal.errors import OptionError

if TYPE_CHECKING:
    from foveal.plan.plan import Plan, View

__all__ = ["Edges", "filled_part", "from_original", "shown_part", "to_original"]


class Edges(NamedTuple):
    """A box by its edges: rows before columns, as everywhere in Foveal."""

    top: float
    left: float
    bottom: float
    right: float

    @classmethod
    def from_xyxy(cls, box: Sequence[float]) -> Self:
        """Return the edges of (x1, y1, x2, y2), the order in which most models answer."""
        left, top, right, bottom = _numbers(box)
        return cls(top, left, bottom, right)

    @property
    def xyxy(self) -> tuple[float, float, float, float]:
        """The box as (x1, y1, x2, y2)."""
        return self.left, self.top, self.right, self.bottom


class Axis(NamedTuple):
    """One axis of a view: ``original = scale * canvas + shift``.

    ``start`` and ``end`` are those of what the view shows, in the original; all else on its canvas is padding.
    """

    scale: Fraction
    shift: Fraction
    start: Fraction
    end: Fraction

    def to_original(self, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
        """Return a stretch of the canvas in the original."""
        return self.scale * low + self.shift, self.scale * high + self.shift

    def from_original(self, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction] | None:
        """Return on the canvas what is shown of a stretch of the original, if anything is."""
        first, last = max(low, self.start), min(high, self.end)
        if first > last or (first == last and low < high):
            return None
        return (first - self.shift) / self.scale, (last - self.shift) / self.scale


def to_original(plan: "Plan", view: str | int, box: Sequence[float], scale: float | None = None) -> Edges:
    """Return a box on a view's canvas in pixels of the original image; see `foveal.plan.plan.Plan.to_original`."""
    found = _found(plan, view)
    top, left, bottom, right = map(Fraction, _checked(box))
    down, across = _units(found, scale)
    vertical, horizontal = axes(plan, found)
    rows = vertical.to_original(top / down, bottom / down)
    columns = horizontal.to_original(left / across, right / across)
    return _edges(rows, columns)


def from_original(plan: "Plan", box: Sequence[float], scale: float | None = None) -> tuple[Edges | None, ...]:
    """Return a box of the original image on each view's canvas; see `foveal.plan.plan.Plan.from_original`."""
    top, left, bottom, right = map(Fraction, _checked(box))
    found: list[Edges | None] = []
    for view in plan.views:
        down, across = _units(view, scale)
        vertical, horizontal = axes(plan, view)
        rows, columns = vertical.from_original(top, bottom), horizontal.from_original(left, right)
        if rows is None or columns is None:
            found.append(None)
        else:
            found.append(_edges([down * row for row in rows], [across * column for column in columns]))
    return tuple(found)


def shown_part(plan: "Plan", view: "View") -> Edges:
    """Return the part of the original image that a view or stage of the plan shows; without extent if it shows none."""
    rows, columns = ((axis.start, max(axis.start, axis.end)) for axis in axes(plan, view))
    return _edges(rows, columns)


def filled_part(plan: "Plan", view: "View") -> Edges:
    """Return the part of a view's or stage's canvas that shows the original image; what surrounds it is padding."""
    rows, columns = (
        axis.from_original(axis.start, axis.end) or (Fraction(0), Fraction(0)) for axis in axes(plan, view)
    )
    return _edges(rows, columns)


def axes(plan: "Plan", view: "View") -> tuple[Axis, Axis]:
    """Return the vertical and the horizontal axis of a view or stage, through all stages that it reads."""
    return _axis(plan, view, 0), _axis(plan, view, 1)


def _axis(plan: "Plan", view: "View", axis: int) -> Axis:
    read = _read(plan, view, axis)
    scale = Fraction((view.window.height, view.window.width)[axis], view.resized[axis])
    kept, length = view.crop[axis], (view.crop.height, view.crop.width)[axis]
    place = view.place[axis]
    shift = view.window[axis] + scale * (kept - place)
    start, end = read.to_original(scale * place + shift, scale * (place + length) + shift)
    return Axis(read.scale * scale, read.scale * shift + read.shift, max(start, read.start), min(end, read.end))


def _read(plan: "Plan", view: "View", axis: int) -> Axis:
    """Return the axis of what a view reads."""
    if view.reads == "image":
        return Axis(Fraction(1), Fraction(0), Fraction(0), Fraction((plan.height, plan.width)[axis]))
    return _axis(plan, next(stage for stage in plan.stages if stage.name == view.reads), axis)


def _found(plan: "Plan", view: str | int) -> "View":
    """Return the view of a name or an index."""
    names = [each.name for each in plan.views]
    if isinstance(view, str):
        if view in names:
            return plan.views[names.index(view)]
        raise OptionError(f"no view has this name; the views of {plan.spec} are {', '.join(names)}")
    if not 0 <= view < len(names):
        raise OptionError(f"view {view}: {plan.spec} has views 0 to {len(names) - 1} of this image")
    return plan.views[view]


def _units(view: "View", scale: float | None) -> tuple[Fraction, Fraction]:
    """Return how many units of a box's coordinates a pixel of a view's canvas has, along both axes."""
    if scale is None:
        return Fraction(1), Fraction(1)
    if not (math.isfinite(scale) and scale > 0):
        raise OptionError(f"scale={scale}: must be a finite number above 0")
    return Fraction(scale) / view.canvas.height, Fraction(scale) / view.canvas.width


def _checked(box: Sequence[float]) -> tuple[float, float, float, float]:
    top, left, bottom, right = _numbers(box)
    if bottom < top or right < left:
        raise OptionError(
            f"box ({top:g}, {left:g}, {bottom:g}, {right:g}): expected (top, left, bottom, right), "
            "where bottom is not above top and right not left of left; Edges.from_xyxy takes x1, y1, x2, y2"
        )
    return top, left, bottom, right


def _numbers(box: Sequence[float]) -> tuple[float, float, float, float]:
    try:
        first, second, third, fourth = map(float, box)
    except (TypeError, ValueError):
        raise OptionError("a box is four numbers: top, left, bottom, right") from None
    if not all(map(math.isfinite, (first, second, third, fourth))):
        raise OptionError("a box is four finite numbers")
    return first, second, third, fourth


def _edges(rows: Sequence[Fraction], columns: Sequence[Fraction]) -> Edges:
    return Edges(float(rows[0]), float(columns[0]), float(rows[1]), float(columns[1]))
