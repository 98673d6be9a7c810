"""Write rules.json: what transformers itself answers for the rules of rules.py, and crops.json for center crops.

Run with the extra ``foveal[reference]`` installed: ``python tests/plan/make_tables.py``.
"""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torchvision
import transformers
from rules import OURS, PINPOINTS, Answer, table_sizes
from transformers.image_processing_utils import get_patch_output_size, select_best_resolution
from transformers.image_transforms import center_crop, get_resize_output_image_size
from transformers.image_utils import ChannelDimension, SizeDict
from transformers.models.clip.image_processing_clip import CLIPImageProcessor
from transformers.models.cohere2_vision import image_processing_cohere2_vision as cohere2_vision
from transformers.models.deepseek_vl.image_processing_deepseek_vl import DeepseekVLImageProcessor
from transformers.models.gemma3.image_processing_gemma3 import Gemma3ImageProcessor
from transformers.models.gemma4.image_processing_gemma4 import get_aspect_ratio_preserving_size
from transformers.models.glm4v import image_processing_glm4v as glm4v
from transformers.models.got_ocr2 import image_processing_got_ocr2 as got_ocr2
from transformers.models.idefics3 import image_processing_idefics3 as idefics3
from transformers.models.kimi_k25.image_processing_kimi_k25 import navit_resize
from transformers.models.llama4 import image_processing_llama4 as llama4
from transformers.models.mllama import image_processing_mllama as mllama
from transformers.models.molmo2.image_processing_molmo2 import compute_crop_geometry
from transformers.models.ovis2.image_processing_ovis2 import get_min_tile_covering_grid
from transformers.models.phi4_multimodal import image_processing_phi4_multimodal as phi4_multimodal
from transformers.models.pixtral import image_processing_pixtral as pixtral
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize
from transformers.models.siglip2.image_processing_siglip2 import get_image_size_for_max_num_patches

__all__ = ["THEIRS", "make_crops", "make_rules", "theirs"]

FOLDER = Path(__file__).parent
REFUSALS = (ValueError, ZeroDivisionError, RuntimeError)
"""What a reference raises for sizes that it cannot answer."""


def theirs(name: str, height: int, width: int) -> Answer:
    """Return the reference's answer; one with a side of nothing is a refusal."""
    try:
        found = [int(number) for number in THEIRS[name](height, width)]
    except REFUSALS:
        return None
    return found if name.startswith("pan_and_scan") or all(found) else None


def blank(height: int, width: int) -> torch.Tensor:
    """Return an image without pixels."""
    return torch.empty((3, height, width), dtype=torch.uint8, device="meta")


def shortest(height, width, edge):
    image = np.broadcast_to(np.uint8(0), (3, height, width))
    return get_resize_output_image_size(image, edge, default_to_square=False, input_data_format=ChannelDimension.FIRST)


def bounded(height, width, bound, patch):
    return pixtral.get_resize_output_image_size(blank(height, width), bound, patch, ChannelDimension.FIRST)


def resized(processor, method, height, width, **arguments):
    """Return the size to which a processor's method resizes."""
    kept = []
    spy = SimpleNamespace(resize=lambda image, size, **_: kept.append((size.height, size.width)))
    getattr(processor, method)(spy, blank(height, width), **arguments)
    return kept[0]


def longest_side(height, width, side, least):
    size = SizeDict(height=side, width=side)
    made = DeepseekVLImageProcessor().resize(blank(height, width), size, least, resample=None)
    return made.shape[-2:]


def navit(height, width, patch, patches, side):
    return navit_resize(height, width, patch, 1, patches, side)[0]


