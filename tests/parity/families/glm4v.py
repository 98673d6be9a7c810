"""GLM-4.1V, GLM-4.5V and GLM-OCR: as Qwen2-VL, with budgets that count the repeated image, and its own enlarging."""

from family import (
    BICUBIC,
    CLIP,
    EVERY_STEP,
    FEW_VALUES,
    LANCZOS,
    NEAREST,
    Checkpoint,
    Family,
    batches,
    filter_options,
    value_options,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "merge_size": 2,
    "patch_size": 14,
    "resample": BICUBIC,
    "size": {"shortest_edge": 12_544, "longest_edge": 9_633_792},
    "temporal_patch_size": 2,
    **CLIP,
}
CONFIG = {
    "image_token_id": 151_343,
    "model_type": "glm4v",
    "video_token_id": 151_344,
    "vision_config": {
        "hidden_size": 1536,
        "image_size": 336,
        "in_channels": 3,
        "model_type": "glm4v_vision",
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (30, 40),
    "square": (224, 224),
    "exact": (280, 420),
    "tall": (777, 123),
    "wide": (200, 1011),
    "ties": (70, 98),
    "ties_odd": (42, 126),
    "below_a_group": (27, 27),
    "one_edge_below": (20, 50),
    "one_edge_below_tall": (50, 11),
    "rounded_down": (3, 598),
    "least": (56, 112),
    "below_the_least": (56, 84),
    "ratio_200": (1, 200),
    "ratio_201": (1, 201),
    "ratio_over_200": (2, 401),
    "ratio_199": (3980, 20),
    "vga": (480, 640),
    "flattened": (769, 1023),
    "narrow_17": (1016, 17),
}
ODD, VGA = Picture(117, 203), Picture(480, 640)

FAMILY = Family(
    processor="Glm4vImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes=SIZES,
    reordered=("flattened", "vga", "narrow_17", "ratio_199", "wide"),
    options={**value_options(ODD, FEW_VALUES), **filter_options(ODD, BICUBIC)},
    rules={
        "nearest": (ODD, {"resample": NEAREST}),
        "lanczos_budget": (VGA, {"resample": LANCZOS, "size": {"shortest_edge": 784, "longest_edge": 100_352}}),
        "no_resize": (Picture(84, 140), {"do_resize": False}),
        "no_resize_odd": (ODD, {"do_resize": False}),
        "budget": (VGA, {"size": {"shortest_edge": 784, "longest_edge": 100_352}}),
        "budget_tall": (Picture(900, 200), {"size": {"shortest_edge": 784, "longest_edge": 50_176}}),
        "budget_narrow": (Picture(900, 20), {"size": {"shortest_edge": 784, "longest_edge": 10_000}}),
        "least_given": (ODD, {"size": {"shortest_edge": 200_704, "longest_edge": 400_000}}),
        "size_of_edges": (VGA, {"size": {"height": 224, "width": 224}}),
        "patch_size": (ODD, {"patch_size": 16}),
        "merge_size_1": (ODD, {"merge_size": 1}),
        "merge_size_3": (ODD, {"merge_size": 3}),
        "temporal_1": (ODD, {"temporal_patch_size": 1}),
        "temporal_3": (ODD, {"temporal_patch_size": 3}),
        "small": (
            Picture(13, 30),
            {"patch_size": 4, "size": {"shortest_edge": 64, "longest_edge": 500}},
        ),
        **batches(Picture(90, 130)),
    },
    checkpoints={
        "class_defaults": Checkpoint(
            files={
                "config.json": CONFIG,
                "preprocessor_config.json": {"image_processor_type": "Glm4vImageProcessor"},
            }
        )
    },
)
