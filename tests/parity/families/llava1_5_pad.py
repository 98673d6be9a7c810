"""LLaVA-1.5 with ``image_aspect_ratio: pad``: padded to a square of the mean colour before the resize."""

from families.llava1_5 import ARGUMENTS, CONFIG
from family import BICUBIC, BILINEAR, NEAREST, Family, batches, filter_options, value_options
from images import Picture

SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "square": (336, 336),
    "small_square": (100, 100),
    "one_off": (337, 336),
    "odd_margin": (101, 128),
    "odd_margin_tall": (203, 90),
    "exact_width": (200, 336),
    "exact_height": (336, 211),
    "wide": (150, 1000),
    "tall": (1000, 150),
    "one_row": (1, 20),
    "one_column": (25, 1),
    "narrow": (700, 17),
    "vga": (480, 640),
}
ODD = Picture(117, 203)

FAMILY = Family(
    spec="llava1_5",
    by_checkpoint=True,
    processor="LlavaImageProcessor",
    arguments={**ARGUMENTS, "do_pad": True},
    config=CONFIG,
    sizes=SIZES,
    reordered=("odd_margin", "wide", "flattened"),
    options={
        **value_options(ODD, ("no_normalize", "bytes", "imagenet")),
        "no_rescale": (ODD, {"do_rescale": False}),
        **filter_options(ODD, BICUBIC),
        "mean_alone": (ODD, {"image_mean": [0.1, 0.2, 0.999]}),
        "flattened": (Picture(640, 480), {"size": {"height": 200, "width": 500}}),
        "nearest": (ODD, {"resample": NEAREST}),
    },
    rules={
        "no_pad": (ODD, {"do_pad": False}),
        "no_resize": (ODD, {"do_resize": False}),
        "no_crop": (ODD, {"do_center_crop": False}),
        "no_crop_no_resize": (ODD, {"do_center_crop": False, "do_resize": False}),
        "edge": (ODD, {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}}),
        "edges": (ODD, {"size": {"height": 350, "width": 400}}),
        "crop": (ODD, {"crop_size": {"height": 224, "width": 280}}),
        "crop_larger": (ODD, {"size": {"shortest_edge": 200}}),
        "bilinear_edge": (ODD, {"size": {"shortest_edge": 300}, "crop_size": 288, "resample": BILINEAR}),
        "small": (Picture(13, 37), {"size": {"shortest_edge": 20}, "crop_size": {"height": 20, "width": 20}}),
        **batches(Picture(90, 130)),
    },
)
