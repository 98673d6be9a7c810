"""After the warm-up of a model no call compiles anything, whatever size, kind or number the images are."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import numpy as np
import foveal
name, reference = sys.argv[1:]
pre = foveal.Preprocessor.from_spec(name, reference)
pre.warmup()
from foveal_kernels.compile import compiled
before = len(compiled())
rgba = np.zeros((70, 50, 4), np.uint8)
for height, width in ((30, 40), (56, 56), (400, 17), (900, 300), (3, 100), (336, 336)):
    pre(np.zeros((height, width, 3), np.uint8))
pre([rgba, rgba[..., 0], rgba[::-1, ::-1, :3], rgba.transpose(2, 1, 0)[:3].transpose(1, 2, 0)])
for filter in (1, 2, 3):
    pre(rgba[..., :3], resample=filter)
print(json.dumps(compiled()[before:]))
"""


@pytest.mark.parametrize(
    ("name", "reference"),
    [("qwen2_5_vl", "torchvision"), ("llava1_5", "torchvision"), ("llava1_5", "pillow"), ("llama4", "torchvision")],
)
def test_warmup_covers_every_call(tmp_path_factory, name, reference):
    cache = tmp_path_factory.getbasetemp() / "warm kernels"
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", PROGRAM, name, reference]
    output = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == []
