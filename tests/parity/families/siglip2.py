"""SigLIP 2 NaFlex: as large as a number of patches allows; padded to that number, with a mask."""

from family import (
    BILINEAR,
    EVERY_STEP,
    FEW_VALUES,
    HALF,
    NEAREST,
    Checkpoint,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

ARGUMENTS = {**EVERY_STEP, "max_num_patches": 256, "patch_size": 16, "resample": BILINEAR, **HALF}
CONFIG = {
    "model_type": "siglip2",
    "vision_config": vision_config("siglip2_vision_model", 768, patch_size=16),
}
CHANGED = {**ARGUMENTS, "image_processor_type": "Siglip2ImageProcessor", "max_num_patches": 100, "patch_size": 14}
ODD = Picture(117, 203)

FAMILY = Family(
    processor="Siglip2ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes={
        "one_pixel": (1, 1),
        "two_pixels": (1, 2),
        "tiny": (3, 5),
        "square": (256, 256),
        "one_off": (257, 256),
        "enlarged": (100, 150),
        "wide": (100, 1000),
        "tall": (1000, 100),
        "ratio_256": (8, 2048),
        "one_row": (1, 700),
        "one_column": (900, 1),
        "longer_than_the_limit": (2, 4000),
        "flattened": (700, 20),
        "odd": (333, 777),
        "vga": (480, 640),
        "portrait": (640, 479),
    },
    reordered=("tall", "one_column", "portrait"),
    options={**value_options(ODD, FEW_VALUES), **filter_options(ODD, BILINEAR)},
    rules={
        "nearest": (ODD, {"resample": NEAREST}),
        "no_resize": (Picture(96, 160), {"do_resize": False}),
        "no_resize_odd": (ODD, {"do_resize": False}),
        **{f"max_num_patches_{n}": (ODD, {"max_num_patches": n}) for n in (1, 2, 7, 64, 100, 576, 784)},
        "max_num_patches_30_tall": (Picture(900, 100), {"max_num_patches": 30}),
        "patch_size_14": (ODD, {"patch_size": 14}),
        "patch_size_32": (ODD, {"patch_size": 32, "max_num_patches": 64}),
        "small": (Picture(13, 30), {"patch_size": 4, "max_num_patches": 12}),
        **batches(Picture(90, 130)),
        "batch_no_resize": ((Picture(96, 160), Picture(64, 64)), {"do_resize": False}),
    },
    checkpoints={"changed": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": CHANGED})},
)
