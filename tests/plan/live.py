"""Live processors of transformers on images without pixels: what they resize, and the shapes and values they return.

Needs the extra ``foveal[reference]``. Images lie on the device ``meta``; where a processor computes with numbers of
its own there, they have all their pixels in one place.
"""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torchvision.transforms.v2.functional as tv
import transformers
from transformers.image_processing_backends import TorchvisionBackend

from foveal.spec import load
from foveal.spec.resolve import reference_fields
from foveal.spec.values import FILTERS, NAMED_CHANNELS

__all__ = ["RESTATED", "Answer", "answer"]

RESTATED = ("internvl_chat", "kimi_vl", "phi3_v")
"""Specs of models that bring their own code: transformers has no class for them."""

ON_CPU = ("llama4", "molmo2", "phi4mm")
REFUSALS = (ValueError, ZeroDivisionError, RuntimeError)

Shape = tuple[int, ...]


class Answer(NamedTuple):
    """What a processor does with an image.

    Attributes
    ----------
    resized : set
        Pairs of sizes: what is resized, and to what; without those that stay as they are.
    shapes : dict
        Of its tensors.
    values : dict
        Of those tensors that it computes without looking at pixels.
    """

    resized: set[tuple[Shape, Shape]]
    shapes: dict[str, Shape]
    values: dict[str, np.ndarray]


def answer(name: str, samples: Sequence[Sequence[Shape]], **overrides: Any) -> Answer | None:
    """Return what the class of a spec does with samples of images of some sizes, or None where it raises an error."""
    images = [[image(name, *size) for size in sample] for sample in samples]
    kept: set[tuple[Shape, Shape]] = set()
    with spied(kept), warnings.catch_warnings(action="ignore"):
        try:
            returned = processor(name)(images=images, return_tensors="pt", **overrides)
        except REFUSALS:
            return None
    arrays = {key: tensor(value) for key, value in returned.items()}
    known = {key: value.numpy() for key, value in arrays.items() if value.dtype != torch.bfloat16 and not value.is_meta}
    primary = next(iter(arrays))
    values = {key: value for key, value in known.items() if key != primary}
    return Answer(kept, {key: tuple(value.shape) for key, value in arrays.items()}, values)


def tensor(value: Any) -> torch.Tensor:
    """Return a tensor; lists of lists are filled up with zeros."""
    if isinstance(value, torch.Tensor):
        return value
    if value and isinstance(value[0], list):
        longest = max(map(len, value))
        value = [[*row, *[0] * (longest - len(row))] for row in value]
    return torch.tensor(value)


def image(name: str, height: int, width: int) -> torch.Tensor:
    if name in ON_CPU:
        return torch.zeros((), dtype=torch.uint8).expand(3, height, width)
    return torch.empty((3, height, width), dtype=torch.uint8, device="meta")


@lru_cache
def processor(name: str) -> Any:
    """Return the torchvision class that a spec names, with the spec's numbers."""
    tree = load(name)
    kind, fields = tree["match"]["image_processor_type"][0], reference_fields(tree)
    arguments = dict(fields.image_processor)
    numbers = {filter_name: number for number, filter_name in FILTERS.items()}
    arguments["resample"] = numbers.get(arguments.get("resample"), arguments.get("resample"))
    for field, key in (("image_mean", "mean"), ("image_std", "std")):
        if isinstance(arguments.get(field), str):
            arguments[field] = NAMED_CHANNELS[arguments[field]][key]
    if name == "mistral3":  # as its processor passes it
        arguments["patch_size"] *= fields.processor["spatial_merge_size"]
    if isinstance(arguments.get("size"), int):
        arguments["size"] = {"height": arguments["size"], "width": arguments["size"]}
    return getattr(transformers, kind)(**{key: value for key, value in arguments.items() if value is not None})


@contextlib.contextmanager
def spied(kept: set[tuple[Shape, Shape]]) -> Iterator[None]:
    """Let nothing be resampled or normalized, and note what would have been resized."""

    def resize(inpt: torch.Tensor, size: Any, *_: Any, **__: Any) -> torch.Tensor:
        before, after = tuple(inpt.shape[-2:]), tuple(int(length) for length in size)
        if before != after:
            kept.add((before, after))
        if 0 in after:
            raise ValueError("nothing is left")
        shape = (*inpt.shape[:-2], *after)
        return inpt.new_empty(shape) if inpt.is_meta else torch.zeros((), dtype=inpt.dtype).expand(shape)

    originals = tv.resize, TorchvisionBackend.rescale_and_normalize
    tv.resize, TorchvisionBackend.rescale_and_normalize = resize, lambda self, images, *_, **__: images
    try:
        yield
    finally:
        tv.resize, TorchvisionBackend.rescale_and_normalize = originals
