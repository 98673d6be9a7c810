"""What is compared with transformers: families, pictures, options and checkpoint directories, as one table of cases.

A case is one call. ``make.py`` answers every case with the real processors, ``test_goldens.py`` with Foveal.
"""

from typing import Any, NamedTuple

from images import Picture

__all__ = ["CASES", "CHECKPOINTS", "FAMILIES", "UNSUPPORTED", "Case", "Family"]

Options = dict[str, Any]
Images = Any
"""A ``Picture``, or a tuple of them, nested as the call's lists are."""

TORCHVISION, PILLOW, PILLOW_12 = "torchvision", "pillow", "pillow<13"

CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP = {"image_mean": CLIP_MEAN, "image_std": CLIP_STD}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
OF_BYTES = {"image_mean": [120.0, 110.5, 99.75], "image_std": [64.0, 60.5, 71.0]}
LANCZOS, BILINEAR, BICUBIC = 1, 2, 3
EVERY_STEP = {
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "do_convert_rgb": True,
}


class Family(NamedTuple):
    """A family's processor with its published arguments, and what is asked of it.

    Attributes
    ----------
    processor : str
        Class of transformers that uses torchvision; the one that uses Pillow has the suffix ``Pil``.
    arguments : dict
        The values of the published ``preprocessor_config.json``.
    config : dict
        The part of ``config.json`` that preprocessing reads.
    references : tuple of str
    sizes : dict
        Height and width of a picture, by what is special about them.
    reordered : tuple of str
        The sizes at which Pillow 13 runs the vertical pass first, and one at which it does not.
    options : dict
        Images and overrides of a call.
    """

    processor: str
    arguments: Options
    config: Options
    references: tuple[str, ...]
    sizes: dict[str, tuple[int, int]]
    reordered: tuple[str, ...]
    options: dict[str, tuple[Images, Options]]


class Case(NamedTuple):
    """One call: of the family's processor, or of the one that a checkpoint directory describes."""

    family: str
    reference: str
    name: str
    images: Images
    options: Options
    checkpoint: str | None = None

    def __str__(self) -> str:
        return f"{self.family}-{self.reference}-{self.name}"


def value_options(images: Images) -> dict[str, tuple[Images, Options]]:
    """Return the options that change values and not shapes."""
    return {
        "no_normalize": (images, {"do_normalize": False}),
        "no_rescale": (
            images,
            {"do_rescale": False, "image_mean": [120.0, 110.5, 99.75], "image_std": [64.0, 60.5, 71.0]},
        ),
        "bytes": (images, {"do_rescale": False, "do_normalize": False}),
        "factor_alone": (images, {"rescale_factor": 1 / 127.5, "do_normalize": False}),
        "centred": (images, {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0], "image_std": [1.0, 1.0, 1.0]}),
        "imagenet": (images, IMAGENET),
        "mean_alone": (images, {"image_mean": [0.1, 0.2, 0.3]}),
        "two_means": (images, {"image_mean": [0.5, 0.5], "image_std": [0.5, 0.5]}),
    }


def filter_options(images: Images, default: int) -> dict[str, tuple[Images, Options]]:
    filters = {"bilinear": BILINEAR, "bicubic": BICUBIC, "lanczos": LANCZOS}
    return {name: (images, {"resample": number}) for name, number in filters.items() if number != default}


def batches(first: Picture) -> dict[str, tuple[Images, Options]]:
    """Return calls with several images: two of one size, other sizes, nested lists, lists of one."""
    twin = first._replace(seed=1)
    small, tall = Picture(61, 45, seed=2), Picture(224, 56, seed=3)
    return {
        "list_of_one": ((first,), {}),
        "batch_equal": ((first, twin, small), {}),
        "batch_mixed": ((tall, first, small), {}),
        "batch_nested": (((first, small), (tall,)), {}),
        "batch_nested_one": (((first,),), {}),
    }


MODES = ("L", "LA", "RGBA", "P", "P+alpha", "P+key", "L+key", "RGB+key", "1", "CMYK", "YCbCr")
MODES_OF_PILLOW = ("L", "RGBA", "P+alpha")


