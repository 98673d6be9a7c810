"""Batches: where each image's blocks lie in the tensor of all images, and what does not fit into one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.errors import ImageSizeError, OptionError
from foveal.plan import make_batch_plan, make_plan
from foveal.plan.slots import Slot, first_block, slots
from foveal.spec import load, names, resolve
from foveal.spec.schema import Batch
from foveal.types import Size

unhurried = settings(deadline=None)

BATCHES = {
    "concat": Batch(),
    "largest": Batch(join="largest"),
    "longest": Batch(join="longest"),
    "longest of samples": Batch(join="longest", by_sample=True),
    "room": Batch(join="room", count=3, pool=2, spare=1),
    "room of samples": Batch(join="room", count=13, by_sample=True),
}


@pytest.mark.parametrize(
    ("name", "places", "axes"),
    [
        ("concat", [((), 0), ((), 2), ((), 7)], (8,)),
        ("largest", [((), 0), ((), 2), ((), 7)], (8,)),
        ("longest", [((0,), 0), ((1,), 0), ((2,), 0)], (3, 5)),
        ("longest of samples", [((0,), 0), ((0,), 2), ((1,), 0)], (2, 7)),
        ("room", [((0,), 0), ((1,), 0), ((2,), 0)], (3, 13)),
        ("room of samples", [((0, 0), 0), ((0, 1), 0), ((1, 0), 0)], (2, 2, 13)),
    ],
)
def test_slots_of_two_and_five_blocks_in_one_sample_and_one_in_another(name, places, axes):
    assert slots(BATCHES[name], [2, 5, 1], [2, 1]) == ([Slot(*place) for place in places], axes)


@pytest.mark.parametrize(
    ("slot", "axes", "expected"),
    [
        (Slot((), 7), (8,), 7),
        (Slot((2,), 0), (3, 5), 10),
        (Slot((1,), 2), (2, 7), 9),
        (Slot((1, 1), 3), (2, 2, 13), 42),
    ],
)
def test_blocks_before_a_slot(slot, axes, expected):
    assert first_block(slot, axes) == expected


samples = st.lists(st.lists(st.integers(1, 13), max_size=4), min_size=1, max_size=5).filter(any)


@unhurried
@given(st.sampled_from(list(BATCHES)), samples)
def test_no_two_blocks_lie_in_one_place(name, given_samples):
    batch = BATCHES[name]
    lengths = [length for sample in given_samples for length in sample]
    counts = [len(sample) for sample in given_samples]
    places, axes = slots(batch, lengths, counts)
    taken = np.zeros(axes, int)
    for number, (slot, length) in enumerate(zip(places, lengths, strict=True), 1):
        part = taken[slot.place][slot.start : slot.start + length]
        assert part.shape == (length,)
        assert not part.any()
        part += number
        start = first_block(slot, axes)
        assert taken.reshape(-1)[start : start + length].tolist() == [number] * length
    if batch.join in ("concat", "largest"):
        assert taken.all()
    if batch.by_sample:
        rows = [set(sample[sample > 0].tolist()) for sample in taken]
        numbers = iter(range(1, len(lengths) + 1))
        assert rows == [{next(numbers) for _ in sample} for sample in given_samples]


# ---- plans of batches


def batch(name, *images, count=None, **overrides):
    spec = resolve(load(name), overrides=overrides)
    plans = [make_plan(spec, *size) for size in images]
    return make_batch_plan(spec, plans, count)


@pytest.mark.parametrize(
    ("name", "images", "count", "overrides", "shape", "offsets"),
    [
        ("qwen2_vl", [(56, 84), (28, 56)], None, {}, (24 + 24, 1176), (0, 24 * 1176)),
        ("clip", [(50, 60), (60, 50)], None, {"crop_size": 10, "size": 10}, (2, 3, 10, 10), (0, 300)),
        ("internvl", [(900, 900), (100, 200)], None, {}, (5 + 3, 3, 448, 448), (0, 5 * 3 * 448**2)),
        ("llava_next", [(600, 600), (100, 600)], None, {}, (2, 5, 3, 336, 336), (0, 5 * 3 * 336**2)),
        ("idefics3", [(300, 300), (300, 1000)], (2,), {"size": {"longest_edge": 364}}, (1, 2, 3, 364, 364), None),
        ("siglip2", [(50, 60), (60, 50)], None, {"max_num_patches": 9}, (2, 9, 768), (0, 9 * 768)),
        ("mllama", [(50, 60), (60, 900)], (2,), {}, (1, 2, 4, 3, 560, 560), (0, 4 * 3 * 560**2)),
        ("mllama", [(50, 60), (60, 900)], (1, 1), {}, (2, 1, 4, 3, 560, 560), (0, 4 * 3 * 560**2)),
        ("phi3_v", [(50, 60)], None, {"num_crops": 4}, (1, 5, 3, 336, 336), (0,)),
        ("gemma4", [(500, 500)], None, {"max_soft_tokens": 70}, (1, 630, 768), (0,)),
    ],
)
def test_shapes_by_hand(name, images, count, overrides, shape, offsets):
    made = batch(name, *images, count=count, **overrides)
    assert made.shape == shape
    assert offsets is None or made.offsets == offsets
    assert made.samples == (count or (1,) * len(images))


def test_images_of_a_sample_follow_one_another():
    made = batch("idefics3", (300, 300), (300, 1000), (300, 1000), count=(2, 1), size={"longest_edge": 728})
    lengths = [plan.shape[0] for plan in made.plans]
    assert lengths == [5, 3, 3]
    tile = 3 * 364**2
    assert made.shape == (2, 8, 3, 364, 364)
    assert made.offsets == (0, 5 * tile, 8 * tile)


def test_planar_images_lie_in_the_top_left_of_the_largest():
    made = batch("pixtral", (160, 320), (320, 16), (320, 320))
    assert made.shape == (3, 3, 320, 320)
    assert made.offsets == (0, 3 * 320**2, 6 * 320**2)
    assert [plan.views[0].pack.allotted for plan in made.plans] == [(320, 320), (320, 320), None]
    assert [plan.views[0].canvas for plan in made.plans] == [(160, 320), (320, 16), (320, 320)]
    assert [plan.shape for plan in made.plans] == [(1, 3, 320, 320)] * 3
    alone = batch("pixtral", (160, 320))
    assert alone.shape == (1, 3, 160, 320)
    assert alone.plans[0].views[0].pack.allotted is None


def test_a_batch_is_a_value():
    spec = resolve(load("qwen2_vl"))
    plans = [make_plan(spec, 100, 100), make_plan(spec, 300, 200)]
    made = make_batch_plan(spec, plans)
    assert made.primary == "pixel_values"
    assert made.plans == tuple(plans)
    assert made.dtype == "float32"
    assert made.features == plans[0].features + plans[1].features
    assert made == make_batch_plan(spec, plans)
    assert hash(made) == hash(make_batch_plan(spec, plans))


@pytest.mark.parametrize("name", names())
def test_parts_of_a_batch_do_not_overlap(name):
    spec = resolve(load(name))
    plans = [make_plan(spec, *size) for size in ((480, 640), (90, 130), (700, 300), (480, 640))]
    for count in ((1, 1, 1, 1), (4,), (3, 1), (0, 2, 2)):
        made = make_batch_plan(spec, plans, count)
        parts = sorted((offset, plan.elements) for offset, plan in zip(made.offsets, made.plans, strict=True))
        ends = [offset + elements for offset, elements in parts]
        assert all(end <= start for end, (start, _) in zip(ends, parts[1:], strict=False))
        assert ends[-1] <= math.prod(made.shape)
        assert made.features == sum(plan.features for plan in plans)
        assert sum(made.samples) == len(made.plans)


# ---- what does not fit


def test_images_of_a_batch_must_fit_together():
    text = (
        "image 1 is 336x672 (height x width): it becomes 3x336x672, and image 0 becomes 3x336x336, "
        "which do not fit into one tensor (llava1_5)"
    )
    with pytest.raises(ImageSizeError) as caught:
        batch("llava1_5", (336, 336), (336, 672), do_center_crop=False)
    assert str(caught.value) == text


def test_a_tensor_has_room_for_so_many_parts():
    spec = resolve(load("siglip2"), overrides={"max_num_patches": 9})
    large = make_plan(resolve(load("siglip2")), 100, 100)
    with pytest.raises(ImageSizeError) as caught:
        make_batch_plan(spec, [make_plan(spec, 100, 100), large])
    text = "image 1 is 100x100 (height x width): it becomes 256 parts, and the tensor has room for 9 (siglip2)"
    assert str(caught.value) == text


def test_views_of_an_image_must_fit_together():
    tree = load("gemma3")
    tree["image"]["views"][1]["steps"][0]["size"] = {"height": 9, "width": 9}
    spec = resolve(tree, overrides={"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 5})
    assert make_plan(spec, 100, 100).shape == (1, 3, 896, 896)
    with pytest.raises(ImageSizeError) as caught:
        make_plan(spec, 100, 200)
    assert str(caught.value) == "100x200 (height x width): it becomes 3x896x896 and 3x9x9, not one tensor (gemma3)"


def test_a_batch_has_images():
    with pytest.raises(OptionError, match=r"^there are no images$"):
        make_batch_plan(resolve(load("llama4")), [])


def test_samples_hold_the_images_of_the_batch():
    spec = resolve(load("llama4"))
    plans = [make_plan(spec, 100, 100)] * 2
    assert make_batch_plan(spec, plans, (0, 2)).samples == (0, 2)
    for count, text in (((1, 1, 1), "1, 1, 1"), ((0,), "0"), ((3, -1), "3, -1"), ((0, 3), "0, 3")):
        with pytest.raises(OptionError, match=f"^samples of {text} images do not make up 2 images$"):
            make_batch_plan(spec, plans, count)


def test_sizes_of_what_is_allotted_are_sizes():
    made = batch("mistral3", (28, 28), (56, 28))
    assert made.plans[0].views[0].pack.allotted == Size(56, 28)
