"""Idefics3: three resizes in a row: longest edge, whole tiles, and last the overview; lists are samples."""

from family import (
    EVERY_STEP,
    FEW_VALUES,
    HALF,
    LANCZOS,
    NEAREST,
    Family,
    batches,
    filter_options,
    nested_batches,
    value_options,
    vision_config,
    with_options,
)
from images import Picture

ODD, WIDE = Picture(117, 203), Picture(100, 400)
SIDE = {"size": {"longest_edge": 364}, "max_image_size": {"longest_edge": 91}}
"""A quarter of the published numbers."""

FAMILY = Family(
    processor="Idefics3ImageProcessor",
    arguments={
        **EVERY_STEP,
        "do_image_splitting": True,
        "do_pad": True,
        "max_image_size": {"longest_edge": 364},
        "resample": LANCZOS,
        "size": {"longest_edge": 1456},
        **HALF,
    },
    config={
        "architectures": ["Idefics3ForConditionalGeneration"],
        "image_token_id": 128_257,
        "model_type": "idefics3",
        "scale_factor": 2,
        "vision_config": vision_config("idefics3_vision", 1152, image_size=364, patch_size=14),
    },
    sizes={
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "square": (90, 90),
        "one_row_of_tiles": (100, 400),
        "one_column_of_tiles": (400, 90),
        "exact": (364, 1456),
        "one_over": (92, 367),
        "odd_height": (101, 601),
        "odd_width": (601, 101),
        "shrunk": (250, 2000),
        "one_row": (1, 700),
        "less_than_a_row": (1, 2000),
        "one_column": (900, 1),
        "vga": (480, 640),
    },
    reordered=("shrunk", "vga", "quarter_600x500", "quarter_900x200"),
    options={
        **value_options(WIDE, FEW_VALUES),
        **filter_options(WIDE, LANCZOS),
        "quarter_600x500": (Picture(600, 500), SIDE),
        "quarter_900x200": (Picture(900, 200), SIDE),
        "no_splitting": (ODD, {"do_image_splitting": False}),
        "nested": (((ODD,), (WIDE, Picture(45, 61))), SIDE),
    },
    rules={
        "nearest": (WIDE, {"resample": NEAREST}),
        **{
            f"quarter_{height}x{width}": (Picture(height, width), SIDE)
            for height, width in ((100, 100), (91, 364), (92, 364), (365, 90), (300, 400), (301, 401), (500, 60))
        },
        "no_splitting_tall": (Picture(500, 60), {"do_image_splitting": False}),
        "no_splitting_batch": ((ODD, WIDE), {"do_image_splitting": False}),
        "no_splitting_no_resize": (ODD, {"do_image_splitting": False, "do_resize": False}),
        "no_resize": (ODD, {**SIDE, "do_resize": False}),
        "no_resize_one_tile": (Picture(80, 91), {**SIDE, "do_resize": False}),
        "no_resize_exact": (Picture(182, 273), {**SIDE, "do_resize": False}),
        "no_pad": (WIDE, {**SIDE, "do_pad": False}),
        "no_pad_batch": ((WIDE, WIDE._replace(seed=1)), {**SIDE, "do_pad": False}),
        "no_pad_nested": (((WIDE,), (ODD,)), {**SIDE, "do_pad": False}),
        "one_tile": (ODD, {"size": {"longest_edge": 364}}),
        "longest_edge_not_a_multiple": (ODD, {**SIDE, "size": {"longest_edge": 300}}),
        "longest_edge_beyond_4096": (Picture(20, 2000), {"size": {"longest_edge": 5000}}),
        "tile_size": (ODD, {**SIDE, "max_image_size": {"longest_edge": 182}}),
        "size_of_edges": (ODD, {**SIDE, "size": {"height": 150, "width": 250}}),
        "small": (Picture(13, 30), {"size": {"longest_edge": 28}, "max_image_size": {"longest_edge": 14}}),
        **with_options(batches(Picture(90, 130)) | nested_batches(Picture(90, 130)), SIDE),
        "batch_nested_three": (((ODD,), (WIDE, ODD, ODD), (WIDE, WIDE)), SIDE),
        "batch_nested_empty": (((), (ODD,)), SIDE),
    },
    unsupported={
        "no_resize": "do_resize",
        "no_resize_one_tile": "do_resize",
        "no_resize_exact": "do_resize",
        "no_splitting_no_resize": "do_resize",
        "no_pad": "do_pad",
        "no_pad_batch": "do_pad",
        "size_of_edges": "longest_edge",
    },
)