def modes(reference: str) -> dict[str, tuple[Images, Options]]:
    names = MODES if reference == TORCHVISION else MODES_OF_PILLOW if reference == PILLOW else ()
    return {f"mode_{name}": (Picture(93, 141, name), {}) for name in names}


def qwen_options(patch: int, vertical: Picture) -> dict[str, tuple[Images, Options]]:
    odd, vga, factor = Picture(117, 203), Picture(480, 640), 2 * patch
    other = {14: 16, 16: 14}[patch]
    return {
        **value_options(odd),
        **filter_options(odd, BICUBIC),
        "lanczos_vertical": (vertical, {"resample": LANCZOS}),
        "bilinear_vertical": (vertical, {"resample": BILINEAR}),
        "no_resize": (Picture(3 * factor, 5 * factor), {"do_resize": False}),
        "no_resize_bytes": (
            Picture(3 * factor, 5 * factor),
            {"do_resize": False, "do_rescale": False, "do_normalize": False},
        ),
        "no_resize_odd": (odd, {"do_resize": False}),
        "no_resize_half": (Picture(3 * patch, 2 * factor), {"do_resize": False}),
        "min_pixels": (odd, {"min_pixels": 200_704}),
        "max_pixels": (vga, {"max_pixels": 100_352}),
        "budget_reversed": (vga, {"min_pixels": 100_352, "max_pixels": 50_176}),
        "both_pixels": (odd, {"min_pixels": 100_352, "max_pixels": 120_000}),
        "over_budget": (Picture(1700, 2300), {"max_pixels": 1_003_520}),
        "over_budget_flat": (Picture(factor, 200 * factor), {"max_pixels": 66_000}),
        "size": (vga, {"size": {"shortest_edge": 784, "longest_edge": 50_176}}),
        "size_of_edges": (vga, {"size": {"height": 224, "width": 224}}),
        "size_shortest": (vga, {"size": {"shortest_edge": 3_136}}),
        "patch_size": (odd, {"patch_size": other}),
        "patch_size_8": (odd, {"patch_size": 8}),
        "merge_size_1": (odd, {"merge_size": 1}),
        "merge_size_3": (odd, {"merge_size": 3}),
        "temporal_1": (odd, {"temporal_patch_size": 1}),
        "temporal_3": (odd, {"temporal_patch_size": 3}),
        "patch_merge_temporal": (odd, {"patch_size": other, "merge_size": 4, "temporal_patch_size": 1}),
        "narrow_5": (Picture(403, 5), {"patch_size": 8, "merge_size": 1, "min_pixels": 64}),
        "narrow_3": (Picture(401, 3), {"patch_size": 4, "merge_size": 1, "min_pixels": 16}),
        "everything": (
            vga,
            {"resample": BILINEAR, "max_pixels": 90_000, "patch_size": other, "rescale_factor": 1 / 256, **IMAGENET},
        ),
        "ratio_201_wide": (Picture(1, 201), {}),
        "ratio_201_tall": (Picture(201, 1), {}),
        "small": (Picture(31, 45), {"size": {"shortest_edge": 784, "longest_edge": 2_400}}),
        **batches(Picture(90, 130)),
    }


def qwen_config(name: str, architecture: str, hidden_size: int, patch: int) -> Options:
    vision = {"hidden_size": hidden_size, "in_channels": 3, "patch_size": patch, "spatial_merge_size": 2}
    return {
        "architectures": [architecture],
        "image_token_id": 151_655,
        "model_type": name,
        "video_token_id": 151_656,
        "vision_config": {**vision, "model_type": f"{name}_vision", "temporal_patch_size": 2},
        "vision_start_token_id": 151_652,
    }


def qwen_arguments(patch: int, shortest: int, longest: int, statistics: Options) -> Options:
    return {
        **EVERY_STEP,
        "size": {"shortest_edge": shortest, "longest_edge": longest},
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "resample": BICUBIC,
        **statistics,
    }


