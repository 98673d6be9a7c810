"""Phi-3-vision and Phi-3.5-vision: an overview and up to 16 or 4 tiles; every image is padded to that many."""

from family import CLIP, PILLOW, Checkpoint, Family, value_options
from images import Picture

ARGUMENTS = {
    "do_convert_rgb": True,
    "image_processor_type": "Phi3VImageProcessor",
    "num_crops": 16,
    "num_img_tokens": 144,
    **CLIP,
}
CONFIG = {
    "architectures": ["Phi3VForCausalLM"],
    "img_processor": {
        "image_dim_out": 1024,
        "model_name": "openai/clip-vit-large-patch14-336",
        "name": "clip_vision_model",
        "num_img_tokens": 144,
    },
    "model_type": "phi3_v",
}
PHI_3_5 = {
    "auto_map": {
        "AutoImageProcessor": "processing_phi3_v.Phi3VImageProcessor",
        "AutoProcessor": "processing_phi3_v.Phi3VProcessor",
    },
    **ARGUMENTS,
    "num_crops": 4,
    "processor_class": "Phi3VProcessor",
}
SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "square": (336, 336),
    "exact": (336, 672),
    "landscape": (300, 400),
    "portrait": (400, 300),
    "odd_margin": (201, 353),
    "odd_margin_tall": (353, 201),
    "wide": (100, 1000),
    "tall": (1000, 100),
    "shrunk": (1400, 90),
    "one_row": (1, 8),
    "one_column": (9, 1),
    "no_row": (1, 5500),
    "no_column": (5500, 1),
    "vga": (480, 640),
}
ODD = Picture(117, 203)


def four(*shapes: tuple[int, int]) -> dict[str, tuple[Picture, dict[str, int]]]:
    """Return cases of four tiles at most, by their size."""
    return {f"four_{height}x{width}": (Picture(height, width), {"num_crops": 4}) for height, width in shapes}


FAMILY = Family(
    processor="Phi3V",
    arguments=ARGUMENTS,
    config=CONFIG,
    references=(PILLOW,),
    sizes=SIZES,
    reordered=("tall", "four_1500x400", "four_900x1100"),
    options={
        **four((1, 1), (3, 5), (200, 200), (400, 600), (600, 400), (700, 301), (301, 700), (100, 900), (900, 100)),
        **four((1, 4), (5, 1), (1, 1344), (1344, 1), (1, 1345), (672, 672), (672, 673), (400, 1500), (1500, 400)),
        **four((900, 1100)),
        **value_options(ODD, ("mean_alone",)),
        "imagenet": (ODD, {"num_crops": 4, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
        "num_crops_1": (ODD, {"num_crops": 1}),
        "num_crops_2": (ODD, {"num_crops": 2}),
        "num_crops_9": (Picture(500, 400), {"num_crops": 9}),
        "list_of_one": ((ODD,), {"num_crops": 4}),
        "batch_equal": ((ODD, ODD._replace(seed=1)), {"num_crops": 4}),
        "batch_mixed": ((ODD, Picture(500, 100), Picture(61, 45)), {"num_crops": 4}),
    },
    modes={PILLOW: ("L", "RGBA", "P+alpha")},
    checkpoints={
        "5": Checkpoint(files={"config.json": CONFIG, "preprocessor_config.json": {**ARGUMENTS, "num_crops": 4}}),
        "5_published": Checkpoint(
            files={"config.json": CONFIG, "preprocessor_config.json": PHI_3_5},
            images=(Picture(241, 322), Picture(60, 50)),
        ),
    },
)
