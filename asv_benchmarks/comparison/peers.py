"""Transformers' image processors of the five families, built from explicit arguments, and comparison bit for bit."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from benchmarks.common import SIZES
from PIL import Image

CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
USUAL = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "do_convert_rgb": True}
BILINEAR, BICUBIC = 2, 3

MERGE = USUAL | {"temporal_patch_size": 2, "merge_size": 2, "resample": BICUBIC}
QWEN2 = MERGE | CLIP | {"patch_size": 14, "min_pixels": 3136, "max_pixels": 12845056}
QWEN3 = MERGE | HALF | {"patch_size": 16, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}
LLAVA = USUAL | CLIP | {"size": {"shortest_edge": 336}, "resample": BICUBIC}
LLAVA |= {"do_center_crop": True, "crop_size": {"height": 336, "width": 336}}
LLAMA4 = USUAL | HALF | {"size": {"height": 336, "width": 336}, "resample": BILINEAR}
LLAMA4 |= {"max_patches": 16, "resize_to_max_canvas": False}


@dataclass(frozen=True)
class Family:
    """A model: its class in transformers, that class's arguments, and the ratios that are required of Foveal."""

    peer: str
    arguments: dict
    must: dict[str, float]
    must_pil: float | None

    @classmethod
    def of(cls, peer, arguments, must, must_pil):
        return cls(peer, arguments, dict(zip(SIZES, must, strict=True)), must_pil)


FAMILIES = {
    "qwen2_vl": Family.of("Qwen2VLImageProcessor", QWEN2, (5, 3.2, 3, 7.5, 12), 7.5),
    "qwen2_5_vl": Family.of("Qwen2VLImageProcessor", QWEN2, (5, 3.2, 3, 7.5, 12), 7.5),
    "qwen3_vl": Family.of("Qwen2VLImageProcessor", QWEN3, (4.6, 3.9, 3.5, 7.3, 12), 10),
    "llava1_5": Family.of("CLIPImageProcessor", LLAVA, (11, 12, 12, 15, 24), 20),
    "llama4": Family.of("Llama4ImageProcessor", LLAMA4, (5, 4.7, 4.7, 5.2, 13), None),
}


def peer(family: Family, pil: bool = False, **changes) -> Callable[[Image.Image], object] | None:
    """Return a function from an image to transformers' ``pixel_values``; None where the class cannot be had."""
    try:
        import torch
        import transformers

        torch.set_num_threads(1)
        made = getattr(transformers, family.peer + ("Pil" if pil else ""))(**family.arguments | changes)
    except (ImportError, AttributeError):
        return None
    return lambda image: made(images=[image], return_tensors="np" if pil else "pt")["pixel_values"]


RUST = {"CLIPImageProcessor", "Qwen2VLImageProcessor"}
"""The classes of these families that hf-processors-rs has."""


def rust_peer(family: Family, pil: bool = False) -> Callable[[Image.Image], object] | None:
    """Return a function from an image to ``pixel_values`` of hf-processors-rs; None where it cannot be had."""
    try:
        import hf_processors_rs
    except ImportError:
        return None
    if family.peer not in RUST:
        return None
    config = family.arguments | {"image_processor_type": family.peer}
    made = hf_processors_rs.AutoImageProcessor.from_dict(config, backend="pil" if pil else "torchvision")
    call = partial(made.preprocess, num_threads=1)
    return lambda image: call([image])["pixel_values"]


PASSED = {"mistral3": {"patch_size": {"height": 28, "width": 28}}}
"""What a model's processor passes to its image processor in place of the latter's own field."""


def peer_of_spec(name: str) -> Callable[[Image.Image], object] | None:
    """Return a function from an image to what transformers makes of it, by the class and the numbers of a spec.

    None where transformers is not installed or has no such class.
    """
    try:
        import torch
        import transformers
    except ImportError:
        return None
    from foveal.spec import load
    from foveal.spec.resolve import reference_fields, resolve
    from foveal.verification.reference import reference_values

    torch.set_num_threads(1)
    spec = resolve(load(name))
    made = getattr(transformers, spec.match.image_processor_type[0], None)
    if made is None or "torchvision" not in spec.image.references:
        return None
    processor = made(**reference_values(reference_fields(load(name)).image_processor))
    options = PASSED.get(name, {})
    return lambda image: processor(images=[image], return_tensors="pt", **options)[spec.primary.name]


def bits(tensor) -> np.ndarray:
    """Return a NumPy or torch tensor as unsigned integers."""
    if hasattr(tensor, "detach"):
        import torch

        tensor = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return np.ascontiguousarray(tensor).view(f"u{tensor.dtype.itemsize}")


def differing(ours, theirs) -> int:
    """Return how many values differ in any bit; all of them if the shapes or widths do."""
    if ours.shape != tuple(theirs.shape) or ours.dtype.itemsize != theirs.dtype.itemsize:
        return ours.size
    return int(np.count_nonzero(bits(ours) != bits(theirs)))
