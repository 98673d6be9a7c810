"""The warm-up of a plan compiles what its stages and views need, of every method; nothing is left for later."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROGRAM = """
import json, sys
import msgspec
import numpy as np
from foveal.media.arrays import array_pixels
from foveal.media.pixels import ON_WHITE, Backdrop
from foveal.plan.plan import Normalization, Pack, Plan
from foveal.run.execute import BYTES, run_view
from foveal.run.warmup import warmup_steps
from foveal.types import Box, Size
from foveal_kernels.compile import compiled
from views import view_of

reference, dtype = sys.argv[1:]
values = Normalization(True, 1 / 255, True, (0.5,) * 3, (0.25,) * 3)
whole = Box(0, 0, 96, 96)
stage = view_of((96, 96), window=Box(0, 0, 40, 70), pack=Pack("pixels"))
linear = view_of((28, 28), window=Box(0, 0, 40, 70), method="linear", pack=Pack("channels_last_patches", 14))
views = [view_of((48, 48), reads="stage", window=whole, pack=Pack("tiles", 48)), linear]
if dtype != "uint8":
    views.append(view_of((48, 48), reads="stage", window=whole, method="fixed_taps", pack=Pack("tiles", 48)))
plan = Plan("spec", reference, 40, 70, (stage,), tuple(views), (1, 1), (9, 3, 48, 48), dtype, 0, ())
later = Backdrop((255,) * 3, (0,) * 3, 4, after_resize=True)
steps = list(warmup_steps([plan], values, dtype, later))
before = len(compiled())
out = np.empty(10**6, np.float32)
for view, arithmetic, name in [(stage, BYTES, "uint8"), *((view, values, dtype) for view in views)]:
    for height, width, channels in ((96, 96, 3), (400, 17, 3), (60, 190, 4), (48, 48, 1)):
        backdrop = ON_WHITE if view.method == "fixed_taps" else later
        pixels = array_pixels(np.zeros((height, width, channels), np.uint8), backdrop)
        window = view.window if view.method == "fixed_taps" else Box(-1, -1, height, width)
        for turned in {view.vertical_first, reference == "pillow"}:
            changed = msgspec.structs.replace(view, window=window, vertical_first=turned)
            run_view(changed, reference, arithmetic, pixels, name, out.ctypes.data)
print(json.dumps([steps, compiled()[before:]]))
"""


@pytest.mark.parametrize(
    ("reference", "dtype"), [("torchvision", "float32"), ("pillow", "bfloat16"), ("torchvision", "uint8")]
)
def test_warmup_covers_stages_and_methods(tmp_path_factory, reference, dtype):
    cache = tmp_path_factory.getbasetemp() / "warm kernels"
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(cache), "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", PROGRAM, reference, dtype]
    output = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    steps, late = json.loads(output)
    assert late == []
    assert len(steps) == len(set(steps))
    assert "emit uint8 as pixels, without resizing" in steps
    assert "resize, two taps" in steps
    assert ("interpolate values" in steps) == (dtype != "uint8")
    assert ("resize, vertical pass first, 3 digits" in steps) <= (reference == "pillow")
