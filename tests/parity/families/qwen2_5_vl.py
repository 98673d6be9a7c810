"""Qwen2.5-VL: the image processor of Qwen2-VL under another model type."""

from families._qwen import QWEN_TYPE, SIZES_14, qwen_arguments, qwen_config
from family import CLIP, IMAGENET, LANCZOS, Checkpoint, Family, batches
from images import Picture

ARGUMENTS = qwen_arguments(14, 3_136, 12_845_056, CLIP)
CONFIG = qwen_config("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", 3584, 14)
CHANGED = {
    **ARGUMENTS,
    **IMAGENET,
    **QWEN_TYPE,
    "resample": LANCZOS,
    "size": {"shortest_edge": 784, "longest_edge": 50_176},
}

FAMILY = Family(
    processor="Qwen2VLImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes=SIZES_14,
    reordered=("narrow_17", "wide"),
    rules={
        "max_pixels": (Picture(480, 640), {"max_pixels": 100_352}),
        "ratio_201_wide": (Picture(1, 201), {}),
        **batches(Picture(90, 130)),
    },
    checkpoints={"changed": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": CHANGED})},
)
