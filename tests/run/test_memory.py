"""A call needs no memory beside its tensors but the stages of bytes that its plan names: no canvas of floats exists."""

import gc
import math
import tracemalloc

import numpy as np
import pytest

import foveal
from foveal.spec import names

SMALL = 96 * 1024
"""Bytes for plans, weights and addresses that the first call may have left to the second."""


@pytest.mark.parametrize("name", names())
def test_no_family_materializes_a_float_canvas(name: str) -> None:
    preprocess = foveal.Preprocessor.from_spec(name)
    image = np.random.default_rng(1).integers(0, 256, (600, 1000, 3), np.uint8)
    batch = preprocess.plan([image])
    out = foveal.aligned_empty(batch.shape, batch.dtype)
    tensors = preprocess([image], out=out, threads=1)
    beside = sum(tensor.nbytes for key, tensor in tensors.items() if key != batch.primary)
    stages = sum(3 * math.prod(stage.canvas) for stage in batch.plans[0].stages)
    del tensors
    gc.collect()
    tracemalloc.start()
    try:
        preprocess([image], out=out, threads=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= stages + 3 * beside + SMALL
