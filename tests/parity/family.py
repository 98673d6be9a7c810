"""How a family is described: its processor, its published numbers, and what is asked of it."""

from dataclasses import dataclass, field
from typing import Any

from images import Picture

__all__ = [
    "ALL_MODES",
    "BICUBIC",
    "BILINEAR",
    "BOX",
    "CLIP",
    "EVERY_STEP",
    "FEW_VALUES",
    "HALF",
    "HAMMING",
    "IMAGENET",
    "LANCZOS",
    "NEAREST",
    "NO_MODES",
    "ONE_MODE",
    "PILLOW",
    "PILLOW_12",
    "TORCHVISION",
    "Asked",
    "Checkpoint",
    "Family",
    "Images",
    "Options",
    "batches",
    "filter_options",
    "nested_batches",
    "stretched_sizes",
    "value_options",
    "vision_config",
    "with_options",
]

Options = dict[str, Any]
Images = Any
"""A ``Picture``, or a tuple of them, nested as the call's lists are."""
Asked = dict[str, tuple[Images, Options]]
"""Images and overrides of a call, by the name of the case."""

TORCHVISION, PILLOW, PILLOW_12 = "torchvision", "pillow", "pillow<13"

CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
NEAREST, LANCZOS, BILINEAR, BICUBIC, BOX, HAMMING = range(6)
EVERY_STEP = {
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "do_convert_rgb": True,
}

MODES = {TORCHVISION: ("L", "RGBA", "P+alpha"), PILLOW: ("RGBA",)}
ALL_MODES = {
    TORCHVISION: ("L", "LA", "RGBA", "P", "P+alpha", "P+key", "L+key", "RGB+key", "1", "CMYK", "YCbCr"),
    PILLOW: ("L", "RGBA", "P+alpha"),
}
ONE_MODE = {TORCHVISION: ("RGBA",)}
NO_MODES: dict[str, tuple[str, ...]] = {}
ORDINARY = Picture(241, 322)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint directory: its files, of which ``None`` stands for the one that ``save_pretrained`` would write.

    ``passed`` is what the processor that these files describe passes, where that is not what it is for the family.
    """

    files: dict[str, Options | None]
    images: Images = ORDINARY
    passed: Options | None = None


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family's image processor with its published arguments, and what is asked of it.

    Attributes
    ----------
    processor : str
        Class of transformers that uses torchvision; the one that uses Pillow has the suffix ``Pil``. Or a class of
        ``restated.py``, for models that bring their own code.
    arguments : dict
        The values of the published ``preprocessor_config.json``.
    config : dict
        The part of ``config.json`` that preprocessing reads.
    sizes : dict
        Height and width of a picture, by what is special about them; asked of every reference.
    references : tuple of str
        The first one is what the auto classes use.
    options : dict
        What else is asked of every reference.
    rules : dict
        What is asked of the first reference alone: options that change sizes and places, the same in all of them.
    reordered : tuple of str
        Cases, by name, that are asked of Pillow before 13 too: those in which Pillow 13 runs the vertical pass first,
        and one in which it does not.
    modes : dict
        Modes of images, by reference; none where the class does not convert to RGB.
    checkpoints : dict
        Checkpoint directories beside the one that the arguments and the config make, by name.
    passed : dict
        What the family's processor passes to its image processor, whatever the checkpoint says.
    constructed : tuple of str
        Options that the class obeys in full only when it is made with them.
    preprocessor : dict, optional
        The ``preprocessor_config.json`` of the family's own directory, where it is not what the class writes.
    unsupported : dict
        Cases, by name, that transformers answers and Foveal refuses on purpose, with a word of the refusal.
    spec : str, optional
        Name of Foveal's spec, where it is not the family's.
    by_checkpoint : bool
        Whether only a checkpoint's files lead to this family's rules, so that each case needs its directory.
    """

    processor: str
    arguments: Options
    config: Options
    sizes: dict[str, tuple[int, int]]
    references: tuple[str, ...] = (TORCHVISION, PILLOW)
    options: Asked = field(default_factory=dict)
    rules: Asked = field(default_factory=dict)
    reordered: tuple[str, ...] = ()
    modes: dict[str, tuple[str, ...]] = field(default_factory=MODES.copy)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    passed: Options = field(default_factory=dict)
    constructed: tuple[str, ...] = ()
    preprocessor: Options | None = None
    unsupported: dict[str, str] = field(default_factory=dict)
    spec: str | None = None
    by_checkpoint: bool = False


VALUES = {
    "no_normalize": {"do_normalize": False},
    "no_rescale": {"do_rescale": False, "image_mean": [120.0, 110.5, 99.75], "image_std": [64.0, 60.5, 71.0]},
    "bytes": {"do_rescale": False, "do_normalize": False},
    "factor_alone": {"rescale_factor": 1 / 127.5, "do_normalize": False},
    "centred": {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0], "image_std": [1.0, 1.0, 1.0]},
    "imagenet": IMAGENET,
    "mean_alone": {"image_mean": [0.1, 0.2, 0.3]},
    "two_means": {"image_mean": [0.5, 0.5], "image_std": [0.5, 0.5]},
}
FEW_VALUES = ("no_normalize", "no_rescale", "bytes", "imagenet")


def value_options(images: Images, names: tuple[str, ...] = tuple(VALUES)) -> Asked:
    """Return options that change values and not shapes."""
    return {name: (images, VALUES[name]) for name in names}


def filter_options(images: Images, default: int) -> Asked:
    filters = {"bilinear": BILINEAR, "bicubic": BICUBIC, "lanczos": LANCZOS}
    return {name: (images, {"resample": number}) for name, number in filters.items() if number != default}


def batches(first: Picture) -> Asked:
    """Return calls with several images: two of one size, other sizes, a list of one."""
    twin = first._replace(seed=1)
    small, tall = Picture(61, 45, seed=2), Picture(224, 56, seed=3)
    return {
        "list_of_one": ((first,), {}),
        "batch_equal": ((first, twin, small), {}),
        "batch_mixed": ((tall, first, small), {}),
    }


def nested_batches(first: Picture) -> Asked:
    """Return calls with several images in lists of lists."""
    small, tall = Picture(61, 45, seed=2), Picture(224, 56, seed=3)
    return {"batch_nested": (((first, small), (tall,)), {}), "batch_nested_one": (((first,),), {})}


def with_options(asked: Asked, options: Options) -> Asked:
    return {name: (images, others | options) for name, (images, others) in asked.items()}


def stretched_sizes(side: int) -> dict[str, tuple[int, int]]:
    """Return sizes for a family that stretches every image to a square."""
    return {
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "square": (side, side),
        "exact_height": (side, side // 2 + 7),
        "exact_width": (side // 3 + 2, side),
        "enlarged": (side // 2, side // 3),
        "one_off": (side + 1, side - 1),
        "wide": (97, 2 * side + 31),
        "tall": (2 * side + 31, 97),
        "one_row": (1, side + 100),
        "one_column": (side + 100, 1),
        "narrow": (side + 200, 17),
        "odd": (side + 177, side // 2 + 1),
        "vga": (480, 640),
    }


def vision_config(model_type: str, hidden_size: int, **fields: Any) -> Options:
    """Return the vision part of a ``config.json``."""
    return {"hidden_size": hidden_size, "model_type": model_type, "num_channels": 3, **fields}
