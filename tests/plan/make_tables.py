"""Write sizes.json: what transformers itself answers for sizes, canvases and crops.

Run with the extra ``foveal[reference]`` installed: ``python tests/plan/make_tables.py``.
"""

import json
import random
from pathlib import Path

import numpy as np
import torch
import torchvision
import transformers
from transformers.image_transforms import center_crop, get_resize_output_image_size
from transformers.image_utils import ChannelDimension, SizeDict
from transformers.models.clip.image_processing_clip import CLIPImageProcessor
from transformers.models.llama4.image_processing_llama4 import (
    find_supported_resolutions,
    get_best_fit,
    get_max_res_without_distortion,
)
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

TILE, MAX_TILES = 336, 16
EDGES = [1, 2, 13, 14, 15, 27, 28, 29, 41, 42, 43, 70, 335, 336, 337, 671, 672, 673, 1008, 4000, 9000]


def sizes():
    """Extremes, ties of half a factor, multiples and their neighbours, common photos, random ones."""
    draw = random.Random(0)
    fixed = [
        (1, 1),
        (1, 200),
        (200, 1),
        (1, 201),
        (2, 401),
        (401, 2),
        (480, 640),
        (640, 480),
        (1080, 1920),
        (3000, 4000),
    ]
    ties = [(28 * a + 14, 28 * b + 14) for a, b in ((0, 1), (1, 1), (1, 2), (2, 3), (12, 35))]
    ties += [(32 * a + 16, 32 * b + 16) for a, b in ((0, 1), (1, 2), (3, 2), (9, 20))]
    edges = [(draw.choice(EDGES), draw.choice(EDGES)) for _ in range(120)]
    drawn = [(draw.randint(1, 4500), draw.randint(1, 4500)) for _ in range(100)]
    return sorted({*fixed, *ties, *edges, *drawn})


def smart(height, width, patch, least, most):
    try:
        return smart_resize(height, width, 2 * patch, least, most)
    except ValueError:
        return None


def shortest(height, width):
    image = np.broadcast_to(np.uint8(0), (3, height, width))
    return get_resize_output_image_size(image, 336, default_to_square=False, input_data_format=ChannelDimension.FIRST)


def llama4(height, width, largest):
    """Follow the reference's own steps between its functions, with its own mix of tensors and numbers."""
    resolutions = torch.tensor(find_supported_resolutions(MAX_TILES, SizeDict(height=TILE, width=TILE)))
    canvas = get_best_fit((height, width), resolutions, resize_to_max_canvas=largest)
    bound = canvas if largest else (min(max(height, TILE), canvas[0]), min(max(width, TILE), canvas[1]))
    resized = get_max_res_without_distortion((height, width), bound)
    return [int(canvas[0]), int(canvas[1]), max(int(resized[0]), 1), max(int(resized[1]), 1)]


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


def make_table():
    """Return all rows: what is asked, then the answer."""
    table = {
        "qwen2_vl": [[*size, smart(*size, 14, 3136, 12845056)] for size in sizes()],
        "qwen2_5_vl": [[*size, smart(*size, 14, 3136, 12845056)] for size in sizes()],
        "qwen3_vl": [[*size, smart(*size, 16, 65536, 16777216)] for size in sizes()],
        "qwen2_vl_tight": [[*size, smart(*size, 14, 50000, 100000)] for size in sizes()],
        "llava1_5": [[*size, shortest(*size)] for size in sizes()],
        "llama4": [[*size, llama4(*size, largest=False)] for size in sizes()],
        "llama4_largest": [[*size, llama4(*size, largest=True)] for size in sizes()],
    }
    windows = [(h, w, a, b) for h in (4, 5, 9) for w in (4, 7) for a in (3, 4, 6, 7) for b in (2, 5, 8)]
    for backend in ("torchvision", "pillow"):
        table[f"center_crop_{backend}"] = [[*window, crop(*window, backend)] for window in windows]
    return table


def main():
    table = make_table()
    versions = {module.__name__: module.__version__ for module in (transformers, torch, torchvision, np)}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in table.items()]
    text = '{\n"versions": ' + json.dumps(versions) + ",\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name("sizes.json").write_text(text)


if __name__ == "__main__":
    main()
