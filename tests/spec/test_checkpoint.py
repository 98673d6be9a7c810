"""Checkpoint directories: which file is read, and whose values win."""

import json

import pytest

from foveal.errors import OptionError, SpecError, UnknownModelError
from foveal.plan.make import make_plan
from foveal.spec import Checkpoint, load, match, names, read_checkpoint, resolve

QWEN = {"image_processor_type": "Qwen2VLImageProcessor"}
CLIP = {"image_processor_type": "CLIPImageProcessor"}


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
    _, resize, crop = spec(tmp_path).image.views[0].steps
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
    _, resize, crop = spec(tmp_path).image.views[0].steps
    assert (resize.size.shortest_edge, crop.size.height, crop.size.width) == (300, 100, 100)


def test_null_switches_a_flag_off(tmp_path):
    fields = {"image_processor_type": "CLIPImageProcessor", "do_center_crop": None, "do_pad": None, "device": None}
    write(tmp_path, {"model_type": "llava"}, fields)
    pad, resize, crop = spec(tmp_path).image.views[0].steps
    assert (pad.enabled, resize.enabled, crop.enabled) == (False, True, False)


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
            "preprocessor_config.json: resample=5: hamming exists only for the reference pillow (qwen2_vl)",
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
    write(tmp_path, {"model_type": "llava", "vision_config": {"patch_size": 0}}, CLIP)
    with pytest.raises(SpecError, match=r"^config.json: vision_config.patch_size=0: expected int >= 1 \(llava1_5\)$"):
        spec(tmp_path)
    write(tmp_path, {"model_type": "llava", "vision_feature_select_strategy": "first"})
    with pytest.raises(SpecError) as caught:
        spec(tmp_path)
    text = "config.json: vision_feature_select_strategy='first': invalid enum value 'first' (llava1_5)"
    assert str(caught.value) == text


def test_a_config_that_cannot_be_honoured_is_named(tmp_path):
    tree = load("llava1_5")
    tree["fields"]["fixed"]["config.vision_feature_select_strategy"] = "default"
    for strategy in ("default", None):
        write(tmp_path, {"model_type": "llava", "vision_feature_select_strategy": strategy}, CLIP)
        assert resolve(tree, read_checkpoint(tmp_path)).name == "llava1_5"
    write(tmp_path, {"model_type": "llava", "vision_feature_select_strategy": "full"})
    with pytest.raises(SpecError) as caught:
        resolve(tree, read_checkpoint(tmp_path))
    text = "config.json: vision_feature_select_strategy='full': only 'default' can be honoured (llava1_5)"
    assert str(caught.value) == text


def test_the_processors_word_goes_before_the_models(tmp_path):
    write(tmp_path, {"model_type": "llava", "vision_feature_select_strategy": "full"}, CLIP)
    assert make_plan(spec(tmp_path, {"crop_size": 28}), 50, 60).features == 5
    write(tmp_path, processor={"vision_feature_select_strategy": "default"})
    assert make_plan(spec(tmp_path, {"crop_size": 28}), 50, 60).features == 4


def test_a_maximum_below_the_minimum_wins(qwen):
    """As in transformers: servers lower the maximum alone, below a published minimum."""
    resolved = spec(qwen(max_pixels=7840), {"min_pixels": 9000})
    assert make_plan(resolved, 480, 640).grid == (4, 6)


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


# ---- models in the Hub's local cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a function that puts a model into the Hub's local cache, and the cache."""
    home = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(home))
    monkeypatch.chdir(tmp_path)

    def put(model_id, revision="abc123\n", **files):
        model = home / f"models--{model_id.replace('/', '--')}"
        snapshot = model / "snapshots" / revision.strip()
        snapshot.mkdir(parents=True)
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text(revision)
        return write(snapshot, **files)

    return put, home


def test_a_cached_model_is_read_by_its_id(cache):
    put, _ = cache
    put("Qwen/Qwen2-VL-7B-Instruct", config={"model_type": "qwen2_vl"}, preprocessor={**QWEN, "patch_size": 16})
    checkpoint = read_checkpoint("Qwen/Qwen2-VL-7B-Instruct")
    assert checkpoint.name == "Qwen/Qwen2-VL-7B-Instruct"
    assert spec("Qwen/Qwen2-VL-7B-Instruct").image.pack.patch == 16


