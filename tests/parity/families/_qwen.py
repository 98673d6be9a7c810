"""What the families of Qwen2-VL's image processor share."""

from family import (
    BICUBIC,
    BILINEAR,
    EVERY_STEP,
    IMAGENET,
    LANCZOS,
    Asked,
    Options,
    batches,
    filter_options,
    nested_batches,
    value_options,
)
from images import Picture

QWEN_TYPE = {"image_processor_type": "Qwen2VLImageProcessor"}

SIZES_14 = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (30, 40),
    "square": (224, 224),
    "exact": (280, 420),
    "tall": (777, 123),
    "wide": (200, 1011),
    "ties": (70, 98),
    "ties_odd": (42, 126),
    "ratio_200": (28, 5600),
    "ratio_199": (3980, 20),
    "one_row": (1, 150),
    "one_column": (187, 1),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
    "flattened": (769, 1023),
    "narrow_15": (1016, 15),
    "narrow_17": (2000, 17),
    "narrow_21": (601, 21),
}


def qwen_options(patch: int, vertical: Picture) -> Asked:
    """Return options that change how a pixel is computed."""
    odd, vga, factor = Picture(117, 203), Picture(480, 640), 2 * patch
    other = {14: 16, 16: 14}[patch]
    return {
        **value_options(odd),
        **filter_options(odd, BICUBIC),
        "lanczos_vertical": (vertical, {"resample": LANCZOS}),
        "bilinear_vertical": (vertical, {"resample": BILINEAR}),
        "no_resize_bytes": (
            Picture(3 * factor, 5 * factor),
            {"do_resize": False, "do_rescale": False, "do_normalize": False},
        ),
        "over_budget": (Picture(1700, 2300), {"max_pixels": 1_003_520}),
        "narrow_5": (Picture(403, 5), {"patch_size": 8, "merge_size": 1, "min_pixels": 64}),
        "narrow_3": (Picture(401, 3), {"patch_size": 4, "merge_size": 1, "min_pixels": 16}),
        "everything": (
            vga,
            {"resample": BILINEAR, "max_pixels": 90_000, "patch_size": other, "rescale_factor": 1 / 256, **IMAGENET},
        ),
        "small": (Picture(31, 45), {"size": {"shortest_edge": 784, "longest_edge": 2_400}}),
    }


def qwen_rules(patch: int) -> Asked:
    """Return options that change sizes and the places of pixels."""
    odd, vga, factor = Picture(117, 203), Picture(480, 640), 2 * patch
    other = {14: 16, 16: 14}[patch]
    return {
        "no_resize": (Picture(3 * factor, 5 * factor), {"do_resize": False}),
        "no_resize_odd": (odd, {"do_resize": False}),
        "no_resize_half": (Picture(3 * patch, 2 * factor), {"do_resize": False}),
        "min_pixels": (odd, {"min_pixels": 200_704}),
        "max_pixels": (vga, {"max_pixels": 100_352}),
        "budget_reversed": (vga, {"min_pixels": 100_352, "max_pixels": 50_176}),
        "both_pixels": (odd, {"min_pixels": 100_352, "max_pixels": 120_000}),
        "over_budget_flat": (Picture(factor, 200 * factor), {"max_pixels": 66_000}),
        "size": (vga, {"size": {"shortest_edge": 784, "longest_edge": 50_176}}),
        "size_of_edges": (vga, {"size": {"height": 224, "width": 224}}),
        "size_shortest": (vga, {"size": {"shortest_edge": 3_136}}),
        "patch_size": (odd, {"patch_size": other}),
        "patch_size_8": (odd, {"patch_size": 8}),
        "merge_size_1": (odd, {"merge_size": 1}),
        "merge_size_3": (odd, {"merge_size": 3}),
        "temporal_1": (odd, {"temporal_patch_size": 1}),
        "temporal_3": (odd, {"temporal_patch_size": 3}),
        "patch_merge_temporal": (odd, {"patch_size": other, "merge_size": 4, "temporal_patch_size": 1}),
        "ratio_201_wide": (Picture(1, 201), {}),
        "ratio_201_tall": (Picture(201, 1), {}),
        **batches(Picture(90, 130)),
        **nested_batches(Picture(90, 130)),
    }


def qwen_config(name: str, architecture: str, hidden_size: int, patch: int) -> Options:
    vision = {"hidden_size": hidden_size, "in_channels": 3, "patch_size": patch, "spatial_merge_size": 2}
    return {
        "architectures": [architecture],
        "image_token_id": 151_655,
        "model_type": name,
        "video_token_id": 151_656,
        "vision_config": {**vision, "model_type": f"{name}_vision", "temporal_patch_size": 2},
        "vision_end_token_id": 151_653,
        "vision_start_token_id": 151_652,
    }


def qwen_arguments(patch: int, shortest: int, longest: int, statistics: Options) -> Options:
    return {
        **EVERY_STEP,
        "size": {"shortest_edge": shortest, "longest_edge": longest},
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "resample": BICUBIC,
        **statistics,
    }
