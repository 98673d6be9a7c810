"""Llama-4: tiles of the canvas that needs the least scaling, then the whole image; bfloat16 all through."""

from family import (
    ALL_MODES,
    BICUBIC,
    BILINEAR,
    EVERY_STEP,
    HALF,
    IMAGENET,
    LANCZOS,
    TORCHVISION,
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
    "size": {"height": 336, "width": 336},
    "max_patches": 16,
    "resize_to_max_canvas": False,
    "resample": BILINEAR,
    **HALF,
}
CONFIG = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "boi_token_index": 200_080,
    "eoi_token_index": 200_081,
    "image_token_index": 200_092,
    "model_type": "llama4",
    "vision_config": vision_config("llama4_vision_model", 768, image_size=336, patch_size=14, pixel_shuffle_ratio=0.5),
}
CHANGED_CONFIG = {**CONFIG, "vision_config": {**CONFIG["vision_config"], "image_size": 224}}
PUBLISHED = {
    **ARGUMENTS,
    "crop_size": None,
    "data_format": "channels_first",
    "default_to_square": True,
    "device": None,
    "do_center_crop": None,
    "image_processor_type": "Llama4ImageProcessorFast",
    "input_data_format": None,
    "processor_class": "Llama4Processor",
    "return_tensors": None,
}
CHANGED = {
    **ARGUMENTS,
    **IMAGENET,
    "image_processor_type": "Llama4ImageProcessor",
    "max_patches": 4,
    "resize_to_max_canvas": True,
    "size": {"height": 224, "width": 224},
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "one_tile": (300, 200),
    "exact_tile": (336, 336),
    "over_tile": (337, 336),
    "two_tiles": (336, 672),
    "four_tiles": (672, 672),
    "sixteen_tiles": (1344, 1344),
    "over_budget": (1500, 1500),
    "between": (500, 500),
    "padded_three": (999, 333),
    "tall": (3000, 150),
    "wide": (100, 2000),
    "narrow_17": (2000, 17),
    "one_row": (1, 700),
    "one_column": (900, 1),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
}


def options() -> Asked:
    odd, wide = Picture(117, 203), Picture(340, 700)
    return {
        **value_options(odd),
        **{f"tiles_{name}": option for name, option in value_options(wide).items() if name != "two_means"},
        **filter_options(odd, BILINEAR),
        "tiles_lanczos": (wide, {"resample": LANCZOS}),
        "no_resize": (Picture(336, 336), {"do_resize": False}),
        "max_patches_1": (wide, {"max_patches": 1}),
        "max_patches_4": (Picture(1080, 1920), {"max_patches": 4}),
        "max_patches_9": (Picture(1080, 1920), {"max_patches": 9}),
        "max_canvas": (odd, {"resize_to_max_canvas": True}),
        "max_canvas_of_5": (Picture(200, 300), {"resize_to_max_canvas": True, "max_patches": 5}),
        "tile_112": (wide, {"size": {"height": 112, "width": 112}}),
        "tile_number": (odd, {"size": 224}),
        "tile_oblong": (wide, {"size": {"height": 112, "width": 224}}),
        "everything": (
            wide,
            {"resample": BICUBIC, "size": 224, "max_patches": 6, "rescale_factor": 1 / 256, **IMAGENET},
        ),
        "small": (Picture(13, 37), {"size": {"height": 16, "width": 16}}),
        **batches(Picture(90, 130)),
        **nested_batches(Picture(90, 130)),
        "batch_tiles": ((wide, Picture(336, 336), Picture(900, 300), wide._replace(seed=1)), {}),
    }


FAMILY = Family(
    processor="Llama4ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    references=(TORCHVISION,),
    sizes=SIZES,
    options=options(),
    modes=ALL_MODES,
    checkpoints={
        "published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED}),
        "changed": Checkpoint(files={"config.json": CHANGED_CONFIG, "preprocessor_config.json": CHANGED}),
    },
)
