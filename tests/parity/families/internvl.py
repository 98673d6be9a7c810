"""InternVL as transformers has it: the tiles of the grid of nearest shape, then a thumbnail.

The processor passes ``crop_to_patches``, whatever the checkpoint says; a caller may switch it off.
"""

from families._tiles import sizes_of_nearest_grid
from family import (
    BICUBIC,
    EVERY_STEP,
    IMAGENET,
    NEAREST,
    Checkpoint,
    Family,
    batches,
    filter_options,
    nested_batches,
    value_options,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "crop_to_patches": True,
    "max_patches": 12,
    "min_patches": 1,
    "resample": BICUBIC,
    "size": {"height": 448, "width": 448},
    **IMAGENET,
}
CONFIG = {
    "architectures": ["InternVLForConditionalGeneration"],
    "downsample_ratio": 0.5,
    "image_seq_length": 256,
    "image_token_id": 151_667,
    "model_type": "internvl",
    "vision_config": {
        "hidden_size": 1024,
        "image_size": [448, 448],
        "model_type": "internvl_vision",
        "num_channels": 3,
        "patch_size": [14, 14],
    },
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "default",
}
PUBLISHED = {
    **ARGUMENTS,
    "crop_size": None,
    "crop_to_patches": False,
    "data_format": "channels_first",
    "default_to_square": True,
    "device": None,
    "do_center_crop": None,
    "image_processor_type": "GotOcr2ImageProcessorFast",
    "input_data_format": None,
    "processor_class": "InternVLProcessor",
    "return_tensors": None,
}
ODD, TWO = Picture(117, 203), Picture(203, 500)

FAMILY = Family(
    processor="GotOcr2ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    passed={"crop_to_patches": True},
    sizes=sizes_of_nearest_grid(448),
    reordered=("half_of_four", "eleven", "one_column", "three_by_four"),
    options={
        **value_options(Picture(100, 203), ("no_normalize", "no_rescale", "bytes", "mean_alone")),
        **filter_options(TWO, BICUBIC),
        "nearest": (TWO, {"resample": NEAREST}),
        "no_crops": (TWO, {"crop_to_patches": False}),
    },
    rules={
        "no_crops_no_resize": (TWO, {"crop_to_patches": False, "do_resize": False}),
        "no_resize": (TWO, {"do_resize": False}),
        "max_patches_1": (TWO, {"max_patches": 1}),
        "max_patches_4": (Picture(300, 400), {"max_patches": 4}),
        "max_patches_6": (Picture(400, 300), {"max_patches": 6}),
        "min_patches_2": (Picture(100, 100), {"min_patches": 2, "max_patches": 4}),
        "min_patches_5": (ODD, {"min_patches": 5}),
        "side_224": (TWO, {"size": {"height": 224, "width": 224}}),
        "side_oblong": (TWO, {"size": {"height": 112, "width": 224}}),
        "small": (Picture(13, 30), {"size": {"height": 12, "width": 12}, "max_patches": 2}),
        **batches(Picture(90, 190)),
        **nested_batches(Picture(90, 190)),
    },
    checkpoints={"published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED})},
    unsupported={"no_resize": "do_resize", "no_crops_no_resize": "do_resize", "side_oblong": "height and width"},
)
