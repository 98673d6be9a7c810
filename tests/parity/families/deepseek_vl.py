"""DeepSeek-VL: the longer edge to a number, the shorter one padded with the mean colour.

The class takes the colour from the mean that it is made with; that of Pillow takes no ``resample=0`` from a call. It
does not convert images to RGB.
"""

from families._longest_edge_padded import SIZES
from family import (
    BICUBIC,
    HALF,
    NEAREST,
    NO_MODES,
    Family,
    batches,
    filter_options,
    value_options,
    vision_config,
)
from images import Picture

ODD = Picture(117, 203)

FAMILY = Family(
    processor="DeepseekVLImageProcessor",
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
        "image_token_id": 100_015,
        "model_type": "deepseek_vl",
        "vision_config": vision_config("siglip_vision_model", 768, image_size=384, patch_size=16),
    },
    constructed=("image_mean", "image_std", "resample"),
    sizes=SIZES,
    reordered=("least_width", "half_tall", "one_column", "vga"),
    options={
        **value_options(ODD, ("no_normalize", "bytes", "imagenet", "mean_alone")),
        "no_rescale": (ODD, {"do_rescale": False}),
        **filter_options(ODD, BICUBIC),
        "nearest": (ODD, {"resample": NEAREST}),
    },
    rules={
        "no_pad": (ODD, {"do_pad": False}),
        "no_pad_mixed": ((ODD, Picture(61, 45)), {"do_pad": False}),
        "no_resize": (ODD, {"do_resize": False}),
        "no_resize_no_pad": (ODD, {"do_resize": False, "do_pad": False}),
        "side": (ODD, {"size": {"height": 200, "width": 200}}),
        "side_oblong": (ODD, {"size": {"height": 200, "width": 300}}),
        "min_size": (Picture(300, 20), {"min_size": 100}),
        "min_size_1": (Picture(300, 1), {"min_size": 1}),
        "small": (Picture(13, 30), {"size": {"height": 14, "width": 14}, "min_size": 2}),
        **batches(Picture(90, 130)),
    },
    modes=NO_MODES,
)
