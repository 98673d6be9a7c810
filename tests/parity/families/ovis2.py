"""Ovis2: a thumbnail, then the fewest tiles that cover nine tenths of the image; the grid is chosen transposed."""

from family import (
    BICUBIC,
    CLIP,
    EVERY_STEP,
    FEW_VALUES,
    NEAREST,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

ODD, TWO = Picture(117, 203), Picture(203, 600)
SIDE_112, NEAREST_SHAPE = {"size": {"height": 112, "width": 112}}, {"use_covering_area_grid": False}

FAMILY = Family(
    processor="Ovis2ImageProcessor",
    arguments={
        **EVERY_STEP,
        "crop_to_patches": True,
        "max_patches": 12,
        "min_patches": 1,
        "resample": BICUBIC,
        "size": {"height": 448, "width": 448},
        "use_covering_area_grid": True,
        **CLIP,
    },
    config={
        "image_token_id": 151_665,
        "model_type": "ovis2",
        "vision_config": vision_config("ovis2_vision", 1024, image_size=448, patch_size=14),
    },
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "one_tile": (300, 200),
        "exact": (448, 448),
        "covered": (472, 472),
        "not_covered": (473, 473),
        "wide": (333, 1001),
        "tall": (1001, 333),
        "wider": (60, 2500),
        "higher": (2500, 61),
        "four": (700, 703),
        "one_row": (1, 700),
        "one_column": (1200, 1),
        "vga": (480, 640),
    },
    reordered=("not_covered", "tall", "wide"),
    options={
        **value_options(TWO, FEW_VALUES),
        **filter_options(TWO, BICUBIC),
        "no_crops": (TWO, {"crop_to_patches": False}),
    },
    rules={
        "nearest": (TWO, {"resample": NEAREST}),
        "no_crops_no_resize": (TWO, {"crop_to_patches": False, "do_resize": False}),
        "no_resize": (TWO, {"do_resize": False}),
        "max_patches_1": (TWO, {"max_patches": 1}),
        "max_patches_4": (Picture(600, 1300), {"max_patches": 4}),
        "nearest_shape": (TWO, NEAREST_SHAPE),
        "nearest_shape_square": (Picture(640, 640), NEAREST_SHAPE),
        "nearest_shape_min": (ODD, {**NEAREST_SHAPE, "min_patches": 3, "max_patches": 6}),
        **{
            f"side_112_{height}x{width}": (Picture(height, width), SIDE_112)
            for height, width in ((300, 400), (380, 500), (400, 300), (520, 520), (150, 900), (1200, 90), (700, 600))
        },
        "small": (Picture(13, 30), {"size": {"height": 12, "width": 12}, "max_patches": 2}),
        **batches(Picture(90, 130)),
        "batch_tiles": ((TWO, ODD, Picture(600, 440)), {}),
    },
    unsupported={"no_resize": "do_resize", "no_crops_no_resize": "do_resize"},
)
