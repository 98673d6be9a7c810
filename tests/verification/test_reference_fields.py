"""What the reference is made with follows from the same layers as the spec."""

import pytest

from foveal.errors import OptionError
from foveal.spec import Checkpoint, load
from foveal.spec.resolve import reference_fields


def test_published_numbers():
    image_processor, processor = reference_fields(load("llama4"))
    assert image_processor["size"] == 336
    assert image_processor["do_convert_rgb"] is True
    assert (processor["patch_size"], processor["pixel_shuffle_ratio"]) == (14, 0.5)


def test_overrides_and_folded_fields():
    image_processor, _ = reference_fields(load("qwen2_vl"), None, ({"max_pixels": 50176}, {"do_resize": None}))
    assert image_processor["size"] == {"shortest_edge": 3136, "longest_edge": 50176}
    assert image_processor["do_resize"] is False
    assert "max_pixels" not in image_processor


def test_a_field_that_must_be_the_same_edge_as_another():
    image_processor, _ = reference_fields(load("llava_next"))
    assert image_processor["crop_size"] == {"height": 336, "width": 336}
    both = {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}}
    image_processor, _ = reference_fields(load("llava_next"), None, both)
    assert image_processor["crop_size"] == {"height": 224, "width": 224}


def test_a_checkpoint():
    checkpoint = Checkpoint(
        "one",
        {"model_type": "mistral3", "spatial_merge_size": 3},
        {"image_processor_type": "PixtralImageProcessor", "patch_size": 16, "size": {"longest_edge": 300}},
        {"spatial_merge_size": 1},
    )
    image_processor, processor = reference_fields(load("mistral3"), checkpoint)
    assert image_processor["size"] == {"longest_edge": 300}
    assert processor["spatial_merge_size"] == 1
    del checkpoint.processor["spatial_merge_size"]
    assert reference_fields(load("mistral3"), checkpoint).processor["spatial_merge_size"] == 3


def test_errors_are_those_of_resolve():
    with pytest.raises(OptionError, match="sharpen"):
        reference_fields(load("qwen2_vl"), None, {"sharpen": True})