QWEN_14_SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (30, 40),
    "square": (224, 224),
    "exact": (280, 420),
    "tall": (777, 123),
    "wide": (200, 1011),
    "ties": (70, 98),
    "ties_odd": (42, 126),
    "ratio_200": (28, 5600),
    "ratio_199": (3980, 20),
    "one_row": (1, 150),
    "one_column": (187, 1),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
    "flattened": (769, 1023),
    "narrow_15": (1016, 15),
    "narrow_17": (2000, 17),
    "narrow_21": (601, 21),
}
QWEN_16_SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (120, 160),
    "square": (256, 256),
    "exact": (512, 384),
    "tall": (1000, 130),
    "wide": (130, 1000),
    "ties": (272, 304),
    "ties_odd": (240, 528),
    "ratio_200": (32, 6400),
    "ratio_199": (3980, 20),
    "one_row": (1, 190),
    "one_column": (187, 1),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
    "flattened": (488, 660),
    "narrow_17": (2090, 17),
    "narrow_21": (4010, 21),
}

LLAVA_SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "enlarged": (100, 150),
    "square": (336, 336),
    "double": (672, 672),
    "only_cropped": (336, 500),
    "one_off": (337, 335),
    "truncated": (101, 127),
    "odd_margin": (336, 337),
    "odd_margin_tall": (901, 335),
    "flattened": (1000, 400),
    "flattened_more": (1411, 603),
    "wide": (400, 1000),
    "one_row": (1, 20),
    "one_column": (25, 1),
    "narrow_6": (40, 6),
    "narrow_17": (2000, 17),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
}
LLAMA_SIZES = {
    "one_pixel": (1, 1),
    "tiny": (3, 5),
    "one_tile": (300, 200),
    "exact_tile": (336, 336),
    "over_tile": (337, 336),
    "two_tiles": (336, 672),
    "four_tiles": (672, 672),
    "sixteen_tiles": (1344, 1344),
    "over_budget": (1500, 1500),
    "between": (500, 500),
    "padded_three": (999, 333),
    "tall": (3000, 150),
    "wide": (100, 2000),
    "narrow_17": (2000, 17),
    "one_row": (1, 700),
    "one_column": (900, 1),
    "vga": (480, 640),
    "full_hd": (1080, 1920),
}


def llava_options() -> dict[str, tuple[Images, Options]]:
    odd, vga, vertical = Picture(117, 203), Picture(480, 640), Picture(1000, 400)
    square = {"height": 336, "width": 336}
    return {
        **value_options(odd),
        **filter_options(odd, BICUBIC),
        "lanczos_vertical": (vertical, {"resample": LANCZOS}),
        "bilinear_vertical": (vertical, {"resample": BILINEAR}),
        "no_resize": (vga, {"do_resize": False}),
        "no_resize_padded": (Picture(100, 51), {"do_resize": False}),
        "no_resize_padded_rows": (Picture(201, 402), {"do_resize": False}),
        "no_resize_padded_columns": (Picture(505, 97), {"do_resize": False}),
        "no_resize_no_crop": (Picture(50, 70), {"do_resize": False, "do_center_crop": False}),
        "no_crop": (odd, {"do_center_crop": False}),
        "no_crop_bytes": (odd, {"do_center_crop": False, "do_rescale": False, "do_normalize": False}),
        "no_crop_mixed": ((odd, Picture(90, 100)), {"do_center_crop": False}),
        "no_crop_equal": ((odd, odd._replace(seed=1)), {"do_center_crop": False}),
        "edge": (odd, {"size": {"shortest_edge": 224}}),
        "edge_number": (odd, {"size": 224}),
        "edges": (odd, {"size": {"height": 350, "width": 400}}),
        "edges_square": (vga, {"size": square}),
        "edges_bounded": (odd, {"size": {"shortest_edge": 224, "longest_edge": 300}}),
        "edge_longest": (odd, {"size": {"longest_edge": 300}}),
        "narrow_1": (Picture(300, 1), {"size": {"height": 100, "width": 64}, "do_center_crop": False}),
        "narrow_3": (Picture(301, 3), {"size": {"height": 100, "width": 65}, "do_center_crop": False}),
        "narrow_7": (Picture(300, 7), {"size": {"height": 101, "width": 8}, "do_center_crop": False}),
        "narrow_20": (Picture(777, 20), {"size": {"height": 333, "width": 19}, "do_center_crop": False}),
        "crop": (odd, {"crop_size": {"height": 224, "width": 280}}),
        "crop_number": (odd, {"crop_size": 225}),
        "crop_larger": (odd, {"size": {"shortest_edge": 200}, "crop_size": {"height": 401, "width": 421}}),
        "crop_larger_bytes": (
            odd,
            {"size": {"shortest_edge": 99}, "crop_size": 336, "do_rescale": False, "do_normalize": False},
        ),
        "crop_wider": (Picture(203, 117), {"crop_size": {"height": 200, "width": 401}}),
        "everything": (
            vga,
            {"resample": BILINEAR, "size": 300, "crop_size": 288, "rescale_factor": 1 / 256, **IMAGENET},
        ),
        "small": (Picture(31, 45), {"size": {"shortest_edge": 24}, "crop_size": {"height": 28, "width": 28}}),
        **batches(Picture(90, 130)),
    }


