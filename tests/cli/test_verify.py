import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import fields, replace
from typer.testing import CliRunner

import foveal
import foveal.verification
from foveal.cli import app
from foveal.cli.verify import verdict
from foveal.errors import OptionError
from foveal.verification import ImageReport, Report, TensorReport

DOCUMENT = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
EQUAL = TensorReport("pixel_values", "float32", "float32", (4, 12), (4, 12), 0, 0.0, 0.0)
OTHER = TensorReport("pixel_values", "float32", "float32", (4, 12), (4, 12), 7, 0.125, 1.5)
GRID = TensorReport("image_grid_thw", "int64", "int64", (1, 3), (1, 3), 0, 0.0, None)
CUT = TensorReport("image_grid_thw", "int64", None, (1, 3), None, None, None, None)


def image(name="a.png", **changes):
    known = {"grids_equal": True, "tensors_alike": True, "tokens": 4, "reference_tokens": 4, "tokens_equal": True}
    known |= {"values": 51, "differing": 0, "levels": 0.0, "tensors": (EQUAL, GRID)}
    return ImageReport(name, 40, 60, "RGB", **{"outcome": "equal", **known, **changes})


DIFFERENT = image("b.png", outcome="different", differing=7, levels=1.5, tensors=(OTHER, GRID))
SHAPES = image(
    "c.png",
    outcome="different",
    grids_equal=False,
    tensors_alike=False,
    reference_tokens=5,
    tokens_equal=False,
    differing=None,
    levels=None,
    tensors=(EQUAL, CUT),
)
REFUSED = ImageReport("d.png", 2, 700, "L", "both_refuse", refusal="ImageSizeError: too flat", reference_refusal="no")
ONE_SIDED = ImageReport("e.png", 2, 700, "L", "different", reference_refusal="ValueError: no")
UNREADABLE = ImageReport("f.png", None, None, None, "unreadable", refusal="cannot be read: not an image")


def report(*images, **changes):
    told = Report(
        equal=all(each.outcome in ("equal", "both_refuse") for each in images),
        model="qwen2_vl",
        spec="qwen2_vl",
        checkpoint=None,
        overrides={"max_pixels": 50176},
        reference="pillow",
        compared_with="transformers.Qwen2VLImageProcessorPil, called by Qwen2VLProcessor",
        decode="PIL object",
        level="generic",
        versions={"foveal": "0.1.0", "torch": None},
        notes=("something to know",),
        images=images,
    )
    return replace(told, **changes)


@pytest.fixture
def certified(monkeypatch):
    """Return a function that runs the command as if a certificate had come out of it."""
    calls = []

    def run(told, *words):
        def verify(*arguments, **options):
            calls.append((arguments, options))
            if isinstance(told, Exception):
                raise told
            return told

        monkeypatch.setattr(foveal.verification, "verify", verify)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        result = CliRunner().invoke(app, ["verify", *words])
        return result, calls[-1] if calls else None

    return run


def test_help():
    text = CliRunner().invoke(app, ["verify", "--help"]).stdout
    assert text.splitlines()[0].endswith(" verify [OPTIONS] MODEL [IMAGE...]")
    assert "--json" in text
    assert "--trust-remote-code" in text


def test_what_is_passed_on(certified, monkeypatch):
    words = ["qwen2_vl", "a.png", "photos", "--reference", "pillow", "--set", "max_pixels=50176", "--trust-remote-code"]
    result, ((model, images, reference), options) = certified(report(image()), *words)
    assert result.exit_code == 0
    assert (model, images, reference) == ("qwen2_vl", ["a.png", "photos"], "pillow")
    options.pop("progress")
    assert options == {"trust_remote_code": True, "max_pixels": 50176}
    _, ((_, images, _), _) = certified(report(image()), "qwen2_vl")
    assert images is None


@pytest.mark.parametrize(
    ("images", "status"),
    [
        ([image()], 0),
        ([image(), REFUSED], 0),
        ([image(), DIFFERENT], 1),
        ([ONE_SIDED], 1),
        ([image(), UNREADABLE], 2),
        ([DIFFERENT, UNREADABLE], 1),
    ],
)
@pytest.mark.parametrize("words", [["qwen2_vl"], ["qwen2_vl", "--json"]])
def test_exit_status(certified, images, status, words):
    result, _ = certified(report(*images), *words)
    assert result.exit_code == status
    assert result.stderr == ""


def test_a_batch_that_differs(certified):
    result, _ = certified(report(image(), equal=False, batch=DIFFERENT), "qwen2_vl")
    assert result.exit_code == 1


