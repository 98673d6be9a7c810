"""Images of a call, opened: the one place that ties headers, plans and lazy pixels together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from foveal.errors import FovealError, ImageSizeError, MediaError
from foveal.media.pixels import Pixels
from foveal.media.sources import Source, open_source
from foveal.plan.plan import Plan

__all__ = ["Item", "flatten", "open_items"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Item:
    """An image of a call: its place, what was read from its header, and its plan."""

    index: int
    source: Source
    plan: Plan

    def pixels(self) -> Pixels:
        """Decode; an error names the image."""
        return _named(self.index, self.source.decode)


def open_items(
    images: object,
    make_plan: Callable[[int, int], Plan],
    input_data_format: str | None = None,
    value_range: Sequence[float] | None = None,
) -> list[Item]:
    """Open images and plan them; nothing is decoded.

    Parameters
    ----------
    images : image, or a list of images, or a list of such lists
    make_plan : callable
        Plan for a height and width.
    input_data_format, value_range
        As for `foveal.media.sources.open_source`.

    Raises
    ------
    MediaError
        If there is no image, or one cannot be opened; its text starts with the image's index.
    ImageSizeError
        If the model refuses an image's size.
    """
    items = []
    for index, image in enumerate(flatten(images)):
        options: dict[str, Any] = {"input_data_format": input_data_format, "value_range": value_range}
        source = _named(index, partial(open_source, image, **options))  # type: ignore[arg-type]
        items.append(Item(index, source, _named(index, partial(make_plan, *source.size))))
    return items


def flatten(images: object) -> list[object]:
    """Return all images of a call in order: one image, a list, or a list of lists, one for each sample.

    Notes
    -----
    Source: transformers 5.24.0, image_utils.py, make_flat_list_of_images.
    """
    if not isinstance(images, list | tuple):
        return [images]
    nested = [isinstance(entry, list | tuple) for entry in images]
    if any(nested) and not all(nested):
        raise MediaError("images are a mix of images and lists; pass a list of images, or a list of lists")
    flat = [image for sample in images for image in sample] if any(nested) else list(images)
    if not flat:
        raise MediaError("there is no image")
    return flat


def _named(index: int, action: Callable[[], Result]) -> Result:
    """Run a step of one image; its error says which image it was."""
    try:
        return action()
    except ImageSizeError as error:
        raise ImageSizeError(f"image {index} is {error}") from error
    except FovealError as error:
        raise type(error)(f"image {index}: {error}") from error
