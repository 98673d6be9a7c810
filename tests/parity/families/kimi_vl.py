"""Kimi-VL: below a number of patches, then padded with black below and right to whole groups of patches."""

from family import CLIP, IMAGENET, PILLOW, Family
from images import Picture

ARGUMENTS = {
    "image_processor_type": "KimiVLImageProcessor",
    "in_token_limit": 4096,
    "merge_kernel_size": [2, 2],
    "num_pooled_tokens": 1024,
    "pad_input": True,
    "patch_size": 14,
    **CLIP,
}
CONFIG = {
    "architectures": ["KimiVLForConditionalGeneration"],
    "media_placeholder_token_id": 163_605,
    "model_type": "kimi_vl",
    "vision_config": {"merge_kernel_size": [2, 2], "model_type": "moonvit", "patch_size": 14},
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
    "longest": (20, 7140),
    "too_long": (20, 7141),
    "too_high": (7168, 1),
    "at_the_limit": (896, 896),
    "under_the_limit": (909, 909),
    "over_the_limit": (911, 925),
    "over_the_limit_tall": (2500, 340),
    "vga": (480, 640),
}
ODD, FEW = Picture(117, 203), {"in_token_limit": 30}

FAMILY = Family(
    processor="KimiVL",
    arguments=ARGUMENTS,
    config=CONFIG,
    references=(PILLOW,),
    sizes=SIZES,
    reordered=("over_the_limit", "limit_30_flattened", "limit_30"),
    options={
        "imagenet": (ODD, IMAGENET),
        "limit_30": (ODD, FEW),
        "limit_30_tall": (Picture(400, 100), FEW),
        "limit_30_flattened": (Picture(900, 16), {"in_token_limit": 60}),
        "limit_30_wide": (Picture(20, 1500), FEW),
        "limit_400": (Picture(500, 300), {"in_token_limit": 400}),
        "limit_1": (ODD, {"in_token_limit": 1}),
        "cropped": (ODD, {"pad_input": False}),
        "cropped_tall": (Picture(303, 99), {"pad_input": False}),
        "cropped_limit": (Picture(303, 99), {"pad_input": False, **FEW}),
        "patch_size_16": (ODD, {"patch_size": 16}),
        "merge_1": (ODD, {"merge_kernel_size": [1, 1]}),
        "small": (Picture(13, 21), {"patch_size": 4}),
        "list_of_one": ((ODD,), {}),
        "batch_equal": ((ODD, ODD._replace(seed=1)), {}),
        "batch_mixed": ((ODD, Picture(61, 45), Picture(224, 56)), {}),
        "batch_mixed_limit": ((ODD, Picture(61, 45), Picture(224, 56)), FEW),
    },
    modes={PILLOW: ("L",)},
    unsupported={"cropped": "pad_input", "cropped_tall": "pad_input", "cropped_limit": "pad_input"},
)
