"""CLIP: the shorter edge to a number, then the square in the middle."""

from family import (
    BICUBIC,
    BOX,
    CLIP,
    EVERY_STEP,
    HAMMING,
    NEAREST,
    ONE_MODE,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

ODD, FLAT = Picture(117, 203), Picture(700, 280)

FAMILY = Family(
    processor="CLIPImageProcessor",
    arguments={
        **EVERY_STEP,
        "crop_size": {"height": 224, "width": 224},
        "do_center_crop": True,
        "resample": BICUBIC,
        "size": {"shortest_edge": 224},
        **CLIP,
    },
    config={
        "model_type": "clip",
        "vision_config": vision_config("clip_vision_model", 768, image_size=224, patch_size=14),
    },
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "enlarged": (70, 100),
        "square": (224, 224),
        "only_cropped": (224, 301),
        "one_off": (225, 223),
        "odd_margin": (351, 225),
        "truncated": (101, 127),
        "wide": (150, 1000),
        "tall": (1000, 150),
        "flattened": (700, 280),
        "one_row": (1, 20),
        "one_column": (25, 1),
        "vga": (480, 640),
    },
    reordered=("flattened", "wide", "flattened_lanczos"),
    options={
        **value_options(ODD, ("no_normalize", "imagenet")),
        **filter_options(ODD, BICUBIC),
        "flattened_lanczos": (FLAT, {"resample": 1}),
        "nearest": (ODD, {"resample": NEAREST}),
        "box": (ODD, {"resample": BOX}),
        "hamming": (ODD, {"resample": HAMMING}),
        "hamming_flattened": (FLAT, {"resample": HAMMING}),
    },
    rules={
        "no_crop": (ODD, {"do_center_crop": False}),
        "edge": (ODD, {"size": {"shortest_edge": 100}}),
        "crop": (ODD, {"crop_size": {"height": 100, "width": 130}}),
        "no_resize": (ODD, {"do_resize": False}),
        "small": (Picture(13, 30), {"size": 14, "crop_size": 14}),
        **batches(Picture(90, 130)),
    },
    modes=ONE_MODE,
)
