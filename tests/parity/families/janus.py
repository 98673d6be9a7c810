"""Janus: the image processor of DeepSeek-VL under another name."""

from families._longest_edge_padded import SIZES
from family import BICUBIC, HALF, NO_MODES, Family, batches, filter_options, value_options, vision_config
from images import Picture

ODD = Picture(117, 203)

FAMILY = Family(
    processor="JanusImageProcessor",
    arguments={
        "do_normalize": True,
        "do_pad": True,
        "do_rescale": True,
        "do_resize": True,
        "min_size": 14,
        "resample": BICUBIC,
        "rescale_factor": 1 / 255,
        "size": {"height": 384, "width": 384},
        **HALF,
    },
    config={
        "image_token_id": 100_581,
        "model_type": "janus",
        "vision_config": vision_config("janus_vision_model", 1024, image_size=384, patch_size=16),
    },
    constructed=("image_mean", "image_std", "resample"),
    sizes=SIZES,
    reordered=("least_width", "vga"),
    options=value_options(ODD, ("no_normalize", "imagenet")),
    rules={
        **filter_options(ODD, BICUBIC),
        "no_pad": (ODD, {"do_pad": False}),
        "side": (ODD, {"size": {"height": 200, "width": 200}}),
        "min_size": (Picture(300, 20), {"min_size": 100}),
        "small": (Picture(13, 30), {"size": {"height": 14, "width": 14}, "min_size": 2}),
        **batches(Picture(90, 130)),
    },
    modes=NO_MODES,
)
