"""Specs whose parts are valid each but do not fit together: refused while planning, before a kernel could write."""

import copy

import numpy as np
import pytest

import foveal
from foveal import ImageSizeError, OptionError, Preprocessor
from foveal.plan.make import make_plan
from foveal.spec import load, resolve
from foveal.tokens import expand_ids


def changed(name, change):
    tree = copy.deepcopy(load(name))
    change(tree)
    return resolve(tree)


@pytest.mark.parametrize("anchor", ["top_left", "center"])
@pytest.mark.parametrize("resize", [[], [{"op": "resize", "enabled": True, "size": {"height": 40, "width": 20000}}]])
def test_a_picture_that_is_larger_than_its_canvas(anchor, resize):
    def change(tree):
        del tree["fields"]
        steps = [{**step, "filter": "bilinear"} for step in resize]
        pad = {"op": "pad_to_canvas", "anchor": anchor, "fill": [0, 0, 0]}
        rule = {"choose": "best_resolution", "tile": 16, "pinpoints": [[16, 16]]}
        tree["image"]["views"] = [{"name": "image", "canvas": rule, "steps": [*steps, pad]}]

    with pytest.raises(ImageSizeError, match=r"more than its canvas of 16x16 can hold \(siglip, pad_to_canvas\)$"):
        make_plan(changed("siglip", change), 3000, 7000)


def test_overlapping_crops_of_a_canvas_that_they_do_not_make_up():
    def change(tree):
        tree["image"]["stages"][0]["steps"] = []

    spec = changed("molmo2", change)
    with pytest.raises(
        ImageSizeError, match=r"which tiles of 378 every 266 do not make up \(molmo2, overlapping_crops"
    ):
        make_plan(spec, 100, 100)


@pytest.mark.parametrize("name", ["phi4mm", "llava_next"])
def test_tiles_smaller_than_patches(name):
    def change(tree):
        tree["tokens"]["features"]["patch"] = 1000

    with pytest.raises((ImageSizeError, foveal.SpecError), match=r"smaller than the encoder's patches of 1000"):
        make_plan(changed(name, change), 100, 100)


def test_an_override_that_leaves_another_field_behind():
    preprocess = Preprocessor.from_spec("llava_next")
    with pytest.raises(OptionError, match=r"must be the same edge as size=\{shortest_edge: 112\}"):
        preprocess.plan(100, 200, size={"shortest_edge": 112})
    both = {"size": {"shortest_edge": 112}, "crop_size": {"height": 112, "width": 112}}
    assert preprocess.plan(100, 200, **both).shape[1:] == (3, 112, 112)


def test_an_image_of_no_features_becomes_nothing():
    preprocess = Preprocessor.from_spec("llava1_5", do_resize=False, do_center_crop=False)
    plan = preprocess.plan(10, 10)
    expanded = expand_ids(preprocess.spec.tokens, [1, 32000, 2], [plan])
    assert plan.features == 0
    assert expanded.ids.tolist() == [1, 2]
    assert (expanded.structural[0].length, expanded.features) == (0, ((),))


def test_features_are_counted_over_all_patches():
    assert Preprocessor.from_spec("gemma4", do_resize=False).plan(80, 32).features == 5 * 2 // 9


def test_nearest_as_torch_computes_it_for_larger_results():
    columns = np.arange(2, dtype=np.uint8).repeat(3).reshape(1, 2, 3).repeat(3, axis=0)
    resized = foveal.Preprocessor.from_spec(
        "siglip", size={"height": 83, "width": 83}, resample=0, do_rescale=False, do_normalize=False
    )(columns)["pixel_values"]
    # torch 2.14.1 takes 41 columns of the first pixel: its float32 rule for larger results goes through the centre.
    assert int((resized[0, 0, 0] == 0).sum()) == 41
