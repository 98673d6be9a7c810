"""Transformers' image processors, by a spec or from explicit arguments, and comparison bit for bit."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
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
    """A model's class in transformers, and that class's arguments; nothing of it is asked of Foveal."""

    peer: str
    arguments: dict


FAMILIES = {
    "qwen2_vl": Family("Qwen2VLImageProcessor", QWEN2),
    "qwen2_5_vl": Family("Qwen2VLImageProcessor", QWEN2),
    "qwen3_vl": Family("Qwen2VLImageProcessor", QWEN3),
    "llava1_5": Family("CLIPImageProcessor", LLAVA),
    "llama4": Family("Llama4ImageProcessor", LLAMA4),
}


def peer(family: Family, pil: bool = False) -> Callable[[Image.Image], object] | None:
    """Return a function from an image to transformers' ``pixel_values``; None where the class cannot be had."""
    try:
        import torch
        import transformers

        torch.set_num_threads(1)
        made = getattr(transformers, family.peer + ("Pil" if pil else ""))(**family.arguments)
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


CLASSES = {"torchvision class": "torchvision", "PIL class": "pillow"}
"""What the classes of transformers are called here, and Foveal's references with the same values."""


def classes_of(name: str) -> list[str]:
    """Return which of ``CLASSES`` transformers has for a spec: none where the reference is a checkpoint's own code."""
    from foveal.spec import load
    from foveal.spec.resolve import resolve

    spec = resolve(load(name))
    published = any(source.startswith("transformers ") for source in spec.source)
    return [kind for kind, reference in CLASSES.items() if published and reference in spec.image.references]


def with_classes(names: list[str]) -> list[str]:
    return [name for name in names if classes_of(name)]


def peer_of_spec(name: str, kind: str, **changes) -> Callable[[Image.Image], object] | None:
    """Return a function from an image to what a class makes of it, by a spec's numbers; None where it cannot be had."""
    try:
        import torch
        import transformers
    except ImportError:
        return None
    from foveal.spec import load
    from foveal.spec.resolve import reference_fields, resolve
    from foveal.verification.reference import reference_values

    torch.set_num_threads(1)
    spec, pil = resolve(load(name)), kind == "PIL class"
    made = getattr(transformers, spec.match.image_processor_type[0] + ("Pil" if pil else ""), None)
    if made is None:
        return None
    processor = made(**reference_values(reference_fields(load(name)).image_processor) | changes)
    options = {"return_tensors": "np" if pil else "pt"} | PASSED.get(name, {})
    return lambda image: processor(images=[image], **options)[spec.primary.name]


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
