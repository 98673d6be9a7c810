"""LLaVA-1.5: the shorter edge to a number, then the square in the middle; published with CLIP's image processor."""

from family import (
    ALL_MODES,
    BICUBIC,
    BILINEAR,
    CLIP,
    EVERY_STEP,
    IMAGENET,
    LANCZOS,
    NEAREST,
    Asked,
    Checkpoint,
    Family,
    batches,
    filter_options,
    nested_batches,
    value_options,
    vision_config,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "size": {"shortest_edge": 336},
    "crop_size": {"height": 336, "width": 336},
    "do_center_crop": True,
    "resample": BICUBIC,
    **CLIP,
}
CONFIG = {
    "architectures": ["LlavaForConditionalGeneration"],
    "image_seq_length": 576,
    "image_token_index": 32_000,
    "model_type": "llava",
    "multimodal_projector_bias": True,
    "vision_config": vision_config("clip_vision_model", 1024, image_size=336, patch_size=14),
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}
CHANGED_CONFIG = {**CONFIG, "vision_config": {**CONFIG["vision_config"], "image_size": 224}}
CHANGED = {
    **ARGUMENTS,
    **IMAGENET,
    "crop_size": {"height": 224, "width": 224},
    "image_processor_type": "CLIPImageProcessor",
    "processor_class": "LlavaProcessor",
    "resample": BILINEAR,
    "size": {"shortest_edge": 224},
}
CLASS_DEFAULTS = {"image_processor_type": "CLIPImageProcessor"}
NUMBERS = {
    "crop_size": 336,
    "do_center_crop": True,
    "do_normalize": True,
    "do_resize": True,
    "feature_extractor_type": "CLIPFeatureExtractor",
    "resample": BICUBIC,
    "size": 336,
    **CLIP,
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (100, 150),
    "square": (336, 336),
    "double": (672, 672),
    "only_cropped": (336, 500),
    "one_off": (337, 335),
    "truncated": (101, 127),
    "odd_margin": (336, 337),
    "odd_margin_tall": (901, 335),
    "flattened": (1000, 400),
    "flattened_more": (1411, 603),
    "wide": (400, 1000),
    "one_row": (1, 20),
    "one_column": (25, 1),
    "narrow_6": (40, 6),
    "narrow_17": (2000, 17),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
}


def options() -> Asked:
    """Return options that change how a pixel is computed."""
    odd, vga, vertical = Picture(117, 203), Picture(480, 640), Picture(1000, 400)
    return {
        **value_options(odd),
        **filter_options(odd, BICUBIC),
        "nearest": (odd, {"resample": NEAREST}),
        "lanczos_vertical": (vertical, {"resample": LANCZOS}),
        "bilinear_vertical": (vertical, {"resample": BILINEAR}),
        "no_crop_bytes": (odd, {"do_center_crop": False, "do_rescale": False, "do_normalize": False}),
        "narrow_1": (Picture(300, 1), {"size": {"height": 100, "width": 64}, "do_center_crop": False}),
        "narrow_3": (Picture(301, 3), {"size": {"height": 100, "width": 65}, "do_center_crop": False}),
        "narrow_7": (Picture(300, 7), {"size": {"height": 101, "width": 8}, "do_center_crop": False}),
        "narrow_20": (Picture(777, 20), {"size": {"height": 333, "width": 19}, "do_center_crop": False}),
        "crop_larger_bytes": (
            odd,
            {"size": {"shortest_edge": 99}, "crop_size": 336, "do_rescale": False, "do_normalize": False},
        ),
        "everything": (
            vga,
            {"resample": BILINEAR, "size": 300, "crop_size": 288, "rescale_factor": 1 / 256, **IMAGENET},
        ),
        "small": (Picture(31, 45), {"size": {"shortest_edge": 24}, "crop_size": {"height": 28, "width": 28}}),
    }


def rules() -> Asked:
    """Return options that change sizes and the places of pixels."""
    odd, vga = Picture(117, 203), Picture(480, 640)
    square = {"height": 336, "width": 336}
    return {
        "no_resize": (vga, {"do_resize": False}),
        "no_resize_padded": (Picture(100, 51), {"do_resize": False}),
        "no_resize_padded_rows": (Picture(201, 402), {"do_resize": False}),
        "no_resize_padded_columns": (Picture(505, 97), {"do_resize": False}),
        "no_resize_no_crop": (Picture(50, 70), {"do_resize": False, "do_center_crop": False}),
        "no_crop": (odd, {"do_center_crop": False}),
        "no_crop_mixed": ((odd, Picture(90, 100)), {"do_center_crop": False}),
        "no_crop_equal": ((odd, odd._replace(seed=1)), {"do_center_crop": False}),
        "edge": (odd, {"size": {"shortest_edge": 224}}),
        "edge_number": (odd, {"size": 224}),
        "edges": (odd, {"size": {"height": 350, "width": 400}}),
        "edges_square": (vga, {"size": square}),
        "edges_bounded": (odd, {"size": {"shortest_edge": 224, "longest_edge": 300}}),
        "edge_longest": (odd, {"size": {"longest_edge": 300}}),
        "crop": (odd, {"crop_size": {"height": 224, "width": 280}}),
        "crop_number": (odd, {"crop_size": 225}),
        "crop_larger": (odd, {"size": {"shortest_edge": 200}, "crop_size": {"height": 401, "width": 421}}),
        "crop_wider": (Picture(203, 117), {"crop_size": {"height": 200, "width": 401}}),
        **batches(Picture(90, 130)),
        **nested_batches(Picture(90, 130)),
    }


FAMILY = Family(
    processor="CLIPImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes=SIZES,
    reordered=("flattened", "flattened_more", "wide"),
    options=options(),
    rules=rules(),
    modes=ALL_MODES,
    unsupported={"edges_bounded": "longest_edge"},
    checkpoints={
        "changed": Checkpoint(files={"config.json": CHANGED_CONFIG, "preprocessor_config.json": CHANGED}),
        "class_defaults": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": CLASS_DEFAULTS}),
        "numbers": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": NUMBERS}),
    },
)
