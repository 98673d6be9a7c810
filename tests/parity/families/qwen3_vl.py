"""Qwen3-VL: the image processor of Qwen2-VL with other numbers."""

from families._qwen import QWEN_TYPE, qwen_arguments, qwen_config, qwen_options, qwen_rules
from family import ALL_MODES, HALF, IMAGENET, Checkpoint, Family
from images import Picture

ARGUMENTS = qwen_arguments(16, 65_536, 16_777_216, HALF)
CONFIG = qwen_config("qwen3_vl", "Qwen3VLForConditionalGeneration", 1152, 16)
PUBLISHED = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "merge_size": 2,
    "patch_size": 16,
    "processor_class": "Qwen3VLProcessor",
    "size": ARGUMENTS["size"],
    "temporal_patch_size": 2,
    **HALF,
}
NESTED = {
    "image_processor": {**ARGUMENTS, **QWEN_TYPE, "size": {"shortest_edge": 4_096, "longest_edge": 40_960}},
    "processor_class": "Qwen3VLProcessor",
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (120, 160),
    "square": (256, 256),
    "exact": (512, 384),
    "tall": (1000, 130),
    "wide": (130, 1000),
    "ties": (272, 304),
    "ties_odd": (240, 528),
    "ratio_200": (32, 6400),
    "ratio_199": (3980, 20),
    "one_row": (1, 190),
    "one_column": (187, 1),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
    "flattened": (488, 660),
    "narrow_17": (2090, 17),
    "narrow_21": (4010, 21),
}

FAMILY = Family(
    processor="Qwen2VLImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes=SIZES,
    reordered=("flattened", "narrow_17", "narrow_21", "ratio_199", "wide"),
    options=qwen_options(16, Picture(488, 660)),
    rules=qwen_rules(16),
    modes=ALL_MODES,
    checkpoints={
        "published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED}),
        "nested": Checkpoint(files={"config.json": CONFIG, "processor_config.json": NESTED}),
        "nested_wins": Checkpoint(
            files={
                "config.json": CONFIG,
                "preprocessor_config.json": {**ARGUMENTS, **QWEN_TYPE, **IMAGENET},
                "processor_config.json": NESTED,
            }
        ),
    },
)
