"""SmolVLM and SmolVLM2: Idefics3's image processor with other numbers."""

from families.idefics3 import ODD, SIDE, WIDE
from family import (
    BICUBIC,
    EVERY_STEP,
    HALF,
    LANCZOS,
    ONE_MODE,
    Checkpoint,
    Family,
    batches,
    vision_config,
    with_options,
)
from images import Picture

ARGUMENTS = {
    **EVERY_STEP,
    "do_image_splitting": True,
    "do_pad": True,
    "max_image_size": {"longest_edge": 512},
    "resample": LANCZOS,
    "size": {"longest_edge": 2048},
    **HALF,
}
CONFIG = {
    "architectures": ["SmolVLMForConditionalGeneration"],
    "image_token_id": 128_257,
    "model_type": "smolvlm",
    "scale_factor": 4,
    "vision_config": vision_config("smolvlm_vision", 1152, image_size=512, patch_size=16),
}
SMALLER = {
    **ARGUMENTS,
    "do_convert_rgb": True,
    "image_processor_type": "SmolVLMImageProcessor",
    "processor_class": "SmolVLMProcessor",
    "size": {"longest_edge": 1536},
    "video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 512}},
}

FAMILY = Family(
    processor="Idefics3ImageProcessor",
    arguments=ARGUMENTS,
    config=CONFIG,
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 8),
        "one_row_of_tiles": (100, 400),
        "one_column_of_tiles": (400, 90),
        "exact": (512, 2048),
        "one_over": (101, 400),
        "odd_height": (101, 601),
        "odd_width": (601, 101),
        "shrunk": (250, 2100),
        "one_row": (1, 700),
        "less_than_a_row": (1, 3000),
        "one_column": (900, 1),
        "two_rows": (300, 640),
    },
    reordered=("shrunk", "quarter", "two_rows"),
    options={"quarter": (Picture(900, 200), SIDE), "quarter_bicubic": (ODD, {**SIDE, "resample": BICUBIC})},
    rules={
        "no_splitting": (ODD, {"do_image_splitting": False}),
        "one_tile": (ODD, {"size": {"longest_edge": 512}}),
        "small": (Picture(13, 30), {"size": {"longest_edge": 32}, "max_image_size": {"longest_edge": 16}}),
        **with_options(batches(Picture(90, 130)), SIDE),
        "batch_nested_three": (((ODD,), (WIDE, ODD, ODD), (WIDE, WIDE)), SIDE),
    },
    checkpoints={
        "smaller": Checkpoint(
            files={"config.json": CONFIG, "preprocessor_config.json": SMALLER}, images=Picture(100, 350)
        )
    },
    modes=ONE_MODE,
)
