"""Which spec a name, a file or a checkpoint leads to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foveal.errors import SpecError, UnknownModelError
from foveal.spec import Checkpoint, load, match, names, resolve
from foveal.spec.find import SPECS, match_id, spec_path

QWEN = "Qwen2VLImageProcessor"
KNOWN = ", ".join(sorted(path.stem for path in SPECS.glob("*.yaml")))


def checkpoint(kind=None, model_type=None, name="some-model", **config):
    preprocessor = {"image_processor_type": kind} if kind else {}
    return Checkpoint(name, {**({"model_type": model_type} if model_type else {}), **config}, preprocessor)


@pytest.fixture(autouse=True)
def built_in_alone(monkeypatch):
    monkeypatch.delenv("FOVEAL_SPECS", raising=False)


def test_names():
    assert names() == KNOWN.split(", ")
    assert {"clip", "llama4", "qwen2_5_vl", "smolvlm"} <= set(names())
    assert len(names()) >= 31


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
        ("bert", f"no spec is named 'bert'; known: {KNOWN}"),
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
        (checkpoint("CLIPImageProcessor", "clip"), "clip"),
        (checkpoint("CLIPImageProcessor", "internvl_chat"), "internvl_chat"),
        (checkpoint("LlavaImageProcessorFast", "llava", "llava-1.5-7b"), "llava1_5"),
        (checkpoint("PixtralImageProcessor", "llava"), "pixtral"),
        (checkpoint("PixtralImageProcessor", "mistral3"), "mistral3"),
        (checkpoint("GotOcr2ImageProcessor", "internvl"), "internvl"),
        (checkpoint("GotOcr2ImageProcessor", "aya_vision"), "aya_vision"),
        (checkpoint("SiglipImageProcessor", "siglip"), "siglip"),
        (checkpoint("SiglipImageProcessor", "gemma3n"), "gemma3n"),
        (checkpoint("Idefics3ImageProcessor", "idefics3"), "idefics3"),
        (checkpoint("Idefics3ImageProcessor", "smolvlm"), "smolvlm"),
        (checkpoint("SmolVLMImageProcessor"), "smolvlm"),
        (checkpoint("Glm46VImageProcessor", "glm46v"), "glm4v"),
        (checkpoint(None, "phi3_v"), "phi3_v"),
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
            checkpoint("Qwen2VLImageProcessor", "llava", "my-model"),
            "no spec fits checkpoint 'my-model' with image_processor_type 'Qwen2VLImageProcessor', "
            "model_type 'llava'; nearest: llava1_5, mllama, llama4",
        ),
        (
            checkpoint("CLIPImageProcessor", "blip"),
            "no spec fits checkpoint 'some-model' with image_processor_type 'CLIPImageProcessor', model_type 'blip'; "
            "nearest: clip, siglip",
        ),
        (
            checkpoint(None, "llava"),
            "checkpoint 'some-model' with model_type 'llava' fits llava1_5, pixtral",
        ),
        (
            checkpoint(QWEN),
            "checkpoint 'some-model' with image_processor_type 'Qwen2VLImageProcessor' "
            "fits qwen2_5_vl, qwen2_vl, qwen3_vl",
        ),
        (
            checkpoint(),
            f"no spec fits checkpoint 'some-model' with neither image_processor_type nor model_type; known: {KNOWN}",
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


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl"),
        ("Qwen/Qwen2-VL-2B", "qwen2_vl"),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl"),
        ("llava-hf/llava-1.5-7b-hf", "llava1_5"),
        ("llava-hf/llava-v1.6-mistral-7b-hf", "llava_next"),
        ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava_onevision"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "mllama"),
        ("OpenGVLab/InternVL3-8B-hf", "internvl"),
        ("OpenGVLab/InternVL3-8B", "internvl_chat"),
        ("OpenGVLab/InternVL2_5-8B", "internvl_chat"),
        ("google/gemma-3-4b-it", "gemma3"),
        ("google/gemma-3n-E4B-it", "gemma3n"),
        ("google/gemma-4-e4b-it", "gemma4"),
        ("google/siglip-so400m-patch14-384", "siglip"),
        ("google/siglip2-so400m-patch16-naflex", "siglip2"),
        ("openai/clip-vit-large-patch14-336", "clip"),
        ("microsoft/Phi-3-vision-128k-instruct", "phi3_v"),
        ("microsoft/Phi-3.5-vision-instruct", "phi3_v"),
        ("microsoft/Phi-4-multimodal-instruct", "phi4mm"),
        ("mistral-community/pixtral-12b", "pixtral"),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "mistral3"),
        ("zai-org/GLM-4.5V", "glm4v"),
        ("HuggingFaceM4/Idefics3-8B-Llama3", "idefics3"),
        ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", "smolvlm"),
        ("moonshotai/Kimi-VL-A3B-Instruct", "kimi_vl"),
        ("moonshotai/Kimi-K2.5", "kimi_k25"),
        ("deepseek-community/deepseek-vl-1.3b-chat", "deepseek_vl"),
        ("deepseek-community/Janus-Pro-7B", "janus"),
        ("thisisiron/Ovis2-1B-hf", "ovis2"),
        ("CohereLabs/command-a-vision-07-2025", "cohere2_vision"),
        ("CohereLabs/aya-vision-8b", "aya_vision"),
        ("allenai/Molmo2-8B", "molmo2"),
    ],
)
def test_the_id_of_a_model_names_its_spec(model_id, expected):
    assert match_id(model_id) == expected


def test_an_id_is_loaded_where_the_spec_has_the_numbers_of_that_model():
    assert load("Qwen/Qwen2.5-VL-7B-Instruct")["name"] == "qwen2_5_vl"
    with pytest.raises(UnknownModelError) as caught:
        load("openai/clip-vit-large-patch14-336")
    assert str(caught.value) == (
        "'openai/clip-vit-large-patch14-336' is of the family clip, whose spec has the numbers of "
        "openai/clip-vit-large-patch14: name clip if they are the same, or pass the directory of the checkpoint"
    )


def test_a_spec_has_the_name_of_its_file(tmp_path, monkeypatch):
    (tmp_path / "wren.yaml").write_text((SPECS / "clip.yaml").read_text())
    monkeypatch.setenv("FOVEAL_SPECS", str(tmp_path))
    with pytest.raises(SpecError, match=r"^wren\.yaml: its name is 'clip', which must be that of the file$"):
        load("wren")


def test_the_id_of_an_unknown_model():
    with pytest.raises(UnknownModelError) as caught:
        load("org/Qwen2_9-vl-tuned")
    text = "no spec fits model 'org/Qwen2_9-vl-tuned'; nearest: qwen2_5_vl, qwen2_vl"
    assert str(caught.value) == text


def test_every_id_of_a_source_leads_to_its_spec():
    """A spec that says whose published files it follows is found by that name."""
    wrong = []
    for name in names():
        for source in load(name)["source"]:
            model_id = source.split(" ")[0]
            if "/" in model_id and match_id(model_id) != name:
                wrong.append((name, model_id, match_id(model_id)))
    assert wrong == []


# ---- specs of the user's own


OWN = """
schema: 1
name: {name}
source: [own]
match:
  image_processor_type: [{kind}]
  model_type: [{model_type}]
  id: ["{pattern}"]
  architectures: [{architecture}]
