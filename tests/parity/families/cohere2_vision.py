"""Command A Vision: stretched to the grid of tiles that needs the least enlarging, then a thumbnail."""

from family import (
    BICUBIC,
    EVERY_STEP,
    HALF,
    NEAREST,
    TORCHVISION,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

ODD, TWO, SIDE_128 = Picture(117, 203), Picture(300, 700), {"size": {"height": 128, "width": 128}}

FAMILY = Family(
    processor="Cohere2VisionImageProcessor",
    arguments={
        **EVERY_STEP,
        "crop_to_patches": True,
        "max_patches": 12,
        "min_patches": 1,
        "resample": BICUBIC,
        "size": {"height": 512, "width": 512},
        **HALF,
    },
    config={
        "image_token_id": 255_036,
        "model_type": "cohere2_vision",
        "vision_config": vision_config("siglip_vision_model", 1152, image_size=512, patch_size=16),
    },
    references=(TORCHVISION,),
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "one_tile": (300, 200),
        "exact": (512, 512),
        "one_higher": (513, 512),
        "one_wider": (512, 513),
        "exact_two": (512, 1024),
        "over_two": (100, 1025),
        "four": (600, 700),
        "wide": (100, 2500),
        "tall": (2500, 100),
        "beyond": (70, 6200),
        "beyond_tall": (7000, 30),
        "one_row": (1, 700),
        "one_column": (900, 1),
        "vga": (480, 640),
    },
    options={
        **value_options(TWO, ("no_normalize", "no_rescale", "bytes", "imagenet")),
        **filter_options(TWO, BICUBIC),
        "nearest": (TWO, {"resample": NEAREST}),
        "no_crops": (TWO, {"crop_to_patches": False}),
        "no_crops_no_resize": (TWO, {"crop_to_patches": False, "do_resize": False}),
        "no_resize": (TWO, {"do_resize": False}),
        "max_patches_1": (TWO, {"max_patches": 1}),
        "max_patches_4": (Picture(700, 1300), {"max_patches": 4}),
        **{
            f"side_128_{height}x{width}": (Picture(height, width), SIDE_128)
            for height, width in ((300, 400), (384, 512), (400, 300), (520, 520), (257, 384), (150, 1000), (700, 600))
        },
        "side_oblong": (TWO, {"size": {"height": 128, "width": 256}}),
        "small": (Picture(13, 30), {"size": {"height": 16, "width": 16}, "max_patches": 2}),
        **batches(Picture(90, 130)),
        "batch_tiles": ((TWO, ODD, Picture(600, 440)), {}),
    },
    unsupported={"no_resize": "do_resize", "no_crops_no_resize": "do_resize", "side_oblong": "height and width"},
)
