"""InternVL 2, 2.5 and 3 with the code that OpenGVLab publishes; the numbers are those of ``config.json``."""

from typing import Any

from families._tiles import sizes_of_nearest_grid
from family import BICUBIC, IMAGENET, PILLOW, Checkpoint, Family, Images
from images import Picture

ARGUMENTS = {"force_image_size": 448, "max_dynamic_patch": 12, "min_dynamic_patch": 1, "use_thumbnail": True}
CONFIG = {
    "architectures": ["InternVLChatModel"],
    "downsample_ratio": 0.5,
    "dynamic_image_size": True,
    "force_image_size": 448,
    "max_dynamic_patch": 12,
    "min_dynamic_patch": 1,
    "model_type": "internvl_chat",
    "pad2square": False,
    "ps_version": "v2",
    "select_layer": -1,
    "template": "internvl2_5",
    "use_thumbnail": True,
    "vision_config": {
        "architectures": ["InternVisionModel"],
        "hidden_size": 1024,
        "image_size": 448,
        "model_type": "intern_vit_6b",
        "num_channels": 3,
        "patch_size": 14,
    },
}
PREPROCESSOR = {
    "crop_size": 448,
    "do_center_crop": True,
    "do_normalize": True,
    "do_resize": True,
    "feature_extractor_type": "CLIPFeatureExtractor",
    "resample": BICUBIC,
    "size": 448,
    **IMAGENET,
}
ODD, TWO = Picture(117, 203), Picture(203, 500)


def with_config(images: Images, **fields: Any) -> Checkpoint:
    """Return a checkpoint whose ``config.json`` has other values in these fields."""
    return Checkpoint(
        files={"config.json": {**CONFIG, **fields}, "preprocessor_config.json": PREPROCESSOR}, images=images
    )


FAMILY = Family(
    processor="InternVLChat",
    arguments=ARGUMENTS,
    config=CONFIG,
    preprocessor=PREPROCESSOR,
    references=(PILLOW,),
    sizes=sizes_of_nearest_grid(448),
    reordered=("half_of_four", "eleven", "one_column", "three_by_four"),
    options={
        "list_of_one": ((ODD,), {}),
        "batch_equal": ((ODD, ODD._replace(seed=1)), {}),
        "batch_mixed": ((ODD, Picture(61, 45), Picture(224, 56)), {}),
    },
    modes={PILLOW: ("L", "P")},
    checkpoints={
        "most_1": with_config(TWO, max_dynamic_patch=1),
        "most_4": with_config(Picture(300, 400), max_dynamic_patch=4),
        "most_6": with_config(Picture(400, 300), max_dynamic_patch=6),
        "most_24": with_config(Picture(100, 750), max_dynamic_patch=24),
        "fewest_2": with_config(Picture(100, 100), min_dynamic_patch=2, max_dynamic_patch=4),
        "fewest_5": with_config(ODD, min_dynamic_patch=5),
        "no_thumbnail": with_config(TWO, use_thumbnail=False),
        "side_224": with_config(
            (Picture(241, 322), Picture(100, 100)),
            force_image_size=224,
            vision_config={**CONFIG["vision_config"], "image_size": 224},
        ),
    },
)
