"""Checkpoint directories: which file is read, and whose values win."""

import json

import pytest

from foveal.errors import SpecError
from foveal.plan.make import make_plan
from foveal.spec import load, match, read_checkpoint, resolve

QWEN = {"image_processor_type": "Qwen2VLImageProcessor"}


def write(directory, config=None, preprocessor=None, processor=None):
    files = {"config": config, "preprocessor_config": preprocessor, "processor_config": processor}
    for name, tree in files.items():
        if tree is not None:
            (directory / f"{name}.json").write_text(json.dumps(tree))
    return directory


def spec(directory, *overrides, reference=None):
    checkpoint = read_checkpoint(directory)
    return resolve(load(match(checkpoint)), checkpoint, overrides, reference)


@pytest.fixture
def qwen(tmp_path):
    """Return a function that writes a Qwen2-VL checkpoint with some fields."""
    return lambda **fields: write(tmp_path, {"model_type": "qwen2_vl"}, {**QWEN, **fields})


def budget(resolved):
    step = resolved.image.views[0].steps[0]
    return step.min_pixels, step.max_pixels


def test_the_nested_image_processor_wins(tmp_path):
    write(
        tmp_path, {"model_type": "qwen2_vl"}, {**QWEN, "patch_size": 16}, {"image_processor": {**QWEN, "merge_size": 3}}
    )
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.file == "processor_config.json"
    pack = spec(tmp_path).image.pack
    assert (pack.patch, pack.merge) == (14, 3)


def test_a_processor_config_without_it_does_not(tmp_path):
    write(tmp_path, {"model_type": "qwen2_vl"}, {**QWEN, "patch_size": 16}, {"processor_class": "Qwen2VLProcessor"})
    assert spec(tmp_path).image.pack.patch == 16


def test_config_may_be_missing(tmp_path):
    write(tmp_path, None, {"image_processor_type": "Llama4ImageProcessor"})
    assert spec(tmp_path).name == "llama4"