def llama_options() -> dict[str, tuple[Images, Options]]:
    odd, wide = Picture(117, 203), Picture(340, 700)
    return {
        **value_options(odd),
        **{f"tiles_{name}": option for name, option in value_options(wide).items() if name != "two_means"},
        **filter_options(odd, BILINEAR),
        "tiles_lanczos": (wide, {"resample": LANCZOS}),
        "no_resize": (Picture(336, 336), {"do_resize": False}),
        "max_patches_1": (wide, {"max_patches": 1}),
        "max_patches_4": (Picture(1080, 1920), {"max_patches": 4}),
        "max_patches_9": (Picture(1080, 1920), {"max_patches": 9}),
        "max_canvas": (odd, {"resize_to_max_canvas": True}),
        "max_canvas_of_5": (Picture(200, 300), {"resize_to_max_canvas": True, "max_patches": 5}),
        "tile_112": (wide, {"size": {"height": 112, "width": 112}}),
        "tile_number": (odd, {"size": 224}),
        "tile_oblong": (wide, {"size": {"height": 112, "width": 224}}),
        "everything": (
            wide,
            {"resample": BICUBIC, "size": 224, "max_patches": 6, "rescale_factor": 1 / 256, **IMAGENET},
        ),
        "small": (Picture(13, 37), {"size": {"height": 16, "width": 16}}),
        **batches(Picture(90, 130)),
        "batch_tiles": ((wide, Picture(336, 336), Picture(900, 300), wide._replace(seed=1)), {}),
    }


