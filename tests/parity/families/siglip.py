"""SigLIP: every image stretched to a square."""

from family import (
    BICUBIC,
    BOX,
    EVERY_STEP,
    FEW_VALUES,
    HALF,
    HAMMING,
    NEAREST,
    Family,
    batches,
    filter_options,
    stretched_sizes,
    value_options,
    vision_config,
)
from images import Picture

ODD, TALL = Picture(117, 203), Picture(600, 300)

FAMILY = Family(
    processor="SiglipImageProcessor",
    arguments={**EVERY_STEP, "resample": BICUBIC, "size": {"height": 384, "width": 384}, **HALF},
    config={
        "model_type": "siglip",
        "vision_config": vision_config("siglip_vision_model", 768, image_size=384, patch_size=14),
    },
    sizes=stretched_sizes(384),
    reordered=("exact_height", "tall", "one_column", "narrow", "odd", "enlarged"),
    options={
        **value_options(ODD, FEW_VALUES),
        **filter_options(ODD, BICUBIC),
        "nearest": (ODD, {"resample": NEAREST}),
        "nearest_tall": (TALL, {"resample": NEAREST}),
        "box": (ODD, {"resample": BOX}),
        "box_tall": (TALL, {"resample": BOX}),
        "hamming": (ODD, {"resample": HAMMING}),
        "hamming_tall": (TALL, {"resample": HAMMING}),
    },
    rules={
        "no_resize": (ODD, {"do_resize": False}),
        "no_resize_mixed": ((ODD, TALL), {"do_resize": False}),
        "size_number": (ODD, {"size": 100}),
        "size_shortest": (ODD, {"size": {"shortest_edge": 100}}),
        "size_oblong": (ODD, {"size": {"height": 100, "width": 260}}),
        "small": (Picture(13, 30), {"size": {"height": 14, "width": 14}}),
        **batches(Picture(90, 130)),
    },
)
