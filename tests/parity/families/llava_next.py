"""LLaVA-NeXT: the whole image, then the tiles of the pinpoint that keeps most of it; batches are padded to the most."""

from family import (
    BICUBIC,
    CLIP,
    EVERY_STEP,
    FEW_VALUES,
    Checkpoint,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
ARGUMENTS = {
    **EVERY_STEP,
    "size": {"shortest_edge": 336},
    "crop_size": {"height": 336, "width": 336},
    "do_center_crop": True,
    "do_pad": True,
    "image_grid_pinpoints": PINPOINTS,
    "resample": BICUBIC,
    **CLIP,
}
CONFIG = {
    "architectures": ["LlavaNextForConditionalGeneration"],
    "image_grid_pinpoints": PINPOINTS,
    "image_seq_length": 576,
    "image_token_index": 32_000,
    "model_type": "llava_next",
    "multimodal_projector_bias": True,
    "vision_config": vision_config("clip_vision_model", 1024, image_size=336, patch_size=14),
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}
PUBLISHED = {
    "aspect_ratio_setting": "anyres",
    "crop_size": {"height": 336, "width": 336},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_grid_pinpoints": PINPOINTS[:2],
    "image_processor_type": "LlavaNextImageProcessor",
    "processor_class": "LlavaNextProcessor",
    "resample": BICUBIC,
    "rescale_factor": 1 / 255,
    "size": {"shortest_edge": 336},
    **CLIP,
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "small_square": (100, 100),
    "small_tall": (200, 150),
    "small_wide": (120, 301),
    "exact_wide": (336, 672),
    "exact_tall": (672, 336),
    "exact_square": (672, 672),
    "exact_longest": (336, 1008),
    "exact_highest": (1008, 336),
    "odd_margin": (337, 335),
    "odd_margin_wide": (101, 607),
    "over": (700, 703),
    "tall": (1200, 150),
    "wide": (100, 1500),
    "one_row": (1, 700),
    "one_column": (900, 1),
    "vga": (480, 640),
    "between": (340, 680),
}
ODD, SMALL_PINPOINTS = Picture(117, 203), [[224, 448], [448, 224], [448, 448]]

FAMILY = Family(
    processor="LlavaNextImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes=SIZES,
    reordered=("over", "tall", "exact_tall", "vga"),
    options={**value_options(ODD, FEW_VALUES), **filter_options(ODD, BICUBIC)},
    rules={
        "no_pad": (ODD, {"do_pad": False}),
        "no_pad_mixed": ((ODD, Picture(400, 400)), {"do_pad": False}),
        "no_resize": (ODD, {"do_resize": False}),
        "no_crop": (ODD, {"do_center_crop": False}),
        "edges": (ODD, {"size": {"height": 336, "width": 336}}),
        "one_pinpoint": (ODD, {"image_grid_pinpoints": [[336, 336]]}),
        "more_pinpoints": (Picture(350, 1300), {"image_grid_pinpoints": [*PINPOINTS, [336, 1344], [1344, 336]]}),
        "smaller": (
            Picture(300, 500),
            {
                "size": {"shortest_edge": 224},
                "crop_size": {"height": 224, "width": 224},
                "image_grid_pinpoints": SMALL_PINPOINTS,
            },
        ),
        "small": (
            Picture(13, 30),
            {"size": {"shortest_edge": 14}, "crop_size": 14, "image_grid_pinpoints": [[14, 28], [28, 14]]},
        ),
        **batches(Picture(90, 130)),
        "batch_tiles": ((Picture(500, 600), Picture(120, 301), Picture(600, 500)), {}),
    },
    checkpoints={"published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED})},
    unsupported={"no_resize": "do_resize", "no_pad": "do_pad", "no_crop": "do_center_crop"},
)