def test_for_people(certified):
    result, _ = certified(report(image(), DIFFERENT, SHAPES, REFUSED, ONE_SIDED, UNREADABLE), "qwen2_vl")
    lines = [re.sub(r"  +", "  ", line) for line in result.stdout.splitlines()]
    assert lines == [
        "qwen2_vl, as pillow computes it; sizes are height x width",
        "",
        "image  size  mode  result  grids  tokens  tensors  differing  levels",
        "a.png  40x60  RGB  equal  equal  4  equal  0  0",
        "b.png  40x60  RGB  DIFFERENT  equal  4  equal  7  1.5",
        "c.png  40x60  RGB  DIFFERENT  differ  4, not 5  differ",
        "d.png  2x700  L  refused",
        "e.png  2x700  L  DIFFERENT",
        "f.png  unreadable",
        "",
        "b.png: pixel_values: 7 of 48 values differ, at most by 0.125",
        "c.png: image_grid_thw: (1, 3) int64, reference nothing",
        "d.png: Foveal: ImageSizeError: too flat",
        "d.png: reference: no",
        "e.png: Foveal: answers",
        "e.png: reference: ValueError: no",
        "f.png: cannot be read: not an image",
        "",
        "model  qwen2_vl",
        "checkpoint  none: the numbers that the model was published with",
        "overrides  max_pixels=50176",
        "compared with  transformers.Qwen2VLImageProcessorPil, called by Qwen2VLProcessor",
        "images as  PIL object",
        "instruction level  generic",
        "versions  foveal 0.1.0, torch not installed",
        "note  something to know",
        "",
        "DIFFERENT: 3 of 4 calls; 1 refused by both; 1 cannot be read",
    ]


def test_verdicts():
    assert verdict(report(image(), image())) == "equal: 2 calls, 102 values, not one bit differs"
    assert verdict(report(image(), REFUSED)) == "equal: 1 call, 51 values, not one bit differs; 1 refused by both"
    assert verdict(report(REFUSED)) == "nothing was compared; 1 refused by both"
    assert verdict(report(image(), UNREADABLE)).endswith("; 1 cannot be read")
    assert verdict(report(image(), DIFFERENT, equal=False, batch=DIFFERENT)) == "DIFFERENT: 2 of 3 calls"


def test_tokens_that_are_not_compared(certified):
    uncounted = image(reference_tokens=None, tokens_equal=None)
    without = image(tokens=None, reference_tokens=None, tokens_equal=None, grids_equal=None)
    result, _ = certified(report(uncounted, without), "qwen2_vl")
    assert "  4, not compared  " in result.stdout
    assert "  none   none " in result.stdout


def test_json(certified):
    told = report(image(), REFUSED, batch=DIFFERENT)
    result, _ = certified(told, "qwen2_vl", "--json")
    assert json.loads(result.stdout) == told.to_dict()
    assert list(told.to_dict())[:2] == ["schema", "equal"]


@pytest.mark.parametrize(
    ("title", "struct"), [("The JSON", Report), ("An image", ImageReport), ("A tensor", TensorReport)]
)
def test_every_field_of_the_json_is_described(title, struct):
    section = re.search(rf"\n#+ {title}\n(.*?)(?=\n#+ |\Z)", DOCUMENT, re.DOTALL)[1]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    described = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(described) == sorted(field.name for field in fields(struct))


def test_errors_are_one_line(certified):
    result, _ = certified(OptionError("nothing to compare with"), "qwen2_vl")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "error: nothing to compare with\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody"], "no spec is named 'nobody'"),
        (["qwen2_vl", "none.png"], "image 0 (none.png): no such file or folder"),
        (["qwen2_vl", "--set", "sharpen=true"], "'sharpen' is not an option of qwen2_vl"),
        (["qwen2_vl", "--set", "images=3"], "'images' is not an option of qwen2_vl"),
        (["llama4", "--reference", "pillow"], "llama4 exists only for torchvision"),
    ],
)
def test_bad_input(words, message):
    result = CliRunner().invoke(app, ["verify", *words])
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_the_extra_it_says_what_to_install():
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from foveal.cli import app\n"
        "app(['verify', 'qwen2_vl'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "torch" in done.stderr
    assert done.stderr.endswith(" install Foveal with its extra foveal[verify]\n")
    assert done.stderr.count("\n") == 1


def test_public_name():
    assert foveal.verify is foveal.verification.verify
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        foveal.nothing  # noqa: B018
