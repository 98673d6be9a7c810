"""A call needs no memory beside its tensors but a stage of bytes: no canvas of floats exists."""

import gc
import io
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import plain
import pytest
from PIL import Image

import foveal
from foveal.spec import names

SMALL = 96 * 1024
"""Bytes for plans, weights and addresses that the first call may have left to the second."""


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind, compress_level=1)
    return file.getvalue()


@pytest.mark.parametrize("name", names())
def test_no_family_materializes_a_float_canvas(name: str) -> None:
    preprocess = foveal.Preprocessor.from_spec(name)
    image = np.random.default_rng(1).integers(0, 256, (600, 1000, 3), np.uint8)
    batch = preprocess.plan([image])
    out = foveal.aligned_empty(batch.shape, batch.dtype)
    tensors = preprocess([image], out=out, threads=1)
    beside = sum(tensor.nbytes for key, tensor in tensors.items() if key != batch.primary)
    stages = max((3 * math.prod(stage.canvas) for stage in batch.plans[0].stages), default=0)
    del tensors
    gc.collect()
    tracemalloc.start()
    try:
        preprocess([image], out=out, threads=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= stages + 3 * beside + SMALL


MOST = 8 << 20
"""Bytes beside the decoded image and the output, where no family chains resizes."""

IMAGE = np.random.default_rng(1).integers(0, 256, (1500, 2000, 4), np.uint8)

CASES = {
    "rgba, composited before": (IMAGE, {}, {}),
    "rgba, composited after": (IMAGE, {"policy": foveal.DecodePolicy(stage="after_resize")}, {}),
    "floats": (IMAGE[..., :3].astype(np.float32), {}, {"value_range": (0, 255)}),
    "16 bits": (encoded(Image.fromarray(IMAGE[..., 0] * np.uint16(257))), {"policy": "smg"}, {}),
    "jpeg": (encoded(Image.fromarray(IMAGE[..., :3]), "JPEG"), {}, {}),
}


def peak_of(action: Callable[[], object]) -> int:
    """Return how many bytes Python's and NumPy's allocators gave at the most; Pillow's own are not among them."""
    action()
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_images_of_every_kind_need_little_beside_themselves(case: str, threads: int) -> None:
    image, made_with, options = CASES[case]
    preprocess = foveal.Preprocessor.from_spec("qwen2_5_vl", **made_with)
    batch = preprocess.plan([image], **options)
    out = foveal.aligned_empty(batch.shape, "uint8")
    decoded = 3 * 1500 * 2000  # as an array of bytes, which some are decoded to
    assert peak_of(lambda: preprocess([image], "uint8", out, threads=threads, **options)) <= decoded + MOST


@pytest.mark.parametrize("backend", ["vllm", "tokenspeed"])
@pytest.mark.parametrize("name", ["qwen2_5_vl", "llama4", "idefics3", "smolvlm", "phi4mm", "gemma4"])
def test_requests_need_little_beside_themselves(name: str, backend: str) -> None:
    preprocess = foveal.Preprocessor.from_spec(name)
    tokens = preprocess.spec.tokens
    ready = preprocess.process(plain.prompt(tokens, 1), [IMAGE[..., :3]], encode=plain.encode(tokens))
    info = foveal.ServerInfo(encoder_dtype="bfloat16")
    size = len(foveal.assemble(ready, backend, info, threads=1).serialized)
    stage = max((3 * math.prod(stage.canvas) for stage in ready.plans[0].stages), default=0)
    assert peak_of(lambda: foveal.assemble(ready, backend, info, threads=1)) <= size + stage + MOST
