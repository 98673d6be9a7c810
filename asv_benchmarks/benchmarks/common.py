"""What the benchmarks share: parameters, pictures, and a preprocessor with its buffer.

The parameters are written down, never asked of the installed package, so that results of different versions have the
same rows. Nothing here imports Foveal before a benchmark's ``setup`` runs.
"""

import numpy as np
from PIL import Image

MODELS = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava1_5", "llama4"]
FAMILIES = [
    *("aya_vision", "clip", "cohere2_vision", "deepseek_vl", "gemma3", "gemma3n", "gemma4", "glm4v", "idefics3"),
    *("internvl", "internvl_chat", "janus", "kimi_k25", "kimi_vl", "llama4", "llava1_5", "llava_next"),
    *("llava_onevision", "mistral3", "mllama", "molmo2", "ovis2", "phi3_v", "phi4mm", "pixtral", "qwen2_5_vl"),
    *("qwen2_vl", "qwen3_vl", "siglip", "siglip2", "smolvlm"),
]
SIZES = ["640x480", "1024x768", "1280x960", "1920x1080", "4000x3000"]
"""Width x height, as photographs are usually named."""
LEVELS = ["vnni", "avx2", "generic"]


def parse(size):
    """Return (height, width) of a name such as ``640x480``."""
    width, height = size.split("x")
    return int(height), int(width)


def photo(height, width):
    """Return a picture with the statistics of a photograph: gradients, noise at several scales, and hard edges.

    It is an RGB image in Pillow's own memory, as a decoder leaves it, and the same in every run.
    """
    random = np.random.default_rng([height, width])
    canvas = np.linspace(40, 150, height)[:, None, None] + np.linspace(0, 50, width)[:, None]
    canvas = canvas.astype(np.int16) + np.zeros(3, np.int16)
    for cells, strength in ((3, 1), (24, 2), (160, 3)):
        noise = Image.fromarray(random.integers(0, 256, (cells, cells, 3), np.uint8))
        noise = noise.resize((width, height), Image.Resampling.BICUBIC)
        canvas += (np.asarray(noise).astype(np.int16) - 128) >> strength
    canvas += random.integers(-6, 7, (height, width, 1), np.int16)
    for _ in range(12):
        top, left = random.integers(0, height), random.integers(0, width)
        bottom, right = top + 1 + height // 8, left + 1 + width // 8
        canvas[top:bottom, left:right] = random.integers(0, 256, 3)
    return Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))


def touched(shape, dtype):
    """Return a 64-byte aligned buffer whose pages have been written, so that no timing contains a page fault."""
    import foveal

    buffer = foveal.aligned_empty(shape, dtype)
    buffer.fill(0)
    return buffer