def test_the_checkpoints_values_win(qwen):
    resolved = spec(
        qwen(
            size={"shortest_edge": 784, "longest_edge": 7840},
            image_mean=[0.1, 0.2, 0.3],
            image_std=0.5,
            do_rescale=False,
            rescale_factor=0.5,
            resample=1,
            do_resize=False,
            patch_size=16,
            temporal_patch_size=1,
        )
    )
    assert budget(resolved) == (784, 7840)
    normalize = resolved.image.normalize
    assert (normalize.mean, normalize.std) == ((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
    assert (normalize.rescale, normalize.factor) == (False, 0.5)
    step, pack = resolved.image.views[0].steps[0], resolved.image.pack
    assert (step.filter, step.enabled, step.patch) == ("lanczos", False, 16)
    assert (pack.patch, pack.temporal) == (16, 1)


def test_a_field_that_a_checkpoint_leaves_out_is_what_the_class_assumes(qwen, tmp_path):
    assert budget(spec(qwen())) == (3136, 1003520)
    assert budget(resolve(load("qwen2_vl"))) == (3136, 12845056)
    write(tmp_path, {"model_type": "llava"}, {"image_processor_type": "CLIPImageProcessor"})
    resize, crop = spec(tmp_path).image.views[0].steps
    assert (resize.size.shortest_edge, crop.size.height, crop.size.width) == (224, 224, 224)
    write(tmp_path, {"model_type": "qwen3_vl"}, QWEN)
    assert spec(tmp_path).image.pack.patch == 14
    assert spec(tmp_path).image.normalize.mean == (0.48145466, 0.4578275, 0.40821073)


def test_pixel_budgets_replace_the_edges_of_size(qwen):
    both = {"min_pixels": 784, "max_pixels": 7840}
    assert budget(spec(qwen(**both))) == (784, 7840)
    assert budget(spec(qwen(**both, size={"min_pixels": 1, "max_pixels": 2}))) == (784, 7840)
    assert budget(spec(qwen(min_pixels=784))) == (784, 1003520)
    assert budget(spec(qwen(min_pixels=784, size={"shortest_edge": 5, "longest_edge": 5000}))) == (784, 5000)


def test_an_override_of_size_replaces_the_budget_of_the_file(qwen):
    directory = qwen(min_pixels=784, max_pixels=7840)
    size = {"shortest_edge": 3136, "longest_edge": 4000}
    assert budget(spec(directory, {"size": size})) == (3136, 4000)
    assert budget(spec(directory, {"size": size, "max_pixels": 5000})) == (3136, 5000)
    assert budget(spec(directory, {"max_pixels": 5000})) == (784, 5000)
    assert budget(spec(directory, {"max_pixels": 5000}, {"size": size})) == (3136, 4000)
    assert budget(spec(directory, {"size": size}, {"min_pixels": 800})) == (800, 4000)


def test_an_override_mends_a_file(qwen):
    directory = qwen(size={"min_pixels": 3, "max_pixels": 4})
    with pytest.raises(SpecError):
        spec(directory)
    assert budget(spec(directory, {"size": {"shortest_edge": 1, "longest_edge": 2}})) == (1, 2)


def test_old_files_of_clip(tmp_path):
    fields = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 300, "crop_size": 100, "resample": 3}
    write(tmp_path, {"model_type": "llava"}, fields)
    resize, crop = spec(tmp_path).image.views[0].steps
    assert (resize.size.shortest_edge, crop.size.height, crop.size.width) == (300, 100, 100)


def test_null_switches_a_flag_off(tmp_path):
    fields = {"image_processor_type": "CLIPImageProcessor", "do_center_crop": None, "do_pad": None, "device": None}
    write(tmp_path, {"model_type": "llava"}, fields)
    assert not spec(tmp_path).image.views[0].steps[1].enabled


def test_fields_that_never_change_pixels(qwen):
    directory = qwen(
        processor_class="Qwen2VLProcessor",
        transformers_version="5.24.0",
        auto_map={"AutoProcessor": "x.y"},
        _valid_processor_keys=["images"],
        device="cpu",
        disable_grouping=None,
        return_tensors=None,
        crop_size=None,
        input_data_format=None,
        data_format="channels_first",
        default_to_square=True,
        do_center_crop=False,
        do_pad=None,
    )
    assert spec(directory).name == "qwen2_vl"


def test_counts_come_from_the_model(tmp_path):
    config = {"model_type": "llama4", "vision_config": {"patch_size": [28, 28], "pixel_shuffle_ratio": 0.25}}
    write(tmp_path, config, {"image_processor_type": "Llama4ImageProcessor"})
    features = spec(tmp_path).tokens.features
    assert (features.patch, features.pool) == (28, 4)
    write(tmp_path, processor={"patch_size": 7})
    assert spec(tmp_path).tokens.features.patch == 7


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"do_pan": True},
            "preprocessor_config.json holds 'do_pan', which qwen2_vl does not know (nearest: do_pad)",
        ),
        ({"do_pad": True}, "preprocessor_config.json: do_pad=True: only False can be honoured (qwen2_vl)"),
        (
            {"do_convert_rgb": None},
            "preprocessor_config.json: do_convert_rgb=None: only True can be honoured (qwen2_vl)",
        ),
        ({"patch_size": 0}, "preprocessor_config.json: patch_size=0: expected int >= 1 (qwen2_vl)"),
        ({"patch_size": None}, "preprocessor_config.json: patch_size=None: expected a value (qwen2_vl)"),
        (
            {"size": {"shortest_edge": 3136}},
            "preprocessor_config.json: size lacks 'longest_edge': expected longest_edge and shortest_edge (qwen2_vl)",
        ),
        (
            {"size": {"shortest_edge": 3136, "longest_edge": "big"}},
            "preprocessor_config.json: size.longest_edge='big': expected int, got str (qwen2_vl)",
        ),
        (
            {"min_pixels": 10, "size": 5},
            "preprocessor_config.json: min_pixels=10: size is 5, which has no shortest_edge (qwen2_vl)",
        ),
        (
            {"image_std": [1, float("nan"), 1]},
            "preprocessor_config.json: image_std=[1, nan, 1]: expected finite numbers (qwen2_vl)",
        ),
        (
            {"resample": 5},
            "preprocessor_config.json: resample=5: hamming is not supported, "
            "only bilinear (2), bicubic (3) or lanczos (1) (qwen2_vl)",
        ),
    ],
)
def test_a_wrong_checkpoint_is_named(qwen, fields, text):
    with pytest.raises(SpecError) as caught:
        spec(qwen(**fields))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"patch_size": 10**400}, "patch_size=a very large number: expected a number of at most 64 bits"),
        ({"image_mean": [10**400] * 3}, None),
        ({"image_mean": "\ud800"}, r"image_mean='\ud800': expected valid Unicode"),
        ({"size": [[[[[[[[[[1]]]]]]]]]]}, "size=a list: expected fewer values"),
        ({"size": {"a\nb": 1}}, r"size={'a\nb': 1}: expected names as keys"),
    ],
)
def test_values_that_no_field_has(qwen, fields, text):
    with pytest.raises(SpecError) as caught:
        spec(qwen(**fields))
    assert text is None or str(caught.value) == f"preprocessor_config.json: {text} (qwen2_vl)"
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [10**400, 5e-324, "\ud800", [14] * 100_000])
def test_values_that_no_count_has(tmp_path, value):
    config = {"model_type": "llama4", "vision_config": {"patch_size": value, "pixel_shuffle_ratio": value}}
    write(tmp_path, config, {"image_processor_type": "Llama4ImageProcessor"})
    with pytest.raises(SpecError, match=r"^config.json: vision_config.[a-z_]+=.*\(llama4\)$"):
        spec(tmp_path)
    config["vision_config"]["patch_size"] = 14
    write(tmp_path, config)
    with pytest.raises(SpecError, match=r"^config.json: vision_config.pixel_shuffle_ratio=.*\(llama4\)$"):
        spec(tmp_path)


