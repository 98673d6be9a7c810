"""Requests as the engines' own receiving code takes them, without a GPU.

``FOVEAL_RECEIVERS`` is a folder of scripts that run it (``make_models.py``, ``check_vllm.py``, ``compare_vllm.py``,
``check_sglang.py``, ``check_tokenspeed.py``); ``FOVEAL_RECEIVERS_ENV`` has the environments ``vllm`` and ``sglang``.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.backends import ServerInfo, assemble
from foveal.chat import tokenizer

SCRIPTS, ENVIRONMENTS = (os.environ.get(name, "") for name in ("FOVEAL_RECEIVERS", "FOVEAL_RECEIVERS_ENV"))
pytestmark = [
    pytest.mark.receivers,
    pytest.mark.skipif(not (SCRIPTS and ENVIRONMENTS), reason="FOVEAL_RECEIVERS and FOVEAL_RECEIVERS_ENV are not set"),
]
MODELS = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "llava_next", "llava_onevision", "pixtral_hf", "mistral3"]
MODELS += ["llama4", "gemma3", "idefics3", "smolvlm", "internvl_hf"]
ON_SGLANG = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llama4", "pixtral_hf"]
ONE_SIZE = ["pixtral_hf", "mistral3"]
SIZES = [(480, 640), (500, 300), (400, 1000)]


def run(environment, script, *arguments):
    """Run a script and return its exit status and what it printed."""
    python = Path(ENVIRONMENTS, environment, "bin", "python")
    command = [python, Path(SCRIPTS, script), *map(str, arguments)]
    quiet = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with small models and pictures."""
    path = tmp_path_factory.mktemp("receivers")
    assert run("vllm", "make_models.py", path, *MODELS)[0] == 0
    random = np.random.default_rng(0)
    for number, (height, width) in enumerate(SIZES):
        smooth = np.add.outer(np.arange(height), np.arange(width))[..., None] // [2, 3, 5] % 224
        noise = random.integers(0, 32, (height, width, 3))
        Image.fromarray((smooth + noise).astype(np.uint8)).save(path / f"{number}.png")
    return path


class Sent:
    """A request for one of the models, and what an oracle needs to know of it."""

    def __init__(self, folder, model, backend):
        self.model = folder / model
        preprocessor = foveal.Preprocessor.from_pretrained(self.model)
        encode, tokens = tokenizer(self.model).encode, preprocessor.spec.tokens
        self.images = [folder / f"{number}.png" for number in range(1 if model in ONE_SIZE else 3)]
        self.ids = encode("A" + "B".join([tokens.placeholder] * len(self.images)) + "C")
        on_device = backend == "vllm" and preprocessor.spec.wire.vllm.device_normalize
        info = ServerInfo(encoder_dtype="bfloat16", device_normalize=on_device)
        ready = preprocessor.process(self.ids, self.images, encode=encode)
        self.file = folder / f"{model}.{backend}.bin"
        self.file.write_bytes(assemble(ready, backend, info, request_id="r").serialized)


@pytest.mark.parametrize("model", MODELS)
def test_vllm_encodes_as_many_rows_as_there_are_slots(model, folder):
    sent = Sent(folder, model, "vllm")
    status, report = run("vllm", "check_vllm.py", sent.file, "--config", sent.model, "--run-encoder")
    assert status == 0, report
    found = json.loads(report)
    assert len(found["encoder"]) == len(sent.images)
    assert all(image["encoder_rows"] == image["placeholder_embeds"] for image in found["encoder"])
    assert "warnings" not in found


@pytest.mark.parametrize("model", MODELS)
def test_vllm_gets_what_its_own_processor_gives(model, folder):
    sent = Sent(folder, model, "vllm")
    arguments = (sent.file, sent.model, *sent.images, "--prompt-ids", json.dumps(sent.ids))
    status, report = run("vllm", "compare_vllm.py", *arguments)
    if model in ("idefics3", "smolvlm"):  # the mask is sent as bytes, an eighth of what the processor gives
        different = [line for line in report.splitlines() if line.startswith(" - ")]
        text = "pixel_attention_mask: dtype torch.uint8 instead of torch.int64"
        assert different == [f" - image[{number}].{text}" for number in range(3)]
    else:
        assert status == 0, report


@pytest.mark.parametrize("model", ON_SGLANG)
def test_sglang_takes_it(model, folder):
    sent = Sent(folder, model, "sglang")
    status, report = run("sglang", "check_sglang.py", sent.file, "--config", sent.model)
    assert status == 0, report


@pytest.mark.parametrize("model", MODELS)
def test_tokenspeed_takes_it(model, folder):
    status, report = run("vllm", "check_tokenspeed.py", Sent(folder, model, "tokenspeed").file)
    assert status == 0, report
