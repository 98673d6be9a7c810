"""Aya Vision: the image processor of InternVL with other numbers."""

from families._tiles import sizes_of_nearest_grid
from family import (
    BICUBIC,
    EVERY_STEP,
    FEW_VALUES,
    HALF,
    ONE_MODE,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

TWO = Picture(203, 500)

FAMILY = Family(
    processor="GotOcr2ImageProcessor",
    arguments={
        **EVERY_STEP,
        "crop_to_patches": True,
        "max_patches": 12,
        "min_patches": 1,
        "resample": BICUBIC,
        "size": {"height": 364, "width": 364},
        **HALF,
    },
    config={
        "architectures": ["AyaVisionForConditionalGeneration"],
        "downsample_factor": 2,
        "image_token_index": 255_036,
        "model_type": "aya_vision",
        "vision_config": vision_config("siglip_vision_model", 1152, image_size=364, patch_size=14),
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
    },
    passed={"crop_to_patches": True},
    sizes=sizes_of_nearest_grid(364),
    reordered=("half_of_four", "eleven", "vga"),
    options={"imagenet": value_options(TWO, FEW_VALUES)["imagenet"]},
    rules={
        **filter_options(TWO, BICUBIC),
        "no_crops": (TWO, {"crop_to_patches": False}),
        "max_patches_6": (Picture(400, 300), {"max_patches": 6}),
        "side_224": (TWO, {"size": {"height": 224, "width": 224}}),
        **batches(Picture(90, 190)),
    },
    modes=ONE_MODE,
)
