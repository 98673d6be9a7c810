"""FOVEAL_PARALLEL=numba: the same bits on Numba's threads, and only on layers that several threads may enter."""

import os
import subprocess
import sys

import numpy as np
import pytest
from test_processes import answer

import foveal
from foveal.errors import OptionError, TargetError
from foveal.run import numba_threads, profile
from foveal.run.profile import Profile
from foveal_kernels import layer

IMAGE = np.random.default_rng(0).integers(0, 256, (700, 900, 3), dtype=np.uint8)
BANDS = Profile(band_elements=1 << 14, image_elements=1 << 12)
needs_layer = pytest.mark.skipif(not layer.layers(), reason="neither tbb nor omp is there")


@pytest.fixture
def ran(monkeypatch):
    """Return the kernels that ran on Numba's threads, and on how many bands each."""
    kernels = []

    def run_bands(name, *rest):
        kernels.append((name, len(rest[-1])))
        numba_threads.run_bands(name, *rest)

    monkeypatch.setattr("foveal.run.execute.run_bands", run_bands)
    monkeypatch.setenv("FOVEAL_THREADS", "4")
    return kernels


@needs_layer
@pytest.mark.parametrize(
    ("kernel", "model", "reference", "images"),
    [
        ("resample_horizontal_first", "qwen2_5_vl", "torchvision", [IMAGE]),
        ("resample_vertical_first", "llava1_5", "pillow", [IMAGE.transpose(1, 0, 2)[:, :420]]),
        ("resample_vertical_first", "llava1_5", "pillow", [IMAGE.transpose(1, 0, 2)[::-1, 420::-1, ::-1]]),
        ("resample_linear", "molmo2", "torchvision", [IMAGE]),
        ("place", "qwen2_5_vl", "torchvision", [IMAGE[:560, :840]]),
        ("resample_horizontal_first", "idefics3", "torchvision", [IMAGE[:400], IMAGE[:, :300]]),
    ],
)
def test_the_same_bits(monkeypatch, ran, kernel, model, reference, images):
    pre = foveal.Preprocessor.from_spec(model, reference)
    want = {name: tensor.tobytes() for name, tensor in pre(images, threads=1).items()}
    with profile.using(BANDS):
        monkeypatch.setenv("FOVEAL_PARALLEL", "numba")
        for threads in (2, 3, 7):
            found = pre(images, threads=threads)
            assert {name: tensor.tobytes() for name, tensor in found.items()} == want
        assert kernel in dict(ran)
        assert all(1 < bands <= 7 for _, bands in ran)
        ran.clear()
        monkeypatch.setenv("FOVEAL_PARALLEL", "pool")
        assert pre(images, threads=7)["pixel_values"].tobytes() == want["pixel_values"]
        assert not ran


def test_what_has_no_parallel_kernel_runs_on_the_pool(monkeypatch, ran):
    """Normalized values that are interpolated, and transparent pixels that are composited after the resize."""
    clear = np.dstack([IMAGE, IMAGE[..., :1]])
    cases = [
        (foveal.Preprocessor.from_spec("phi4mm"), IMAGE),
        (foveal.Preprocessor.from_spec("qwen2_5_vl", policy=foveal.DecodePolicy(stage="after_resize")), clear),
    ]
    for pre, image in cases:
        primary = pre.plan([image]).primary
        want = pre(image, threads=1)[primary].tobytes()
        with profile.using(BANDS):
            monkeypatch.setenv("FOVEAL_PARALLEL", "numba")
            assert pre(image, threads=3)[primary].tobytes() == want
            monkeypatch.delenv("FOVEAL_PARALLEL")


@needs_layer
@pytest.mark.parametrize(
    "part",
    [
        "sixteen_threads_at_once",
        "fork_while_the_pool_is_busy",
        "fork_in_a_thread_while_the_pool_is_busy",
        "fork_processes",
        "spawn_processes",
    ],
)
@pytest.mark.parametrize("name", layer.layers())
def test_threads_and_processes(part, name):
    assert answer(part, FOVEAL_PARALLEL="numba", NUMBA_THREADING_LAYER=name)[:2] == (0, "as it had to be\n")


def test_a_wrong_value_is_named(monkeypatch):
    monkeypatch.setenv("FOVEAL_PARALLEL", "tbb")
    with pytest.raises(OptionError, match=r"^FOVEAL_PARALLEL is 'tbb': it must be pool or numba$"):
        numba_threads.chosen()


PROGRAM = """
import numpy, foveal
pre = foveal.Preprocessor.from_spec("qwen2_vl")
try:
    pre(numpy.zeros((900, 900, 3), numpy.uint8), threads=2)
except foveal.TargetError as error:
    print(error)
"""


def test_workqueue_is_refused():
    variables = {"FOVEAL_PARALLEL": "numba", "NUMBA_THREADING_LAYER": "workqueue", "FOVEAL_THREADS": "2"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    assert done.stdout == (
        "FOVEAL_PARALLEL is 'numba': it needs Numba's layer tbb or omp; Numba, asked for 'workqueue', runs on "
        "workqueue, which ends the process when two threads call at once (set NUMBA_THREADING_LAYER=threadsafe)\n"
    )


def test_no_layer_at_all(monkeypatch):
    monkeypatch.setattr(numba_threads, "_started", None)
    monkeypatch.setattr(layer, "layers", lambda: ())
    monkeypatch.setattr(layer.numba, "threading_layer", refuse)
    monkeypatch.setattr(layer.numba, "get_num_threads", refuse)
    monkeypatch.setattr(layer.config, "THREADING_LAYER", "default")
    monkeypatch.setenv("FOVEAL_PARALLEL", "numba")
    with pytest.raises(TargetError, match=r"^FOVEAL_PARALLEL is 'numba': it needs .* layer tbb or omp; .* has neither"):
        numba_threads.chosen()


def refuse():
    raise ValueError("No threading layer could be loaded.")
