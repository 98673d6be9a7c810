"""Llama-3.2-Vision: on the canvas of at most four tiles that needs the least scaling; lists are samples.

A list of images is one sample with several images, as one tensor with a place for each image and each tile.
"""

from family import (
    BICUBIC,
    BILINEAR,
    CLIP,
    EVERY_STEP,
    FEW_VALUES,
    NEAREST,
    Family,
    batches,
    filter_options,
    nested_batches,
    value_options,
    vision_config,
    with_options,
)
from images import Picture

ODD, WIDE = Picture(117, 203), Picture(300, 700)
SIDE = {"size": {"height": 112, "width": 112}}
SHAPES = (
    (100, 100),
    (113, 112),
    (200, 230),
    (300, 300),
    (50, 330),
    (330, 70),
    (90, 600),
    (800, 100),
    (1, 225),
    (224, 1),
)

FAMILY = Family(
    processor="MllamaImageProcessor",
    arguments={
        **EVERY_STEP,
        "do_pad": True,
        "max_image_tiles": 4,
        "resample": BILINEAR,
        "size": {"height": 560, "width": 560},
        **CLIP,
    },
    config={
        "architectures": ["MllamaForConditionalGeneration"],
        "image_token_index": 128_256,
        "model_type": "mllama",
        "vision_config": vision_config("mllama_vision_model", 1280, image_size=560, patch_size=14),
    },
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "one_tile": (200, 300),
        "exact": (560, 560),
        "one_higher": (561, 560),
        "one_wider": (560, 561),
        "two_wide": (500, 1120),
        "four_wide": (100, 1700),
        "four_tall": (1700, 100),
        "beyond": (100, 3000),
        "beyond_tall": (3000, 100),
        "beyond_square": (1130, 1130),
        "narrow": (700, 17),
        "one_row": (1, 700),
        "one_column": (900, 1),
        "vga": (480, 640),
    },
    reordered=("beyond_tall", "beyond_square", "side_112_800x100_bicubic"),
    options={
        **value_options(WIDE, FEW_VALUES),
        **filter_options(ODD, BILINEAR),
        "side_112_800x100_bicubic": (Picture(800, 100), {**SIDE, "resample": BICUBIC}),
        "nested": (((ODD,), (WIDE, Picture(61, 45))), SIDE),
    },
    rules={
        "nearest": (ODD, {"resample": NEAREST}),
        **{f"side_112_{height}x{width}": (Picture(height, width), SIDE) for height, width in SHAPES},
        "max_image_tiles_1": (WIDE, {**SIDE, "max_image_tiles": 1}),
        "max_image_tiles_2": (WIDE, {**SIDE, "max_image_tiles": 2}),
        "max_image_tiles_6": (Picture(230, 330), {**SIDE, "max_image_tiles": 6}),
        "max_image_tiles_6_tall": (Picture(500, 60), {**SIDE, "max_image_tiles": 6}),
        "small": (Picture(13, 30), {"size": {"height": 14, "width": 14}, "max_image_tiles": 2}),
        **batches(Picture(90, 130)),
        **with_options(nested_batches(Picture(90, 130)), SIDE),
        "batch_nested_equal": (((ODD, WIDE), (WIDE, ODD)), SIDE),
        "batch_nested_three": (((ODD,), (WIDE, ODD, ODD), (WIDE, WIDE)), SIDE),
    },
)