def test_a_wrong_config_is_named(tmp_path):
    write(tmp_path, {"model_type": "llava", "vision_feature_select_strategy": "full"}, {"do_resize": True})
    with pytest.raises(SpecError) as caught:
        spec(tmp_path)
    text = "config.json: vision_feature_select_strategy='full': only 'default' can be honoured (llava1_5)"
    assert str(caught.value) == text
    write(tmp_path, {"model_type": "llava", "vision_config": {"patch_size": 0}})
    with pytest.raises(SpecError, match=r"^config.json: vision_config.patch_size=0: expected int >= 1 \(llava1_5\)$"):
        spec(tmp_path)


def test_a_maximum_below_the_minimum_wins(qwen):
    """As in transformers: servers lower the maximum alone, below a published minimum."""
    resolved = spec(qwen(max_pixels=7840), {"min_pixels": 9000})
    assert make_plan(resolved, 480, 640).tensors[0].values == ((1, 4, 6),)


def test_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    for path, text in (("none", "no such directory"), ("file", "not a directory")):
        with pytest.raises(SpecError) as caught:
            read_checkpoint(tmp_path / path)
        assert str(caught.value) == f"{tmp_path / path}: {text}"


def test_no_image_processor(tmp_path):
    write(tmp_path, {"model_type": "qwen2_vl"}, None, {"processor_class": "Qwen2VLProcessor"})
    with pytest.raises(SpecError) as caught:
        read_checkpoint(tmp_path)
    text = f"{tmp_path}: no preprocessor_config.json, and no image_processor in a processor_config.json"
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "line 1: not JSON: Expecting property name enclosed in double quotes"),
        (b"[1]", "not a JSON object"),
        (b"\xff\xff{}", "not JSON"),
        (b"", "line 1: not JSON: Expecting value"),
    ],
)
def test_a_file_that_is_no_json_object(tmp_path, content, text):
    (tmp_path / "preprocessor_config.json").write_bytes(content)
    with pytest.raises(SpecError) as caught:
        read_checkpoint(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'preprocessor_config.json'}: {text}"


def test_an_image_processor_that_is_no_object(tmp_path):
    write(tmp_path, processor={"image_processor": 3})
    with pytest.raises(SpecError, match=r"processor_config.json: image_processor is not an object$"):
        read_checkpoint(tmp_path)
