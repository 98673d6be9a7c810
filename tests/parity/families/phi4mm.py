"""Phi-4-multimodal: an overview and as many tiles as the image covers; a batch is padded to most tiles."""

from family import BICUBIC, BILINEAR, HALF, NEAREST, TORCHVISION, Family, batches, value_options, vision_config
from images import Picture

ARGUMENTS = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "dynamic_hd": 36,
    "patch_size": 14,
    "resample": BICUBIC,
    "rescale_factor": 1 / 255,
    "size": {"height": 448, "width": 448},
    **HALF,
}
CONFIG = {
    "model_type": "phi4_multimodal",
    "vision_config": vision_config("phi4_multimodal_vision", 1152, image_size=448, patch_size=14),
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "square": (448, 448),
    "exact": (448, 896),
    "one_off": (449, 448),
    "one_tile": (300, 200),
    "one_patch_padded": (434, 448),
    "less_than_a_patch_padded": (435, 448),
    "two_tiles": (300, 500),
    "three_rows": (1000, 300),
    "four_tiles": (500, 600),
    "wide": (60, 1500),
    "tall": (1500, 60),
    "too_narrow": (1, 1000),
    "too_narrow_tall": (700, 5),
    "narrow": (700, 15),
    "over_the_limit": (25, 17_000),
    "vga": (480, 640),
}
ODD, TWO = Picture(117, 203), Picture(300, 500)
MANY = {"size": {"height": 112, "width": 112}}
"""A side at which ordinary images have many tiles."""

FAMILY = Family(
    processor="Phi4MultimodalImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    references=(TORCHVISION,),
    sizes=SIZES,
    options={
        **value_options(TWO, ("no_normalize", "no_rescale", "imagenet")),
        "bytes": (ODD, {"do_rescale": False, "do_normalize": False}),
        "bytes_of_tiles": (TWO, {"do_rescale": False, "do_normalize": False}),
        "bilinear": (TWO, {"resample": BILINEAR}),
        "nearest": (TWO, {"resample": NEAREST}),
        "many_tiles": (Picture(320, 540), MANY),
        "many_rows": (Picture(540, 320), MANY),
        "odd_tiles": (Picture(330, 330), MANY),
        "dynamic_hd_1": (ODD, {"dynamic_hd": 1}),
        "dynamic_hd_4": (Picture(500, 1000), {"dynamic_hd": 4}),
        "dynamic_hd_4_even": (Picture(540, 540), {**MANY, "dynamic_hd": 4}),
        "dynamic_hd_6_small": (Picture(150, 1200), {**MANY, "dynamic_hd": 6}),
        "dynamic_hd_9_tall": (Picture(900, 300), {**MANY, "dynamic_hd": 9}),
        "dynamic_hd_12": (Picture(400, 600), {**MANY, "dynamic_hd": 12}),
        "side_224": (TWO, {"size": {"height": 224, "width": 224}}),
        "side_oblong": (TWO, {"size": {"height": 224, "width": 448}}),
        "patch_size_16": (TWO, {"patch_size": 16}),
        "patch_size_8": (Picture(100, 250), {**MANY, "patch_size": 8}),
        "small": (Picture(13, 17), {"size": {"height": 16, "width": 16}, "patch_size": 4}),
        **batches(Picture(90, 130)),
        "batch_tiles": ((TWO, ODD, Picture(600, 440)), {}),
        "batch_tiles_nested": (((TWO, ODD), (Picture(600, 440),)), MANY),
    },
    unsupported={"bilinear": "resample", "nearest": "resample", "bytes": "dtype", "bytes_of_tiles": "dtype"},
)
