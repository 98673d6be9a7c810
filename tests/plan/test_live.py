"""Plans beside live processors on images without pixels: what is resized, and every shape and small tensor."""

import importlib
import random

import numpy as np
import pytest
from make_plans import NAMED
from rules import drawn_sizes

from foveal.errors import ImageSizeError
from foveal.plan import make_batch_plan, make_plan
from foveal.plan.tensors import batch_tensors
from foveal.spec import load, names, resolve

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

SLOW = {"llama4": 40, "molmo2": 15, "phi4mm": 40}
"""Classes that compute with numbers of their own; test_size_rules.py compares their rules as often as the others."""
OTHERWISE = {
    "gemma3": {
        "do_pan_and_scan": True,
        "pan_and_scan_min_crop_size": 256,
        "pan_and_scan_max_num_crops": 4,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    },
    "idefics3": {"do_image_splitting": False},
    "internvl": {"min_patches": 3, "max_patches": 7},
    "llama4": {"resize_to_max_canvas": True},
    "llava_onevision": {"image_grid_pinpoints": [[384, 384], [384, 1152], [1536, 384]]},
    "ovis2": {"use_covering_area_grid": False},
    "siglip2": {"max_num_patches": 100},
}
"""Numbers under which other rules take over."""


@pytest.fixture(scope="module")
def live():
    for package in ("transformers", "torch", "torchvision"):
        pytest.importorskip(package, exc_type=ImportError)
    return importlib.import_module("live")


def published():
    return [name for name in names() if name not in ("internvl_chat", "kimi_vl", "phi3_v")]


def planned(spec, samples):
    """Return a batch plan, None where a size is refused, or a reason to leave the picture out."""
    plans = []
    for sample in samples:
        kind = "one_image" if len(sample) == 1 else "many_images"
        for size in sample:
            try:
                plans.append(make_plan(spec, *size, kind))
            except ImageSizeError as error:
                return "too large" if "more than 268435456 pixels" in str(error) else None
    try:
        return make_batch_plan(spec, plans, tuple(map(len, samples)))
    except ImageSizeError:
        return None


def resized(batch):
    pairs = {
        ((view.window.height, view.window.width), tuple(view.resized))
        for plan in batch.plans
        for view in (*plan.stages, *plan.views)
    }
    return {(before, after) for before, after in pairs if before != after}


def differences(live, spec, samples, **overrides):
    """Return what a plan says otherwise than the live processor."""
    batch = planned(spec, samples)
    if batch == "too large":
        return []
    expected = live.answer(spec.name, samples, **overrides)
    if batch is None or expected is None:
        return [] if batch is expected else [f"{samples}: refused by {'us' if batch is None else 'them'} alone"]
    found = {spec.primary.name: batch.shape} | {name: a.shape for name, a in batch_tensors(spec, batch).items()}
    wrong = [f"{samples}: {found} instead of {expected.shapes}"] if found != expected.shapes else []
    if resized(batch) != expected.resized:
        wrong.append(f"{samples}: resized {resized(batch)} instead of {expected.resized}")
    arrays = batch_tensors(spec, batch)
    for name, value in expected.values.items():
        if arrays[name].dtype != value.dtype or not np.array_equal(arrays[name], value):
            wrong.append(f"{samples}: {name} is {arrays[name].tolist()} instead of {value.tolist()}")
    return wrong


@pytest.mark.parametrize("name", published())
def test_any_size_is_planned_as_it_is_processed(live, name):
    spec = resolve(load(name))
    sizes = drawn_sizes(name, SLOW.get(name, 500), 3000 if name in SLOW else 20000)
    assert [line for size in sizes for line in differences(live, spec, [[size]])] == []


@pytest.mark.parametrize("name", published())
def test_named_sizes_are_planned_as_they_are_processed(live, name):
    spec = resolve(load(name))
    longest = 5000 if name in SLOW else 10**6
    sizes = [size for size in NAMED.values() if max(size) <= longest]
    assert [line for size in sizes for line in differences(live, spec, [[size]])] == []


@pytest.mark.parametrize("name", OTHERWISE)
def test_any_size_is_planned_as_it_is_processed_with_other_numbers(live, name):
    spec = resolve(load(name), overrides=OTHERWISE[name])
    sizes = drawn_sizes(f"{name} otherwise", SLOW.get(name, 300), 3000 if name in SLOW else 20000)
    assert [line for size in sizes for line in differences(live, spec, [[size]], **OTHERWISE[name])] == []


@pytest.mark.parametrize("name", published())
def test_batches_are_planned_as_they_are_processed(live, name):
    spec = resolve(load(name))
    draw = random.Random(name)
    wrong = []
    for _ in range(SLOW.get(name, 200) // 5):
        sizes = [(draw.randint(30, 1500), draw.randint(30, 1500)) for _ in range(3)]
        samples = draw.choice([[[sizes[0]], [sizes[1]], [sizes[2]]], [sizes[:2], sizes[2:]], [sizes]])
        wrong += differences(live, spec, samples)
    assert wrong == []
