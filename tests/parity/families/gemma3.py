"""Gemma-3: every image stretched to a square; with pan and scan, crops along the longer edge after it."""

from family import (
    BILINEAR,
    EVERY_STEP,
    FEW_VALUES,
    HALF,
    Asked,
    Checkpoint,
    Family,
    batches,
    filter_options,
    nested_batches,
    stretched_sizes,
    value_options,
    vision_config,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "do_pan_and_scan": False,
    "resample": BILINEAR,
    "size": {"height": 896, "width": 896},
    **HALF,
}
NUMBERS = {
    "pan_and_scan_max_num_crops": 4,
    "pan_and_scan_min_crop_size": 256,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}
CONFIG = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "boi_token_index": 255_999,
    "eoi_token_index": 256_000,
    "image_token_index": 262_144,
    "mm_tokens_per_image": 256,
    "model_type": "gemma3",
    "vision_config": vision_config("siglip_vision_model", 768, image_size=896, patch_size=14),
}
PUBLISHED = {
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_pan_and_scan": None,
    "do_rescale": True,
    "do_resize": True,
    "image_processor_type": "Gemma3ImageProcessor",
    "image_seq_length": 256,
    "pan_and_scan_max_num_crops": None,
    "pan_and_scan_min_crop_size": None,
    "pan_and_scan_min_ratio_to_activate": None,
    "processor_class": "Gemma3Processor",
    "resample": BILINEAR,
    "rescale_factor": 1 / 255,
    "size": {"height": 896, "width": 896},
    **HALF,
}
PAN_AND_SCAN = {**ARGUMENTS, **NUMBERS, "do_pan_and_scan": True, "image_processor_type": "Gemma3ImageProcessor"}
ODD, WIDE = Picture(117, 203), Picture(301, 902)
SIDE = {"size": {"height": 224, "width": 224}}
ON = {"do_pan_and_scan": True}


def pan_and_scan() -> Asked:
    """Return pictures that are cut in one way or another, at the published size and at a small one."""
    small = {
        "ratio": (500, 600),
        "ratio_tall": (600, 500),
        "below_ratio": (500, 599),
        "square": (500, 500),
        "too_small": (200, 600),
        "crop_of_the_least_size": (256, 512),
        "crop_below_the_least_size": (256, 511),
        "half_up": (300, 750),
        "half_up_tall": (750, 300),
        "fewer_for_their_size": (401, 1003),
        "narrower_last_crop": (350, 1049),
        "narrower_last_crop_tall": (1049, 350),
        "most": (260, 1900),
        "most_tall": (1901, 261),
    }
    return {
        "pan": (WIDE, ON),
        "pan_tall": (Picture(902, 301), ON),
        "pan_none": (Picture(400, 430), ON),
        **{f"pan_{name}": (Picture(*shape), ON | SIDE) for name, shape in small.items()},
        "pan_lanczos": (WIDE, {**ON, **SIDE, "resample": 1}),
        "pan_no_resize": (WIDE, {**ON, **SIDE, "do_resize": False}),
        "pan_least_size": (ODD, {**ON, **SIDE, "pan_and_scan_min_crop_size": 50}),
        "pan_fewer": (WIDE, {**ON, **SIDE, "pan_and_scan_max_num_crops": 2}),
        "pan_more": (Picture(260, 1900), {**ON, **SIDE, "pan_and_scan_max_num_crops": 9}),
        "pan_ratio_given": (WIDE, {**ON, **SIDE, "pan_and_scan_min_ratio_to_activate": 3.0}),
        "pan_batch": ((WIDE, ODD, WIDE._replace(seed=1), Picture(600, 300)), ON | SIDE),
    }


FAMILY = Family(
    processor="Gemma3ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    passed=NUMBERS,
    sizes=stretched_sizes(896),
    reordered=("exact_height", "tall", "one_column", "pan_tall", "pan_most", "pan_half_up_tall"),
    options={
        **value_options(ODD, FEW_VALUES),
        **filter_options(ODD, BILINEAR),
        "pan_values": (WIDE, {**ON, **SIDE, "do_normalize": False}),
        "pan_narrowest_last_crop": (Picture(350, 1049), {**ON, **SIDE, "resample": 3}),
        "pan_high": (Picture(900, 300), ON | SIDE),
    },
    rules={
        "size_number": (ODD, {"size": 100}),
        "size_oblong": (ODD, {"size": {"height": 100, "width": 260}}),
        "no_resize": (ODD, {"do_resize": False}),
        "small": (Picture(13, 30), {"size": {"height": 14, "width": 14}}),
        **batches(Picture(90, 130)),
        **nested_batches(Picture(90, 130)),
        **pan_and_scan(),
    },
    checkpoints={
        "published": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": PUBLISHED}),
        "pan_and_scan": Checkpoint(
            files={"config.json": CONFIG, "preprocessor_config.json": PAN_AND_SCAN},
            images=(Picture(310, 620), Picture(241, 322)),
        ),
    },
    unsupported={"no_resize": "do_resize", "pan_no_resize": "do_resize"},
)
