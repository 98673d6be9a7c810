"""Qwen2-VL: edges are multiples of two patches, the area lies between two budgets."""

from families._qwen import QWEN_TYPE, SIZES_14, qwen_arguments, qwen_config, qwen_options, qwen_rules
from family import ALL_MODES, CLIP, Checkpoint, Family
from images import Picture

LARGE = Picture(1100, 1000)
"""Larger than the pixel budget that the class has by default, smaller than the published one."""
CONFIG = qwen_config("qwen2_vl", "Qwen2VLForConditionalGeneration", 3584, 14)
PUBLISHED = {
    "max_pixels": 12_845_056,
    "merge_size": 2,
    "min_pixels": 3_136,
    "patch_size": 14,
    "processor_class": "Qwen2VLProcessor",
    "temporal_patch_size": 2,
    **QWEN_TYPE,
    **CLIP,
}
PIXELS = {"min_pixels": 150_000, "max_pixels": 200_704, **QWEN_TYPE, **CLIP}

FAMILY = Family(
    processor="Qwen2VLImageProcessor",
    arguments=qwen_arguments(14, 3_136, 12_845_056, CLIP),
    config=CONFIG,
    sizes=SIZES_14,
    reordered=("vga", "flattened", "narrow_15", "narrow_17", "narrow_21", "wide"),
    options=qwen_options(14, Picture(769, 1023)),
    rules=qwen_rules(14),
    modes=ALL_MODES,
    checkpoints={
        "published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED}),
        "pixels": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PIXELS}),
        "class_defaults": Checkpoint(
            files={"config.json": CONFIG, "preprocessor_config.json": QWEN_TYPE}, images=LARGE
        ),
    },
)
