"""Images of a call, opened: the one place that ties headers, plans and lazy pixels together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from foveal.errors import FovealError, ImageSizeError, MediaError
from foveal.media.pixels import Pixels
from foveal.media.sources import Source, open_source
from foveal.plan.plan import Plan
from foveal.plan.views import Sample

__all__ = ["Item", "by_sample", "open_items"]

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
    samples: Sequence[Sequence[object]],
    make_plan: Callable[[int, int, Sample], Plan],
    input_data_format: str | None = None,
    value_range: Sequence[float] | None = None,
) -> list[Item]:
    """Open images and plan them; nothing is decoded.

    Parameters
    ----------
    samples : sequence of sequences of images
        From `by_sample`.
    make_plan : callable
        Plan for a height, a width and whether the image's sample has others.
    input_data_format, value_range
        As for `foveal.media.sources.open_source`.

    Raises
    ------
    MediaError
        If an image cannot be opened; its text starts with the image's index.
    ImageSizeError
        If the model refuses an image's size.
    """
    items: list[Item] = []
    options: dict[str, Any] = {"input_data_format": input_data_format, "value_range": value_range}
    for sample in samples:
        kind: Sample = "one_image" if len(sample) == 1 else "many_images"
        for image in sample:
            index = len(items)
            source = _named(index, partial(open_source, image, **options))  # type: ignore[arg-type]
            items.append(Item(index, source, _named(index, partial(make_plan, *source.size, kind))))
    return items


def by_sample(images: object, flat_list: Literal["samples", "one_sample"]) -> list[list[object]]:
    """Return the images of a call by sample.

    Parameters
    ----------
    images : image, or a list of images, or a list of such lists, one for each sample
    flat_list : {"samples", "one_sample"}
        What a list that is not nested means to the model.

    Raises
    ------
    MediaError
        If there is no image, or images stand beside lists.

    Notes
    -----
    Source: transformers 5.24.0, image_utils.py, make_flat_list_of_images and make_nested_list_of_images.
    """
    if not isinstance(images, list | tuple):
        return [[images]]
    nested = [isinstance(entry, list | tuple) for entry in images]
    if any(nested) and not all(nested):
        raise MediaError("images are a mix of images and lists; pass a list of images, or a list of lists")
    if any(nested):
        samples = [list(sample) for sample in images]
    else:
        samples = [list(images)] if flat_list == "one_sample" else [[image] for image in images]
    if not any(samples):
        raise MediaError("there is no image")
    return samples


def _named(index: int, action: Callable[[], Result]) -> Result:
    """Run a step of one image; its error says which image it was."""
    try:
        return action()
    except ImageSizeError as error:
        raise ImageSizeError(f"image {index} is {error}") from error
    except FovealError as error:
        raise type(error)(f"image {index}: {error}") from error
