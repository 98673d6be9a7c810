"""Certificates against the real processors; needs the extra ``foveal[reference]``."""

import json
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.errors import OptionError
from foveal.spec import load, names
from foveal.verification.images import SIZES, drawn

EXACT = {"pillow": "13.0.0", "torch": "2.14.1", "torchvision": "0.29.1", "transformers": "5.24.0"}
OWN_CODE = ("internvl_chat", "kimi_vl", "phi3_v")
MORE_PACKAGES = {"smolvlm": "num2words"}
WITH_TWO = [
    (name, reference) for name in names() if name not in OWN_CODE for reference in load(name)["image"]["references"]
]
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}

CODE = """
import numpy as np
import torch
from transformers.image_processing_utils import BaseImageProcessor, BatchFeature


class KimiVLImageProcessor(BaseImageProcessor):
    def __init__(self, image_mean, image_std, patch_size=14, **options):
        super().__init__(**options)
        self.image_mean, self.image_std, self.patch_size = image_mean, image_std, patch_size

    def preprocess(self, images, return_tensors=None):
        side, (image,) = self.patch_size, images
        rows, columns = (-(-length // (2 * side)) * 2 for length in (image.height, image.width))
        canvas = np.zeros((rows * side, columns * side, 3), np.uint8)
        canvas[: image.height, : image.width] = np.asarray(image)
        values = torch.from_numpy(canvas.transpose(2, 0, 1).copy()).float().div(255)
        values = (values - torch.tensor(self.image_mean).view(3, 1, 1)) / torch.tensor(self.image_std).view(3, 1, 1)
        patches = values.view(3, rows, side, columns, side).permute(1, 3, 0, 2, 4).reshape(-1, 3, side, side)
        return BatchFeature({"pixel_values": patches, "image_grid_hws": np.array([[rows, columns]])}, return_tensors)
"""


def missing():
    for package, wanted in EXACT.items():
        try:
            found = version(package).split("+")[0]
        except PackageNotFoundError:
            return f"{package} is not installed"
        if found != wanted:
            return f"{package} is {found}, not {wanted}"
    return None


pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

PICTURES = [drawn(modes=False)[SIZES.index(size)].load() for size in ((97, 1031), (37, 23))]


@pytest.mark.parametrize(("name", "reference"), WITH_TWO)
def test_every_spec_is_equal(name, reference):
    if package := MORE_PACKAGES.get(name):
        pytest.importorskip(package)
    report = foveal.verify(name, PICTURES, reference)
    assert report.with_outcome("different") == ()
    assert report.batch is not None
    counted = report.images[0].tokens is not None
    assert [image.tokens_equal for image in report.images] == [True if counted else None] * len(PICTURES)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("qwen2_vl", {"max_pixels": 50176}),
        ("qwen2_vl", {"do_rescale": False, "do_normalize": None}),
        ("qwen3_vl", {"image_mean": "imagenet", "resample": "lanczos"}),
        ("llava1_5", {"do_pad": True}),
        ("gemma3", {"do_pan_and_scan": True}),
        ("internvl", {"crop_to_patches": False}),
        ("llava_onevision", {"size": 224, "image_grid_pinpoints": [[448, 448], [224, 448]]}),
    ],
)
def test_overrides_reach_both_sides(name, overrides):
    assert foveal.verify(name, PICTURES, **overrides).equal


def write(directory, **files):
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    return directory


def test_a_checkpoint_brings_its_numbers_to_both_sides(tmp_path):
    fields = {"image_processor_type": "PixtralImageProcessorFast", "patch_size": 14, "size": {"longest_edge": 300}}
    checkpoint = write(
        tmp_path,
        config={"model_type": "mistral3", "spatial_merge_size": 2},
        preprocessor_config={**fields, **CLIP},
        processor_config={"processor_class": "PixtralProcessor", "patch_size": 14, "spatial_merge_size": 2},
    )
    report = foveal.verify(checkpoint, PICTURES)
    assert report.equal
    assert report.compared_with == "transformers.PixtralImageProcessor, called by PixtralProcessor"
    assert max(report.images[0].tensors[0].shape) == 308


def test_overrides_of_a_checkpoint(tmp_path):
    checkpoint = write(
        tmp_path,
        config={"model_type": "qwen2_vl"},
        preprocessor_config={"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 7, **CLIP},
    )
    report = foveal.verify(checkpoint, PICTURES[0], temporal_patch_size=1)
    assert report.equal
    assert report.images[0].tensors[0].shape[1] == 3 * 7 * 7


def test_both_refuse():
    report = foveal.verify("qwen2_vl", Image.new("RGB", (700, 2)))
    assert (report.equal, report.images[0].outcome) == (True, "both_refuse")


def test_the_state_of_other_packages_is_left_alone():
    import torch
    from transformers.utils import logging

    threads, verbosity = torch.get_num_threads(), logging.get_verbosity()
    torch.set_num_threads(2)
    logging.set_verbosity_info()
    try:
        foveal.verify("clip", PICTURES[0])
        assert torch.get_num_threads() == 2
        assert logging.get_verbosity() == logging.INFO
    finally:
        torch.set_num_threads(threads)
        logging.set_verbosity(verbosity)


# ---- models that bring their own code


@pytest.fixture
def kimi(tmp_path):
    fields = {"image_processor_type": "KimiVLImageProcessor", "pad_input": True, "patch_size": 14, **CLIP}
    fields["auto_map"] = {"AutoImageProcessor": "image_processing_kimi_vl.KimiVLImageProcessor"}
    return write(tmp_path, config={"model_type": "kimi_vl"}, preprocessor_config=fields)


@pytest.mark.parametrize("name", OWN_CODE)
def test_a_spec_without_a_class_needs_a_checkpoint(name):
    with pytest.raises(OptionError, match=f"{name}: transformers .* has no class .*: pass the directory"):
        foveal.verify(name, PICTURES)


def test_code_that_is_not_there(kimi):
    with pytest.raises(OptionError, match=r"does not hold image_processing_kimi_vl\.py, its own code"):
        foveal.verify(kimi, PICTURES, trust_remote_code=True)
    fields = json.loads((kimi / "preprocessor_config.json").read_text())
    fields["auto_map"]["AutoImageProcessor"] = "someone/other--image_processing_kimi_vl.KimiVLImageProcessor"
    write(kimi, preprocessor_config=fields)
    with pytest.raises(OptionError, match="names no image processor of its own"):
        foveal.verify(kimi, PICTURES, trust_remote_code=True)


def test_code_runs_only_when_it_is_trusted(kimi, monkeypatch, tmp_path):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    marker = tmp_path / "ran"
    (kimi / "image_processing_kimi_vl.py").write_text(f"open({str(marker)!r}, 'w')\n{CODE}")
    with pytest.raises(OptionError, match="--trust-remote-code runs it"):
        foveal.verify(kimi, PICTURES)
    assert not marker.exists()
    report = foveal.verify(kimi, PICTURES[1], trust_remote_code=True)
    assert report.equal
    assert report.compared_with == "KimiVLImageProcessor of the checkpoint's image_processing_kimi_vl.py"
    assert report.images[0].tokens_equal is None
    assert np.prod(report.images[0].tensors[0].shape) > 0


def test_code_that_cannot_be_loaded(kimi, monkeypatch, tmp_path):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    (kimi / "image_processing_kimi_vl.py").write_text("raise RuntimeError('an old version')\n")
    with pytest.raises(OptionError, match="cannot be made here: RuntimeError: an old version"):
        foveal.verify(kimi, PICTURES, trust_remote_code=True)
