"""Gemma-3n: SigLIP's image processor with bilinear resampling and no normalization."""

from family import (
    BILINEAR,
    EVERY_STEP,
    HALF,
    ONE_MODE,
    Family,
    batches,
    filter_options,
    stretched_sizes,
    value_options,
)
from images import Picture

ODD = Picture(117, 203)

FAMILY = Family(
    processor="SiglipImageProcessor",
    arguments={
        **EVERY_STEP,
        "do_normalize": False,
        "resample": BILINEAR,
        "size": {"height": 768, "width": 768},
        **HALF,
    },
    config={
        "image_token_id": 262_145,
        "model_type": "gemma3n",
        "vision_config": {"hidden_size": 2048, "model_type": "gemma3n_vision"},
    },
    sizes=stretched_sizes(768),
    reordered=("exact_height", "tall", "one_column"),
    options={"normalize": (ODD, {"do_normalize": True}), **value_options(ODD, ("bytes",))},
    rules={
        **filter_options(ODD, BILINEAR),
        "size_number": (ODD, {"size": 100}),
        "size_oblong": (ODD, {"size": {"height": 100, "width": 260}}),
        "small": (Picture(13, 30), {"size": {"height": 14, "width": 14}}),
        **batches(Picture(90, 130)),
    },
    modes=ONE_MODE,
)
