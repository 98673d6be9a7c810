"""Kimi-K2.5: below a number of patches and a longest side, then padded with black to whole groups of patches."""

from family import (
    BICUBIC,
    EVERY_STEP,
    HALF,
    NEAREST,
    TORCHVISION,
    Checkpoint,
    Family,
    batches,
    filter_options,
    value_options,
    with_options,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "max_patches": 16_384,
    "merge_size": 2,
    "patch_size": 14,
    "resample": BICUBIC,
    "size": {"max_height": 512, "max_width": 512},
    **HALF,
}
CONFIG = {
    "image_token_id": 163_605,
    "model_type": "kimi_k25",
    "video_token_id": 163_840,
    "vision_config": {"hidden_size": 1152, "model_type": "kimi_k25_vision", "patch_size": 14},
    "vision_end_token_id": 163_604,
    "vision_start_token_id": 163_602,
}
PUBLISHED = {
    "auto_map": {
        "AutoImageProcessor": "kimi_k25_vision_processing.KimiK25VisionProcessor",
        "AutoProcessor": "kimi_k25_processor.KimiK25Processor",
    },
    "media_proc_cfg": {
        "fixed_output_tokens": None,
        "in_patch_limit": 16_384,
        "merge_kernel_size": 2,
        "patch_limit_on_one_side": 512,
        "patch_size": 14,
        **HALF,
    },
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "exact": (56, 84),
    "one_more": (57, 85),
    "one_less": (55, 83),
    "odd_patches": (70, 42),
    "wide": (100, 1000),
    "tall": (1000, 100),
    "one_row": (1, 900),
    "one_column": (900, 1),
    "longest": (20, 7168),
    "too_long": (20, 7169),
    "too_high": (8000, 3),
    "vanishing": (1, 9000),
    "over_the_limit": (1700, 1931),
    "vga": (480, 640),
}
ODD, FEW = Picture(117, 203), {"max_patches": 40}
SIDE_8 = {"size": {"max_height": 8, "max_width": 8}}

FAMILY = Family(
    processor="Kimi_K25ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    references=(TORCHVISION,),
    sizes=SIZES,
    options={
        **value_options(ODD),
        **with_options(filter_options(ODD, BICUBIC), FEW),
        "nearest": (ODD, {**FEW, "resample": NEAREST}),
        "no_resize": (Picture(56, 84), {"do_resize": False}),
        "no_resize_odd": (ODD, {"do_resize": False}),
        "limit_40": (ODD, FEW),
        "limit_40_tall": (Picture(400, 100), FEW),
        "limit_40_narrow": (Picture(900, 5), FEW),
        "limit_400": (Picture(500, 300), {"max_patches": 400}),
        "limit_1": (ODD, {"max_patches": 1}),
        "side_8": (ODD, SIDE_8),
        "side_8_tall": (Picture(500, 20), SIDE_8),
        "side_8_vanishing": (Picture(1, 500), SIDE_8),
        "sides_differ": (ODD, {"size": {"max_height": 8, "max_width": 9}}),
        "edges": (ODD, {"size": {"height": 56, "width": 56}}),
        "patch_size_16": (ODD, {"patch_size": 16}),
        "merge_size_1": (ODD, {"merge_size": 1}),
        "merge_size_3": (ODD, {"merge_size": 3}),
        "small": (Picture(13, 21), {"patch_size": 4}),
        **batches(Picture(90, 130)),
        "batch_limit": ((ODD, Picture(61, 45), Picture(224, 56)), FEW),
    },
    checkpoints={"published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED})},
)
