"""Which spec a name, a file or a checkpoint leads to."""

import subprocess
import sys

import pytest

from foveal.errors import SpecError, UnknownModelError
from foveal.spec import Checkpoint, load, match, names, resolve

QWEN = "Qwen2VLImageProcessor"


def checkpoint(kind=None, model_type=None, name="some-model", **config):
    preprocessor = {"image_processor_type": kind} if kind else {}
    return Checkpoint(name, {**({"model_type": model_type} if model_type else {}), **config}, preprocessor)


def test_names():
    assert names() == ["llama4", "llava1_5", "qwen2_5_vl", "qwen2_vl", "qwen3_vl"]


@pytest.mark.parametrize("name", names())
def test_a_spec_bears_the_name_of_its_file_and_resolves(name):
    spec = resolve(load(name))
    assert spec.name == name
    assert spec.source
    assert hash(spec) == hash(resolve(load(name)))
    assert spec == resolve(load(name))


def test_a_loaded_tree_is_the_callers_own():
    load("llama4")["name"] = "changed"
    assert load("llama4")["name"] == "llama4"


def test_load_reads_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nconstants: {patch: 14}\n")
    assert load(path) == load(str(path)) == {"name": "mine", "constants": {"patch": 14}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 2: did not find expected ',' or ']'"),
        ("a: 1\na: 2\n", "line 2: 'a' is given twice"),
        ("a: {b: 1, b: 1}", "line 1: 'b' is given twice"),
        ("yes: 1", "line 1: a key must be text"),
        ("- 1", "not a mapping"),
        ("", "not a mapping"),
        ("a: !!python/object:os.system {}", "line 1: tags are not read"),
    ],
)
def test_a_file_that_is_no_spec(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "none.yaml")
    assert str(caught.value) == f"{tmp_path / 'none.yaml'}: No such file or directory"
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(SpecError):
        load(tmp_path / "bytes.yaml")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen2.5-vl", "no spec is named 'qwen2.5-vl'; nearest: qwen2_5_vl, qwen2_vl, qwen3_vl"),
        ("bert", "no spec is named 'bert'; known: llama4, llava1_5, qwen2_5_vl, qwen2_vl, qwen3_vl"),
    ],
)
def test_an_unknown_name_lists_the_nearest(name, text):
    with pytest.raises(UnknownModelError) as caught:
        load(name)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (checkpoint(QWEN, "qwen2_vl"), "qwen2_vl"),
        (checkpoint(QWEN, "qwen2_5_vl"), "qwen2_5_vl"),
        (checkpoint(QWEN, "qwen3_vl_moe"), "qwen3_vl"),
        (checkpoint(f"{QWEN}Fast", "qwen2_vl"), "qwen2_vl"),
        (checkpoint(f"{QWEN}Pil", "qwen2_vl"), "qwen2_vl"),
        (checkpoint(None, "qwen2_vl"), "qwen2_vl"),
        (checkpoint("CLIPImageProcessor", "llava"), "llava1_5"),
        (checkpoint("Llama4ImageProcessorFast", "llama4"), "llama4"),
        (checkpoint("Llama4ImageProcessor"), "llama4"),
        (checkpoint(QWEN, None, "Qwen2.5-VL-7B-Instruct"), "qwen2_5_vl"),
        (checkpoint(QWEN, "my_qwen", "Qwen2-VL-tuned"), "qwen2_vl"),
        (checkpoint(None, None, "snapshot", _name_or_path="Qwen/Qwen3-VL-8B"), "qwen3_vl"),
        (checkpoint(None, "llava", image_processor_type="CLIPImageProcessor"), "llava1_5"),
        (Checkpoint("m", {"model_type": "llava"}, {"feature_extractor_type": "CLIPFeatureExtractor"}), "llava1_5"),
    ],
)
def test_match(found, expected):
    assert match(found) == expected


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            checkpoint("LlavaImageProcessor", "llava", "llava-1.5-7b"),
            "no spec fits checkpoint 'llava-1.5-7b' with image_processor_type 'LlavaImageProcessor', "
            "model_type 'llava'; nearest: llava1_5, llama4",
        ),
        (
            checkpoint("CLIPImageProcessor", "clip"),
            "no spec fits checkpoint 'some-model' with image_processor_type 'CLIPImageProcessor', model_type 'clip'; "
            "known: llama4, llava1_5, qwen2_5_vl, qwen2_vl, qwen3_vl",
        ),
        (
            checkpoint(QWEN),
            "checkpoint 'some-model' has image_processor_type 'Qwen2VLImageProcessor', "
            "which fits qwen2_5_vl, qwen2_vl, qwen3_vl",
        ),
        (
            checkpoint(),
            "no spec fits checkpoint 'some-model' with neither image_processor_type nor model_type; "
            "known: llama4, llava1_5, qwen2_5_vl, qwen2_vl, qwen3_vl",
        ),
    ],
)
def test_a_checkpoint_that_fits_none_or_many(found, text):
    with pytest.raises(UnknownModelError) as caught:
        match(found)
    assert str(caught.value) == text


def test_importing_specs_stays_light():
    script = "import sys, foveal.spec; print({'numba', 'torch', 'transformers'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded == "set()\n"