def limited(height, width, patch, patches):
    """Follow the published code of moonshotai/Kimi-VL-A3B-Instruct, image_processing_kimi_vl.py, rescale."""
    if (width // patch) * (height // patch) <= patches:
        return height, width
    scale = math.sqrt(patches / ((width // patch) * (height // patch)))
    return int(height * scale), int(width * scale)


def pooled(height, width, patch, pool, features):
    return get_aspect_ratio_preserving_size(height, width, patch, features * pool**2, pool)


def llama(height, width, tile, tiles, largest):
    """Follow the reference's own steps between its functions, with its own mix of tensors and numbers."""
    resolutions = torch.tensor(llama4.find_supported_resolutions(tiles, SizeDict(height=tile, width=tile)))
    canvas = llama4.get_best_fit((height, width), resolutions, resize_to_max_canvas=largest)
    bound = canvas if largest else (min(max(height, tile), canvas[0]), min(max(width, tile), canvas[1]))
    inside = llama4.get_max_res_without_distortion((height, width), bound)
    return [*canvas, max(int(inside[0]), 1), max(int(inside[1]), 1)]


def tiled(height, width, tile, tiles):
    canvas = mllama.get_optimal_tiled_canvas(height, width, tiles, tile)
    return [*canvas, *mllama.get_image_size_fit_to_canvas(height, width, *canvas, tile)]


def best_resolution(height, width, name):
    canvas = select_best_resolution((height, width), PINPOINTS[name])
    return [*canvas, *get_patch_output_size(blank(height, width), canvas, ChannelDimension.FIRST)]


def dynamic_hd(height, width, tile, tiles):
    """Watch the two calls with which the method resizes and pads."""
    kept = []
    calls = SimpleNamespace(
        resize=lambda image, size: kept.append(size), pad=lambda image, sides, fill: kept.append(sides)
    )
    original, phi4_multimodal.tvF = phi4_multimodal.tvF, calls
    try:
        processor = phi4_multimodal.Phi4MultimodalImageProcessor()
        processor.dynamic_preprocess(SimpleNamespace(shape=(3, height, width), device="cpu"), tile, 14, 2, tiles)
    finally:
        phi4_multimodal.tvF = original
    (high, wide), (_, _, beside, below) = kept
    return [high + below, wide + beside, high, wide]


def hd_transform(height, width, tiles):
    """Follow the published code of microsoft/Phi-3.5-vision-instruct, processing_phi3_v.py, on sizes alone."""
    if width < height:
        high, wide, across, along = hd_transform(width, height, tiles)
        return [wide, high, along, across]
    ratio = width / height
    scale = 1
    while scale * np.ceil(scale / ratio) <= tiles:
        scale += 1
    wide = int((scale - 1) * 336)
    high = int(wide / ratio)
    return [int(np.ceil(high / 336) * 336), wide, high, wide]


def closest(height, width, tile, least, most):
    columns, rows = got_ocr2.get_optimal_tiled_canvas((height, width), (tile, tile), least, most)
    return rows * tile, columns * tile


def closest_of_set(height, width, tile, least, most):
    """Sort a set, as OpenGVLab/InternVL2_5-8B, README.md, dynamic_preprocess, and as the class of Phi-4 does."""
    numbers = range(least, most + 1)
    ratios = {(i, j) for n in numbers for i in range(1, n + 1) for j in range(1, n + 1) if least <= i * j <= most}
    processor = phi4_multimodal.Phi4MultimodalImageProcessor
    ordered = sorted(ratios, key=lambda ratio: ratio[0] * ratio[1])
    columns, rows = processor.find_closest_aspect_ratio(None, width / height, ordered, width, height, tile)
    return rows * tile, columns * tile


def covering(height, width, tile, tiles):
    """Use the grid of rows and columns as columns and rows, as the reference does."""
    columns, rows = get_min_tile_covering_grid((height, width), tile, tiles)
    return rows * tile, columns * tile


def upscaled(height, width, tile, tiles):
    columns, rows = cohere2_vision.get_optimal_tiled_canvas((height, width), (tile, tile), 1, tiles)
    return rows * tile, columns * tile


def overlapping(height, width, tile, before, after, tiles):
    return compute_crop_geometry(height, width, tiles, [before, after], tile, 14)[2:]


def panned(height, width, least, most, ratio):
    """Find the places of crops from where in memory they begin."""
    image = torch.empty((height, width), dtype=torch.uint8, device="meta")
    crops = Gemma3ImageProcessor.pan_and_scan_batched(None, image, least, most, ratio)
    if any(0 in crop.shape for crop in crops):
        raise ValueError("a crop is empty")
    return [number for crop in crops for number in (*divmod(crop.storage_offset(), width), *crop.shape)]


THEIRS: dict[str, Callable] = {
    "smart_resize 28": partial(smart_resize, factor=28, min_pixels=3136, max_pixels=12845056),
    "smart_resize 32": partial(smart_resize, factor=32, min_pixels=65536, max_pixels=16777216),
    "smart_resize 28 tight": partial(smart_resize, factor=28, min_pixels=50000, max_pixels=100000),
    "smart_resize 28 frames": partial(glm4v.smart_resize, 2, min_pixels=12544, max_pixels=9633792),
    "resize 336": partial(shortest, edge=336),
    "resize_bounded_edge 1024": partial(bounded, bound=1024, patch=16),
    "resize_bounded_edge 1540": partial(bounded, bound=1540, patch=28),
    "resize_bounded_edge 300x700": partial(bounded, bound=(300, 700), patch=14),
    "resize_longest_edge 1456": lambda *size: idefics3.get_resize_output_image_size(blank(*size), 1456),
    "resize_longest_edge 5001": lambda *size: idefics3.get_resize_output_image_size(blank(*size), 5001),
    "resize_to_multiple 364": partial(
        resized, idefics3.Idefics3ImageProcessor, "resize_for_vision_encoder", vision_encoder_max_size=364
    ),
    "resize_to_multiple 512": partial(
        resized, idefics3.Idefics3ImageProcessor, "resize_for_vision_encoder", vision_encoder_max_size=512
    ),
    "resize_longest_side 384": partial(longest_side, side=384, least=14),
    "resize_longest_side 101": partial(longest_side, side=101, least=30),
    "navit_resize 16384": partial(navit, patch=14, patches=16384, side=512),
    "navit_resize 100": partial(navit, patch=16, patches=100, side=13),
    "limit_patches 4096": partial(limited, patch=14, patches=4096),
    "limit_patches 50": partial(limited, patch=14, patches=50),
    "fit_patches 256": partial(get_image_size_for_max_num_patches, patch_size=16, max_num_patches=256),
    "fit_patches 1000": partial(get_image_size_for_max_num_patches, patch_size=14, max_num_patches=1000),
    "fit_pooled_patches 280": partial(pooled, patch=16, pool=3, features=280),
    "fit_pooled_patches 70": partial(pooled, patch=16, pool=3, features=70),
    "best_fit 336 float32": partial(llama, tile=336, tiles=16, largest=False),
    "best_fit 336 float32 largest": partial(llama, tile=336, tiles=16, largest=True),
    "best_fit 560 float64": partial(tiled, tile=560, tiles=4),
    "best_fit 112 float64": partial(tiled, tile=112, tiles=6),
    "best_resolution llava_next": partial(best_resolution, name="llava_next"),
    "best_resolution llava_onevision": partial(best_resolution, name="llava_onevision"),
    "best_resolution one": partial(best_resolution, name="one"),
    "dynamic_hd 448 36": partial(dynamic_hd, tile=448, tiles=36),
    "dynamic_hd 100 7": partial(dynamic_hd, tile=100, tiles=7),
    "hd_transform 16": partial(hd_transform, tiles=16),
    "hd_transform 4": partial(hd_transform, tiles=4),
    "closest_aspect_ratio 448 columns": partial(closest, tile=448, least=1, most=12),
    "closest_aspect_ratio 100 columns": partial(closest, tile=100, least=5, most=9),
    "closest_aspect_ratio 448 set": partial(closest_of_set, tile=448, least=1, most=12),
    "closest_aspect_ratio 100 set": partial(closest_of_set, tile=100, least=4, most=4),
    "covering_grid 448": partial(covering, tile=448, tiles=12),
    "covering_grid 100": partial(covering, tile=100, tiles=9),
    "least_upscale 512": partial(upscaled, tile=512, tiles=12),
    "least_upscale 100": partial(upscaled, tile=100, tiles=7),
    "overlapping_tiles 378": partial(overlapping, tile=378, before=4, after=4, tiles=8),
    "overlapping_tiles 126": partial(overlapping, tile=126, before=2, after=1, tiles=12),
    "pan_and_scan 256": partial(panned, least=256, most=4, ratio=1.2),
    "pan_and_scan 10": partial(panned, least=10, most=9, ratio=1.0),
}


def crop(height, width, crop_height, crop_width, backend):
    """Return place on the canvas, then top, left, height and width of what is kept."""
    image = np.arange(1, height * width + 1, dtype=np.int32).reshape(1, height, width)
    if backend == "torchvision":
        size = SizeDict(height=crop_height, width=crop_width)
        out = CLIPImageProcessor().center_crop(torch.from_numpy(image), size).numpy()[0]
    else:
        out = center_crop(image, (crop_height, crop_width), input_data_format=ChannelDimension.FIRST)[0]
    rows, columns = np.nonzero(out.any(1))[0], np.nonzero(out.any(0))[0]
    top, left = divmod(int(out[rows[0], columns[0]]) - 1, width)
    return [int(rows[0]), int(columns[0]), top, left, len(rows), len(columns)]


def make_crops() -> dict[str, list[list[int]]]:
    """Return rows of image, crop, and the answer, by backend."""
    windows = [(h, w, a, b) for h in (4, 5, 9) for w in (4, 7) for a in (3, 4, 6, 7) for b in (2, 5, 8)]
    return {
        backend: [[*window, *crop(*window, backend)] for window in windows] for backend in ("torchvision", "pillow")
    }


def make_rules() -> dict[str, list[Answer]]:
    """Return each rule's answers for the sizes of the table."""
    return {name: [theirs(name, *size) for size in table_sizes()] for name in OURS}


def write(name: str, table: dict) -> None:
    lines = [f'"{key}": {json.dumps(rows, separators=(",", ":"))}' for key, rows in table.items()]
    (FOLDER / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    versions = {module.__name__: module.__version__ for module in (transformers, torch, torchvision, np)}
    write("rules.json", {"versions": versions, "sizes": table_sizes(), **make_rules()})
    write("crops.json", make_crops())


if __name__ == "__main__":
    main()