image:
  references: [pillow]
  views:
    - {{name: image, steps: [{{op: resize, enabled: true, size: {{height: {side}, width: 4}}, filter: box}}]}}
  normalize: {{rescale: true, factor: 0.5, normalize: false, mean: half, std: half}}
  pack: {{as: planar}}
tensors:
  pixel_values: {{value: primary, dtype: float32}}
"""


def write_own(directory, file, **fields):
    values = {
        "name": "own",
        "kind": "OwnImageProcessor",
        "model_type": "own_model",
        "pattern": "*own*",
        "architecture": "OwnModel",
        "side": 3,
    }
    directory.mkdir(exist_ok=True)
    (directory / file).write_text(OWN.format(**(values | fields)))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Two directories of the user's own specs, the first of which goes before the second."""
    directories = [tmp_path / "first", tmp_path / "second"]
    write_own(directories[0], "own.yaml", side=5)
    write_own(directories[1], "own.yaml", side=6)
    clip = {"name": "clip", "kind": "CLIPImageProcessor", "model_type": "clip", "pattern": "*clip*"}
    write_own(directories[1], "clip.yaml", **clip, architecture="CLIPModel")
    monkeypatch.setenv("FOVEAL_SPECS", os.pathsep.join(map(str, directories)))
    return directories