def test_the_id_of_a_cached_model_helps_to_find_its_spec(cache):
    put, _ = cache
    put("Qwen/Qwen3-VL-8B-Instruct", preprocessor=QWEN)
    assert spec("Qwen/Qwen3-VL-8B-Instruct").name == "qwen3_vl"


def test_a_directory_goes_before_a_cached_model(cache, tmp_path):
    put, _ = cache
    put("Qwen/Qwen2-VL-7B", preprocessor={**QWEN, "patch_size": 16})
    (tmp_path / "Qwen" / "Qwen2-VL-7B").mkdir(parents=True)
    write(tmp_path / "Qwen" / "Qwen2-VL-7B", preprocessor={**QWEN, "patch_size": 18})
    assert spec("Qwen/Qwen2-VL-7B").image.pack.patch == 18


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME"])
def test_a_model_that_is_not_cached(tmp_path, monkeypatch, variable):
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv(variable, "own")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownModelError) as caught:
        read_checkpoint("org/model")
    cache = "own" if variable == "HF_HUB_CACHE" else "own/hub"
    assert str(caught.value) == f"org/model: neither a directory nor a model in {cache}; nothing is downloaded"


@pytest.mark.parametrize("revision", ["gone", "", "a\nb", "\ud800", "a\0b"])
def test_a_cache_that_is_damaged(cache, revision):
    put, home = cache
    put("org/model", preprocessor=QWEN)
    (home / "models--org--model" / "refs" / "main").write_bytes(revision.encode(errors="surrogatepass"))
    with pytest.raises(SpecError) as caught:
        read_checkpoint("org/model")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["org/model/more", "/org/model", "org//model", ".org/model", "org/", "a b/c"])
def test_what_is_no_id(cache, name):
    with pytest.raises(SpecError, match=r": (no such directory|not a directory)$"):
        read_checkpoint(name)


# ---- how fields are read


LLAVA_NEXT = {"image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": 336}}


def test_two_fields_that_must_have_one_edge(tmp_path):
    for crop in (336, [336, 336], {"height": 336, "width": 336}, {"shortest_edge": 336}):
        write(tmp_path, None, {**LLAVA_NEXT, "crop_size": crop})
        assert spec(tmp_path).image.pack.tile == 336
    write(tmp_path, None, {**LLAVA_NEXT, "crop_size": {"height": 224, "width": 224}})
    with pytest.raises(SpecError) as caught:
        spec(tmp_path)
    text = "crop_size={height: 224, width: 224}: must be the same edge as size={shortest_edge: 336} (llava_next)"
    assert str(caught.value) == f"preprocessor_config.json: {text}"
    write(tmp_path, None, {**LLAVA_NEXT, "crop_size": {"longest_edge": 336}})
    with pytest.raises(SpecError) as caught:
        spec(tmp_path)
    text = "crop_size={longest_edge: 336}: expected one number, or an equal height and width (llava_next)"
    assert str(caught.value) == f"preprocessor_config.json: {text}"


def test_an_override_of_one_of_two_fields_is_blamed(tmp_path):
    write(tmp_path, None, {**LLAVA_NEXT, "crop_size": 336})
    grid = {"image_grid_pinpoints": [[224, 448]]}
    with pytest.raises(OptionError) as caught:
        spec(tmp_path, {"size": {"shortest_edge": 224}, "crop_size": 225, **grid})
    assert str(caught.value) == "crop_size=225: must be the same edge as size={shortest_edge: 224} (llava_next)"
    assert spec(tmp_path, {"size": 224, "crop_size": 224, **grid}).image.pack.tile == 224


@pytest.mark.parametrize("name", names())
def test_a_class_that_is_named_alone_gives_a_spec_or_says_what_is_missing(name):
    """What a class assumes where its file holds nothing; LLaVA-NeXT's own numbers do not go together."""
    kind = load(name)["match"]["image_processor_type"][0]
    checkpoint = Checkpoint(name, {"model_type": load(name)["match"]["model_type"][0]}, {"image_processor_type": kind})
    if name == "llava_next":
        with pytest.raises(SpecError, match=r"^llava_next: 336x672 .* is not made of whole tiles of 224 - at `"):
            resolve(load(name), checkpoint)
    else:
        assert resolve(load(name), checkpoint).name == name
