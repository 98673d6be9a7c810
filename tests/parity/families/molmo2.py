"""Molmo2: the whole image, then square crops that overlap; resampled without antialiasing, in float32."""

from family import (
    BICUBIC,
    BILINEAR,
    EVERY_STEP,
    HALF,
    NEAREST,
    TORCHVISION,
    Family,
    batches,
    value_options,
)
from images import Picture

ODD, TWO = Picture(117, 203), Picture(300, 700)
SIDE = {"size": {"height": 126, "width": 126}, "overlap_margins": [2, 1]}
"""Nine patches a crop, of which three overlap."""
SHAPES = ((100, 100), (127, 126), (42, 42), (43, 200), (250, 300), (300, 250), (90, 900), (800, 100), (500, 500))

FAMILY = Family(
    processor="Molmo2ImageProcessor",
    arguments={
        **EVERY_STEP,
        "max_crops": 8,
        "overlap_margins": [4, 4],
        "patch_size": 14,
        "pooling_size": [2, 2],
        "resample": BILINEAR,
        "size": {"height": 378, "width": 378},
        **HALF,
    },
    config={
        "model_type": "molmo2",
        "vision_config": {
            "hidden_size": 1152,
            "image_size": [378, 378],
            "model_type": "molmo2_vision",
            "num_channels": 3,
            "patch_size": 14,
        },
    },
    references=(TORCHVISION,),
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "below_the_margins": (60, 90),
        "at_the_margins": (112, 200),
        "both_at_the_margins": (112, 112),
        "exact": (378, 378),
        "one_higher": (379, 378),
        "one_wider": (378, 379),
        "two": (300, 640),
        "four": (600, 700),
        "wide": (150, 2500),
        "tall": (2500, 150),
        "one_row": (1, 700),
        "one_column": (900, 1),
        "vga": (480, 640),
    },
    options={
        **value_options(TWO, ("no_normalize", "no_rescale", "bytes", "imagenet")),
        "bicubic": (TWO, {"resample": BICUBIC}),
        "nearest": (TWO, {"resample": NEAREST}),
        "no_resize": (TWO, {"do_resize": False}),
        **{f"side_126_{height}x{width}": (Picture(height, width), SIDE) for height, width in SHAPES},
        "max_crops_1": (TWO, {"max_crops": 1}),
        "max_crops_4": (Picture(700, 600), {"max_crops": 4}),
        "max_crops_12": (Picture(300, 300), {**SIDE, "max_crops": 12}),
        "margins_uneven": (TWO, {"overlap_margins": [4, 2]}),
        "margins_none": (TWO, {"overlap_margins": [0, 0]}),
        "margin_right": (TWO, {"overlap_margins": [0, 3]}),
        "pooling_3": (TWO, {"pooling_size": [3, 3]}),
        "pooling_oblong": (TWO, {"pooling_size": [1, 4]}),
        "patch_size_7": (ODD, {**SIDE, "patch_size": 7}),
        "side_oblong": (TWO, {"size": {"height": 378, "width": 252}}),
        "small": (Picture(13, 30), {"size": {"height": 12, "width": 12}, "patch_size": 2, "overlap_margins": [1, 1]}),
        **batches(Picture(90, 130)),
        "batch_crops": ((TWO, ODD, Picture(600, 440)), {}),
        "batch_crops_equal": ((Picture(200, 300), ODD, Picture(200, 300, seed=1)), SIDE),
    },
    unsupported={"no_resize": "do_resize", "bicubic": "resample", "nearest": "resample"},
)