def test_own_specs_are_found_by_name(own):
    assert names() == sorted([*KNOWN.split(", "), "own"])
    assert spec_path("own") == own[0] / "own.yaml"
    assert spec_path("clip") == own[1] / "clip.yaml"
    assert resolve(load("own")).image.views[0].steps[0].size.height == 5
    assert resolve(load("clip")).source == ("own",)
    assert resolve(load("siglip")).name == "siglip"


def test_own_specs_are_found_by_id_and_by_checkpoint(own):
    assert match_id("me/My-Own-7B") == "own"
    assert match(checkpoint("OwnImageProcessor")) == "own"
    assert match(checkpoint("OwnImageProcessor", "unknown", architectures=["OwnModel", 3])) == "own"
    assert match(checkpoint(None, None, architectures=["OwnModel"])) == "own"
    assert match(checkpoint("CLIPImageProcessor", "clip")) == "clip"
    assert resolve(load("openai/clip-vit-base-patch32")).source == ("own",)


def test_own_specs_go_before_the_built_in_ones(own):
    write_own(own[0], "tuned.yaml", name="tuned", kind=QWEN, model_type="qwen2_vl", pattern="*qwen2-vl*")
    assert match(checkpoint(QWEN, "qwen2_vl")) == "tuned"
    assert match_id("Qwen/Qwen2-VL-7B") == "tuned"
    assert match(checkpoint(QWEN, "qwen2_5_vl")) == "qwen2_5_vl"
    write_own(own[1], "other.yaml", name="other", kind=QWEN, model_type="qwen2_vl", pattern="*qwen2-vl*")
    with pytest.raises(UnknownModelError) as caught:
        match(checkpoint(QWEN, "qwen2_vl", "m"))
    assert str(caught.value) == (
        "checkpoint 'm' with image_processor_type 'Qwen2VLImageProcessor', model_type 'qwen2_vl' fits other, tuned"
    )
    with pytest.raises(UnknownModelError, match=r"^model 'Qwen/Qwen2-VL-7B' fits other, tuned$"):
        match_id("Qwen/Qwen2-VL-7B")


def test_an_own_spec_that_changes_is_read_again(own):
    assert resolve(load("own")).image.views[0].steps[0].size.height == 5
    write_own(own[0], "own.yaml", side=7)
    os.utime(own[0] / "own.yaml", ns=(1, 1))
    assert resolve(load("own")).image.views[0].steps[0].size.height == 7


@pytest.mark.parametrize("value", ["", os.pathsep, os.pathsep * 3])
def test_no_directories(monkeypatch, value):
    monkeypatch.setenv("FOVEAL_SPECS", value)
    assert names() == KNOWN.split(", ")


@pytest.mark.parametrize("value", ["no/such/place", f"{os.pathsep}no/such/place", f".{os.pathsep}no/such/place"])
def test_a_directory_that_is_not_there_is_named(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOVEAL_SPECS", value)
    for action in (names, lambda: load("clip"), lambda: match_id("openai/clip-vit")):
        with pytest.raises(SpecError, match=r"^FOVEAL_SPECS: no/such/place: no such directory$"):
            action()


def test_the_directory_in_which_one_works_may_hold_own_specs(monkeypatch, tmp_path):
    write_own(tmp_path, "own.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOVEAL_SPECS", ".")
    assert "own" in names()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name: own\n", "Expected `object`, got `null` - at `$.match`"),
        ("match: {model_type: [1]}", "Expected `str`, got `int` - at `$.match.model_type[0]`"),
        ("match: {kind: [a]}", "Object contains unknown field `kind` - at `$.match`"),
        ("match: 3", "Expected `object`, got `int` - at `$.match`"),
        ("- 1", "not a mapping"),
        ("a: [", "line 2: did not find expected node content"),
    ],
)
def test_an_own_spec_that_says_not_what_it_is_for_is_named(own, text, reason):
    (own[0] / "broken.yaml").write_text(text)
    path = own[0] / "broken.yaml"
    for action in (lambda: match(checkpoint("CLIPImageProcessor", "clip")), lambda: match_id("openai/clip-vit")):
        with pytest.raises(SpecError) as caught:
            action()
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(f"{shown(path)}: {reason}")
    assert resolve(load("own")).name == "own"


def shown(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-60:]}"
