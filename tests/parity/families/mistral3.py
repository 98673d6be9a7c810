"""Mistral-3: Pixtral's image processor; the processor passes its patch size times the model's spatial merge size."""

from family import (
    BICUBIC,
    CLIP,
    EVERY_STEP,
    ONE_MODE,
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
    "patch_size": {"height": 14, "width": 14},
    "resample": BICUBIC,
    "size": {"longest_edge": 1540},
    **CLIP,
}
CONFIG = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "image_token_index": 10,
    "model_type": "mistral3",
    "multimodal_projector_bias": False,
    "spatial_merge_size": 2,
    "vision_config": vision_config("pixtral", 1024, image_size=1540, patch_size=14),
    "vision_feature_layer": -1,
}
PUBLISHED = {
    "crop_size": None,
    "data_format": "channels_first",
    "default_to_square": True,
    "device": None,
    "do_center_crop": None,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_processor_type": "PixtralImageProcessorFast",
    "input_data_format": None,
    "patch_size": 14,
    "processor_class": "PixtralProcessor",
    "resample": BICUBIC,
    "rescale_factor": 1 / 255,
    "return_tensors": None,
    "size": {"longest_edge": 1540},
    **CLIP,
}
PROCESSOR = {"patch_size": 14, "processor_class": "PixtralProcessor", "spatial_merge_size": 2}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "exact": (280, 420),
    "one_more": (281, 421),
    "one_less": (279, 419),
    "odd_patches": (42, 70),
    "at_the_limit": (100, 1540),
    "one_over": (300, 1541),
    "over": (1700, 200),
    "over_flat": (60, 4000),
    "vanishing": (1, 2000),
    "one_row": (1, 1000),
    "one_column": (1000, 1),
    "vga": (480, 640),
    "flattened": (500, 27),
}
ODD = Picture(117, 203)

FAMILY = Family(
    processor="PixtralImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    passed={"patch_size": 28},
    sizes=SIZES,
    reordered=("over", "flattened", "vga"),
    options={**value_options(ODD, ("no_normalize", "imagenet")), **filter_options(ODD, BICUBIC)},
    rules={
        "no_resize": (Picture(56, 84), {"do_resize": False}),
        "longest_edge": (ODD, {"size": {"longest_edge": 100}}),
        "edges": (ODD, {"size": {"height": 64, "width": 128}}),
        "small": (Picture(13, 30), {"size": {"longest_edge": 28}}),
        **batches(Picture(90, 130)),
    },
    checkpoints={
        "published": Checkpoint(
            files={
                "config.json": CONFIG,
                "preprocessor_config.json": PUBLISHED,
                "processor_config.json": PROCESSOR,
            }
        ),
        "no_merge": Checkpoint(
            files={
                "config.json": {**CONFIG, "spatial_merge_size": 1},
                "preprocessor_config.json": PUBLISHED,
                "processor_config.json": {**PROCESSOR, "spatial_merge_size": 1},
            },
            passed={"patch_size": 14},
        ),
    },
    modes=ONE_MODE,
)
