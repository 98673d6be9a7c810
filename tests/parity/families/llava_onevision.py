"""LLaVA-OneVision: the whole image and tiles for an image alone in its list; a padded square for one of several."""

from family import (
    BICUBIC,
    EVERY_STEP,
    FEW_VALUES,
    HALF,
    NEAREST,
    Checkpoint,
    Family,
    batches,
    filter_options,
    nested_batches,
    value_options,
    vision_config,
    with_options,
)
from images import Picture

SIDES = range(384, 2305, 384)
PINPOINTS = [[height, width] for height in SIDES for width in SIDES]
ARGUMENTS = {
    **EVERY_STEP,
    "do_pad": True,
    "image_grid_pinpoints": PINPOINTS,
    "resample": BICUBIC,
    "size": {"height": 384, "width": 384},
    **HALF,
}
CONFIG = {
    "architectures": ["LlavaOnevisionForConditionalGeneration"],
    "image_grid_pinpoints": PINPOINTS,
    "image_token_index": 151_646,
    "model_type": "llava_onevision",
    "multimodal_projector_bias": True,
    "vision_aspect_ratio": "anyres_max_9",
    "vision_config": vision_config("siglip_vision_model", 1152, image_size=384, patch_size=14),
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
}
CHANGED = {
    **ARGUMENTS,
    "image_grid_pinpoints": [[224, 448], [448, 224], [448, 448]],
    "image_processor_type": "LlavaOnevisionImageProcessor",
    "processor_class": "LlavaOnevisionProcessor",
    "size": {"height": 224, "width": 224},
}
ODD, SMALL, TALL = Picture(117, 203), Picture(61, 45, seed=2), Picture(300, 90, seed=3)
SMALLER = {
    "size": {"height": 96, "width": 96},
    "image_grid_pinpoints": [[height // 4, width // 4] for height, width in PINPOINTS],
}
"""A quarter of the published numbers."""
SHAPES = ((97, 96), (150, 150), (100, 500), (400, 300), (577, 100), (60, 700), (580, 580), (288, 100), (1, 577))

FAMILY = Family(
    processor="LlavaOnevisionImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    constructed=("image_mean", "image_std"),
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "one_tile": (200, 300),
        "exact": (384, 384),
        "one_higher": (385, 384),
        "exact_two": (384, 768),
        "odd_margin": (301, 607),
        "odd_margin_tall": (607, 301),
        "four": (600, 603),
        "wide": (100, 1500),
        "tall": (1500, 100),
        "beyond": (40, 2500),
        "one_row": (1, 700),
        "one_column": (900, 1),
        "vga": (480, 640),
    },
    reordered=("odd_margin_tall", "one_column", "smaller_577x100", "many"),
    options={
        **value_options(ODD, FEW_VALUES),
        **filter_options(ODD, BICUBIC),
        "many": (((ODD, TALL),), {}),
        "many_imagenet": (((ODD, TALL),), {"image_mean": [0.1, 0.5, 0.999], "image_std": [0.3, 0.3, 0.3]}),
        "many_and_one": (((ODD, TALL), (SMALL,)), {}),
        "many_bytes": (((SMALL, TALL),), {"do_rescale": False, "do_normalize": False}),
    },
    rules={
        "nearest": (ODD, {"resample": NEAREST}),
        "no_pad": (ODD, {"do_pad": False}),
        "no_pad_mixed": ((ODD, Picture(600, 600)), {"do_pad": False}),
        "no_pad_many": (((ODD, TALL),), {"do_pad": False}),
        "no_resize": (ODD, {"do_resize": False}),
        **{f"smaller_{height}x{width}": (Picture(height, width), SMALLER) for height, width in SHAPES},
        "one_pinpoint": (ODD, {"image_grid_pinpoints": [[384, 384]]}),
        "small": (
            Picture(13, 30),
            {"size": {"height": 14, "width": 14}, "image_grid_pinpoints": [[14, 28], [28, 14]]},
        ),
        **with_options(batches(Picture(90, 130)) | nested_batches(Picture(90, 130)), SMALLER),
        "many_equal": (((ODD, ODD._replace(seed=1)), (ODD, SMALL, SMALL)), SMALLER),
        "many_squares": (((Picture(100, 100), Picture(96, 96)),), SMALLER),
        "many_one_pixel_wide": (((Picture(200, 1), Picture(1, 90)),), SMALLER),
        "many_empty": (((), (ODD, SMALL)), SMALLER),
    },
    checkpoints={
        "changed": Checkpoint(
            files={"config.json": CONFIG, "preprocessor_config.json": CHANGED},
            images=((Picture(241, 322),), (ODD, TALL)),
        )
    },
    unsupported={"no_resize": "do_resize", "no_pad": "do_pad", "no_pad_many": "do_pad"},
)
