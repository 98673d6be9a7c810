"""The certificate, with references that answer what a test says; no torch needed."""

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.errors import OptionError
from foveal.verification import certify as module
from foveal.verification.certify import certify, verify
from foveal.verification.images import Subject, given
from foveal.verification.reference import Answer

SIZES = [(40, 60), (61, 33), (28, 28)]


class Same:
    """Answers what Foveal answers, after some changes."""

    name, converts = "a class", True

    def __init__(self, spec="qwen2_vl", change=lambda tensors: tensors, tokens=0, unused=()):
        self.preprocessor = foveal.Preprocessor.from_spec(spec)
        self.change, self.more, self.unused = change, tokens, frozenset(unused)

    def __call__(self, images):
        features = self.preprocessor(images)
        tensors = self.change({name: array.copy() for name, array in features.items()})
        tokens = None if self.more is None else [plan.features + self.more for plan in features.plans]
        return Answer(tensors, self.unused, tokens)


def picture(height, width):
    return Image.fromarray(np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8))


PICTURES = [picture(*size) for size in SIZES]
WRONG = Image.new("RGB", (700, 2))
"""The rule of Qwen2-VL refuses it."""


def compare(reference, images=PICTURES, spec="qwen2_vl"):
    return certify(foveal.Preprocessor.from_spec(spec), reference, given(list(images)))


def test_equal():
    reports, batch = compare(Same())
    for report, (height, width) in zip(reports, SIZES, strict=True):
        assert (report.height, report.width, report.mode) == (height, width, "RGB")
        assert (report.outcome, report.grids_equal, report.tensors_alike, report.tokens_equal) == (
            "equal",
            True,
            True,
            True,
        )
        assert report.tokens == report.reference_tokens > 0
        assert (report.differing, report.levels) == (0, 0.0)
        assert [tensor.name for tensor in report.tensors] == ["pixel_values", "image_grid_thw"]
        assert report.values == sum(np.prod(tensor.shape) for tensor in report.tensors)
    assert (batch.image, batch.height, batch.mode, batch.outcome) == ("3 together", None, None, "equal")
    assert batch.tokens == sum(report.tokens for report in reports)


def test_one_image_has_no_batch():
    _, batch = compare(Same(), PICTURES[:1])
    assert batch is None


def one_level_more(tensors):
    step = np.float32(1 / 255 / 0.26862954)
    tensors["pixel_values"][3, 0] += step
    return tensors


def test_one_level_of_one_value():
    (report,), _ = compare(Same(change=one_level_more), PICTURES[:1])
    assert (report.outcome, report.grids_equal, report.tensors_alike, report.differing) == ("different", True, True, 1)
    assert report.levels == pytest.approx(1, abs=1e-3)


def other_grid(tensors):
    tensors["image_grid_thw"][0, 1] += 2
    return tensors


def test_another_grid():
    (report,), _ = compare(Same(change=other_grid), PICTURES[:1])
    assert (report.outcome, report.grids_equal, report.tensors_alike, report.levels) == ("different", False, True, 0.0)
    assert report.tensors[1].greatest == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: {"pixel_values": tensors["pixel_values"]},
        lambda tensors: {**tensors, "mask": np.ones(3)},
        lambda tensors: {**tensors, "pixel_values": tensors["pixel_values"][:-4]},
        lambda tensors: {**tensors, "pixel_values": tensors["pixel_values"].astype(np.float16)},
    ],
)
def test_other_names_shapes_and_dtypes(change):
    (report,), _ = compare(Same(change=change), PICTURES[:1])
    assert (report.outcome, report.tensors_alike) == ("different", False)


def test_what_the_processor_drops_is_compared_only_where_foveal_has_it():
    more = Same(change=lambda tensors: {**tensors, "rows": np.ones(3)}, unused=["rows", "image_grid_thw"])
    (report,), _ = compare(more, PICTURES[:1])
    assert report.outcome == "equal"
    more.change = other_grid
    (report,), _ = compare(more, PICTURES[:1])
    assert report.outcome == "different"


def test_tokens():
    (report,), _ = compare(Same(tokens=1), PICTURES[:1])
    assert (report.outcome, report.tokens_equal, report.reference_tokens) == ("different", False, report.tokens + 1)
    (report,), _ = compare(Same(tokens=None), PICTURES[:1])
    assert (report.outcome, report.tokens_equal, report.reference_tokens) == ("equal", None, None)
    (report,), _ = compare(Same("clip"), PICTURES[:1], "clip")
    assert (report.outcome, report.tokens, report.tokens_equal, report.grids_equal) == ("equal", None, None, None)


def test_both_refuse():
    reports, batch = compare(Same(), [PICTURES[0], WRONG, PICTURES[1]])
    assert [report.outcome for report in reports] == ["equal", "both_refuse", "equal"]
    assert "aspect ratio" in reports[1].refusal
    assert "aspect ratio" in reports[1].reference_refusal
    assert batch.image == "2 together"


def refuse(tensors):
    raise ValueError("not this\nimage")