FAMILIES = {
    "qwen2_vl": Family(
        processor="Qwen2VLImageProcessor",
        arguments=qwen_arguments(14, 3_136, 12_845_056, CLIP),
        config=qwen_config("qwen2_vl", "Qwen2VLForConditionalGeneration", 3584, 14),
        references=(TORCHVISION, PILLOW),
        sizes=QWEN_14_SIZES,
        reordered=("vga", "flattened", "narrow_15", "narrow_17", "narrow_21", "wide"),
        options=qwen_options(14, Picture(769, 1023)),
    ),
    "qwen2_5_vl": Family(
        processor="Qwen2VLImageProcessor",
        arguments=qwen_arguments(14, 3_136, 12_845_056, CLIP),
        config=qwen_config("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", 3584, 14),
        references=(TORCHVISION, PILLOW),
        sizes=QWEN_14_SIZES,
        reordered=("vga", "narrow_17"),
        options={
            "max_pixels": (Picture(480, 640), {"max_pixels": 100_352}),
            "ratio_201_wide": (Picture(1, 201), {}),
            **batches(Picture(90, 130)),
        },
    ),
    "qwen3_vl": Family(
        processor="Qwen2VLImageProcessor",
        arguments=qwen_arguments(16, 65_536, 16_777_216, HALF),
        config=qwen_config("qwen3_vl", "Qwen3VLForConditionalGeneration", 1152, 16),
        references=(TORCHVISION, PILLOW),
        sizes=QWEN_16_SIZES,
        reordered=("flattened", "narrow_17", "narrow_21", "ratio_199", "wide"),
        options=qwen_options(16, Picture(488, 660)),
    ),
    "llava1_5": Family(
        processor="CLIPImageProcessor",
        arguments={
            **EVERY_STEP,
            "size": {"shortest_edge": 336},
            "crop_size": {"height": 336, "width": 336},
            "do_center_crop": True,
            "resample": BICUBIC,
            **CLIP,
        },
        config={
            "architectures": ["LlavaForConditionalGeneration"],
            "image_seq_length": 576,
            "image_token_index": 32_000,
            "model_type": "llava",
            "multimodal_projector_bias": True,
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "model_type": "clip_vision_model",
                "num_channels": 3,
                "patch_size": 14,
            },
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
        },
        references=(TORCHVISION, PILLOW),
        sizes=LLAVA_SIZES,
        reordered=("flattened", "flattened_more", "wide"),
        options=llava_options(),
    ),
    "llama4": Family(
        processor="Llama4ImageProcessor",
        arguments={
            **EVERY_STEP,
            "size": {"height": 336, "width": 336},
            "max_patches": 16,
            "resize_to_max_canvas": False,
            "resample": BILINEAR,
            **HALF,
        },
        config={
            "architectures": ["Llama4ForConditionalGeneration"],
            "boi_token_index": 200_080,
            "eoi_token_index": 200_081,
            "image_token_index": 200_092,
            "model_type": "llama4",
            "vision_config": {
                "hidden_size": 768,
                "image_size": 336,
                "model_type": "llama4_vision_model",
                "num_channels": 3,
                "patch_size": 14,
                "pixel_shuffle_ratio": 0.5,
            },
        },
        references=(TORCHVISION,),
        sizes=LLAMA_SIZES,
        reordered=(),
        options=llama_options(),
    ),
}


class Checkpoint(NamedTuple):
    """A checkpoint directory: its files, of which ``None`` stands for the one that ``save_pretrained`` would write."""

    family: str
    files: dict[str, Options | None]
    images: Images


ORDINARY = Picture(241, 322)
LARGE = Picture(1100, 1000)
"""Larger than the pixel budget that the class has by default, smaller than the published one."""


def with_config(family: str, files: dict[str, Options | None], images: Picture = ORDINARY, **vision: int) -> Checkpoint:
    """Return a checkpoint with the family's ``config.json``, its vision part changed by the named values."""
    config = FAMILIES[family].config
    changed = {**config, "vision_config": {**config["vision_config"], **vision}}
    return Checkpoint(family, {"config.json": changed, **files}, images)


