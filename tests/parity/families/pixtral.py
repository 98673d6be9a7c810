"""Pixtral: the longest edge bounded, each edge then up to whole patches; a batch is padded to the largest."""

from family import (
    BICUBIC,
    CLIP,
    EVERY_STEP,
    FEW_VALUES,
    NEAREST,
    Checkpoint,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "do_pad": True,
    "patch_size": {"height": 16, "width": 16},
    "resample": BICUBIC,
    "size": {"longest_edge": 1024},
    **CLIP,
}
CONFIG = {
    "architectures": ["LlavaForConditionalGeneration"],
    "image_seq_length": 576,
    "image_token_index": 10,
    "model_type": "llava",
    "multimodal_projector_bias": True,
    "vision_config": vision_config("pixtral", 1024, image_size=1024, patch_size=16),
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}
PUBLISHED = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_processor_type": "PixtralImageProcessor",
    "patch_size": 16,
    "processor_class": "PixtralProcessor",
    "resample": BICUBIC,
    "rescale_factor": 1 / 255,
    "size": {"longest_edge": 512},
    **CLIP,
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "exact": (160, 240),
    "one_more": (161, 241),
    "one_less": (159, 239),
    "odd": (333, 777),
    "at_the_limit": (200, 1024),
    "one_over": (300, 1025),
    "over": (1300, 500),
    "over_flat": (90, 3000),
    "over_tall": (2049, 101),
    "vanishing": (1, 1500),
    "vanishing_tall": (3000, 2),
    "one_row": (1, 1024),
    "one_column": (1000, 1),
    "vga": (480, 640),
    "flattened": (1005, 20),
}
ODD, SMALL = Picture(117, 203), Picture(61, 45, seed=2)

FAMILY = Family(
    processor="PixtralImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes=SIZES,
    reordered=("over", "over_tall", "flattened", "odd"),
    options={
        **value_options(ODD, FEW_VALUES),
        **filter_options(ODD, BICUBIC),
        "nearest": (ODD, {"resample": NEAREST}),
        "batch_mixed_bytes": ((ODD, SMALL), {"do_rescale": False, "do_normalize": False}),
    },
    rules={
        "no_resize": (Picture(96, 160), {"do_resize": False}),
        "no_resize_odd": (ODD, {"do_resize": False}),
        "no_pad": (ODD, {"do_pad": False}),
        "no_pad_mixed": ((ODD, SMALL), {"do_pad": False}),
        "no_pad_equal": ((ODD, ODD._replace(seed=1)), {"do_pad": False}),
        "longest_edge": (ODD, {"size": {"longest_edge": 100}}),
        "longest_edge_square": (Picture(500, 500), {"size": {"longest_edge": 333}}),
        "edges": (ODD, {"size": {"height": 64, "width": 128}}),
        "edges_tall": (Picture(500, 90), {"size": {"height": 300, "width": 60}}),
        "patch_size": (ODD, {"patch_size": 14}),
        "patch_size_named": (ODD, {"patch_size": {"height": 28, "width": 28}}),
        "patch_size_oblong": (ODD, {"patch_size": {"height": 16, "width": 32}}),
        "small": (Picture(13, 30), {"size": {"longest_edge": 24}, "patch_size": 8}),
        **batches(Picture(90, 130)),
    },
    checkpoints={
        "published": Checkpoint(
            files={
                "config.json": CONFIG,
                "preprocessor_config.json": PUBLISHED,
                "processor_config.json": {"patch_size": 16, "processor_class": "PixtralProcessor"},
            },
            images=(Picture(600, 300), Picture(241, 322)),
        )
    },
    unsupported={"no_pad": "do_pad", "no_pad_equal": "do_pad", "patch_size_oblong": "height and width"},
)