def test_one_refuses():
    (report,), batch = compare(Same(change=refuse), PICTURES[:1])
    assert (report.outcome, report.refusal) == ("different", None)
    assert report.reference_refusal == "ValueError: not this image"
    assert batch is None
    (report,), _ = compare(Same("clip"), [WRONG])
    assert (report.outcome, report.reference_refusal) == ("different", None)
    assert "aspect ratio" in report.refusal


def test_an_error_that_is_not_a_refusal_is_a_difference(monkeypatch):
    def broken(self, images, *arguments, **options):
        raise IndexError("out of range")

    reference = Same(change=refuse)
    monkeypatch.setattr(foveal.Preprocessor, "__call__", broken)
    (report,), _ = compare(reference, PICTURES[:1])
    assert (report.outcome, report.refusal) == ("different", "unexpected IndexError: out of range")


def test_an_image_that_cannot_be_read_leaves_the_others(tmp_path):
    (tmp_path / "text.png").write_text("no image")
    reports, batch = compare(Same(), [PICTURES[0], tmp_path / "text.png", PICTURES[1]])
    assert [report.outcome for report in reports] == ["equal", "unreadable", "equal"]
    assert reports[1].refusal.startswith("cannot be read: ")
    assert batch.outcome == "equal"


def test_images_are_decoded_one_after_the_other():
    seen = []

    def load(number):
        seen.append(f"load {number}")
        return PICTURES[number]

    subjects = [Subject(str(number), lambda number=number: load(number)) for number in range(2)]
    certify(foveal.Preprocessor.from_spec("qwen2_vl"), Same(), subjects, seen.append)
    assert seen == ["0", "load 0", "1", "load 1"]


# ---- the whole


@pytest.fixture
def reference(monkeypatch):
    """Let Foveal be its own reference; return what references were asked for."""
    asked = []

    def make(basis, trusted):
        asked.append((basis, trusted))
        return Same(basis.spec.name)

    monkeypatch.setattr(module, "require_packages", lambda: None)
    monkeypatch.setattr(module, "make_reference", make)
    return asked


def test_report(reference):
    report = foveal.verify("qwen2_vl", PICTURES)
    assert (report.equal, report.spec, report.checkpoint, report.reference) == (True, "qwen2_vl", None, "torchvision")
    assert (report.schema, report.decode, report.compared_with) == (1, "PIL object", "a class")
    assert report.versions["foveal"] == foveal.__version__
    assert len(report.with_outcome("equal")) == 4
    tree = report.to_dict()
    assert tree["images"][0]["tensors"][0]["shape"] == list(report.images[0].tensors[0].shape)
    ((basis, trusted),) = reference
    assert (basis.directory, trusted) == (None, False)
    assert basis.fields.image_processor["size"] == {"shortest_edge": 3136, "longest_edge": 12845056}


def test_report_of_a_checkpoint(reference, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "qwen2_vl"}')
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_processor_type": "Qwen2VLImageProcessorFast", "max_pixels": 50176}'
    )
    report = foveal.verify(tmp_path, PICTURES[0], min_pixels=1000)
    assert (report.checkpoint, report.overrides) == (str(tmp_path.resolve()), {"min_pixels": 1000})
    ((basis, _),) = reference
    assert basis.directory == tmp_path.resolve()
    assert basis.fields.image_processor["size"] == {"shortest_edge": 1000, "longest_edge": 50176}


def test_an_unreadable_image_is_not_equal(reference, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    assert not foveal.verify("qwen2_vl", tmp_path / "text.png").equal


def test_the_built_in_set_by_default(reference):
    report = foveal.verify("qwen2_vl")
    assert report.equal
    assert {image.mode for image in report.images} >= {"RGB", "L", "P", "CMYK"}
    assert report.notes == ()


def test_modes_are_left_out_where_the_reference_leaves_them_alone(reference, monkeypatch):
    monkeypatch.setattr(Same, "converts", False)
    report = foveal.verify("qwen2_vl")
    assert {image.mode for image in report.images} == {"RGB"}
    assert "RGB alone" in report.notes[0]


@pytest.mark.parametrize(
    ("installed", "wanted", "compared"), [("12.1.0", "pillow", "pillow<13"), ("13.0.0", "pillow", "pillow")]
)
def test_the_order_of_the_installed_pillow(reference, monkeypatch, installed, wanted, compared):
    monkeypatch.setattr(module, "version", lambda package: installed)
    report = verify("qwen2_vl", PICTURES[0], wanted)
    assert report.reference == compared
    assert bool(report.notes) == (wanted != compared)


def test_an_order_that_the_installed_pillow_does_not_have(reference, monkeypatch):
    monkeypatch.setattr(module, "version", lambda package: "13.0.0")
    with pytest.raises(OptionError, match=r"pillow<13: the installed Pillow is 13\.0\.0"):
        verify("qwen2_vl", PICTURES[0], "pillow<13")


def test_missing_packages(monkeypatch):
    monkeypatch.setattr("foveal.verification.reference.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"needs torch, torchvision, transformers: install Foveal with its extra"):
        foveal.verify("qwen2_vl", PICTURES[0])


def test_unknown_options_are_refused(reference):
    with pytest.raises(OptionError, match="sharpen"):
        foveal.verify("qwen2_vl", PICTURES[0], sharpen=True)
