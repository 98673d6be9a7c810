"""Gemma-4: as large as a number of soft tokens allows, in groups of patches; padded to that number, with positions."""

from family import (
    BICUBIC,
    EVERY_STEP,
    NEAREST,
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
    "do_normalize": False,
    "image_mean": [0.0, 0.0, 0.0],
    "image_std": [1.0, 1.0, 1.0],
    "max_soft_tokens": 280,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "resample": BICUBIC,
}
CONFIG = {"image_token_id": 258_880, "model_type": "gemma4", "video_token_id": 258_884}
NESTED = {
    "image_processor": {**ARGUMENTS, "image_processor_type": "Gemma4ImageProcessor", "max_soft_tokens": 140},
    "processor_class": "Gemma4Processor",
}
ODD, FEW = Picture(117, 203), {"max_soft_tokens": 70}

FAMILY = Family(
    processor="Gemma4ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "square": (300, 300),
        "exact": (768, 816),
        "flattened": (837, 770),
        "landscape": (300, 400),
        "wide": (100, 1000),
        "tall": (1000, 100),
        "one_group_high": (10, 2000),
        "no_group_high": (1, 300),
        "no_group_wide": (301, 1),
        "longest": (2, 700),
        "longest_cut": (1, 900),
        "narrow": (700, 17),
        "vga": (480, 640),
    },
    reordered=("flattened", "narrow", "tokens_70_tall"),
    options={
        "normalize": (ODD, {**FEW, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7]}),
        **with_options(value_options(ODD, ("bytes",)) | filter_options(ODD, BICUBIC), FEW),
        "tokens_70_tall": (Picture(2000, 150), FEW),
    },
    rules={
        "normalize_published": (ODD, {**FEW, "do_normalize": True}),
        "nearest": (ODD, {**FEW, "resample": NEAREST}),
        **{f"max_soft_tokens_{n}": (ODD, {"max_soft_tokens": n}) for n in (70, 140, 560, 1120)},
        "max_soft_tokens_100": (ODD, {"max_soft_tokens": 100}),
        "tokens_70_one_row": (Picture(1, 500), FEW),
        "tokens_70_exact": (Picture(384, 432), FEW),
        "no_resize": (Picture(144, 192), {**FEW, "do_resize": False}),
        "no_resize_odd": (ODD, {**FEW, "do_resize": False}),
        "pooling_2": (ODD, {**FEW, "pooling_kernel_size": 2}),
        "pooling_1": (ODD, {**FEW, "pooling_kernel_size": 1}),
        "patch_size_14": (ODD, {**FEW, "patch_size": 14}),
        "small": (Picture(13, 30), {**FEW, "patch_size": 2, "pooling_kernel_size": 1}),
        **with_options(batches(Picture(90, 130)), FEW),
    },
    checkpoints={"nested": Checkpoint(files={"config.json": CONFIG, "processor_config.json": NESTED})},
    unsupported={"nearest": "nearest"},
)