QWEN_TYPE = {"image_processor_type": "Qwen2VLImageProcessor"}
QWEN3 = FAMILIES["qwen3_vl"].arguments
CHECKPOINTS = {
    **{name: with_config(name, {"preprocessor_config.json": None}) for name in FAMILIES},
    "qwen2_vl-published": with_config(
        "qwen2_vl",
        {
            "preprocessor_config.json": {
                "max_pixels": 12_845_056,
                "merge_size": 2,
                "min_pixels": 3_136,
                "patch_size": 14,
                "processor_class": "Qwen2VLProcessor",
                "temporal_patch_size": 2,
                **QWEN_TYPE,
                **CLIP,
            }
        },
    ),
    "qwen2_vl-pixels": with_config(
        "qwen2_vl",
        {"preprocessor_config.json": {"min_pixels": 150_000, "max_pixels": 200_704, **QWEN_TYPE, **CLIP}},
    ),
    "qwen2_vl-class_defaults": with_config("qwen2_vl", {"preprocessor_config.json": QWEN_TYPE}, images=LARGE),
    "qwen2_5_vl-changed": with_config(
        "qwen2_5_vl",
        {
            "preprocessor_config.json": {
                **FAMILIES["qwen2_5_vl"].arguments,
                **IMAGENET,
                **QWEN_TYPE,
                "resample": LANCZOS,
                "size": {"shortest_edge": 784, "longest_edge": 50_176},
            }
        },
    ),
    "qwen3_vl-published": with_config(
        "qwen3_vl",
        {
            "preprocessor_config.json": {
                "image_processor_type": "Qwen2VLImageProcessorFast",
                "merge_size": 2,
                "patch_size": 16,
                "processor_class": "Qwen3VLProcessor",
                "size": QWEN3["size"],
                "temporal_patch_size": 2,
                **HALF,
            }
        },
    ),
    "qwen3_vl-nested": with_config(
        "qwen3_vl",
        {
            "processor_config.json": {
                "image_processor": {**QWEN3, **QWEN_TYPE, "size": {"shortest_edge": 4_096, "longest_edge": 40_960}},
                "processor_class": "Qwen3VLProcessor",
            }
        },
    ),
    "qwen3_vl-nested_wins": with_config(
        "qwen3_vl",
        {
            "preprocessor_config.json": {**QWEN3, **QWEN_TYPE, **IMAGENET},
            "processor_config.json": {
                "image_processor": {**QWEN3, **QWEN_TYPE, "size": {"shortest_edge": 4_096, "longest_edge": 40_960}},
                "processor_class": "Qwen3VLProcessor",
            },
        },
    ),
    "llava1_5-changed": with_config(
        "llava1_5",
        {
            "preprocessor_config.json": {
                **FAMILIES["llava1_5"].arguments,
                **IMAGENET,
                "crop_size": {"height": 224, "width": 224},
                "image_processor_type": "CLIPImageProcessor",
                "processor_class": "LlavaProcessor",
                "resample": BILINEAR,
                "size": {"shortest_edge": 224},
            }
        },
        image_size=224,
    ),
    "llava1_5-class_defaults": with_config(
        "llava1_5", {"preprocessor_config.json": {"image_processor_type": "CLIPImageProcessor"}}
    ),
    "llava1_5-numbers": with_config(
        "llava1_5",
        {
            "preprocessor_config.json": {
                "crop_size": 336,
                "do_center_crop": True,
                "do_normalize": True,
                "do_resize": True,
                "feature_extractor_type": "CLIPFeatureExtractor",
                "resample": BICUBIC,
                "size": 336,
                **CLIP,
            }
        },
    ),
    "llama4-published": with_config(
        "llama4",
        {
            "preprocessor_config.json": {
                **FAMILIES["llama4"].arguments,
                "crop_size": None,
                "data_format": "channels_first",
                "default_to_square": True,
                "device": None,
                "do_center_crop": None,
                "image_processor_type": "Llama4ImageProcessorFast",
                "input_data_format": None,
                "processor_class": "Llama4Processor",
                "return_tensors": None,
            }
        },
    ),
    "llama4-changed": with_config(
        "llama4",
        {
            "preprocessor_config.json": {
                **FAMILIES["llama4"].arguments,
                **IMAGENET,
                "image_processor_type": "Llama4ImageProcessor",
                "max_patches": 4,
                "resize_to_max_canvas": True,
                "size": {"height": 224, "width": 224},
            }
        },
        image_size=224,
    ),
}


def cases_of(name: str, family: Family) -> list[Case]:
    cases = []
    for reference in family.references:
        asked = {size: (Picture(*shape), {}) for size, shape in family.sizes.items()}
        asked |= family.options | modes(reference)
        cases += [Case(name, reference, label, images, options) for label, (images, options) in asked.items()]
    cases += [Case(name, PILLOW_12, label, Picture(*family.sizes[label]), {}) for label in family.reordered]
    cases += [
        Case(name, reference, f"from {directory}", checkpoint.images, {}, directory)
        for directory, checkpoint in CHECKPOINTS.items()
        if checkpoint.family == name
        for reference in family.references
    ]
    return cases


UNSUPPORTED = {"edges_bounded": "longest_edge"}
"""Options that transformers takes and Foveal refuses on purpose, and the word that the refusal must hold."""
CASES = [case for name, family in FAMILIES.items() for case in cases_of(name, family)]
