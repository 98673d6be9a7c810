import json

import pytest
from commands import fail, invoke, succeed
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from foveal.backends.messages import messages

PAD = "<|image_pad|>"


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.new("RGB", (80, 60), (200, 40, 0)).save(path)
    return path


@pytest.fixture
def checkpoint(tmp_path):
    """Return the directory of a model with a tokenizer of words."""
    path = tmp_path / "checkpoint"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl", "image_token_id": 3}))
    (path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "Qwen2VLImageProcessor"}))
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "What": 1, "is": 2, PAD: 3}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([PAD])
    tokenizer.save(str(path / "tokenizer.json"))
    return path


@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm", "tokenspeed"])
def test_a_request_is_written_and_found_to_be_right(backend, photo, tmp_path):
    file = tmp_path / "request.bin"
    words = ("--input-ids", "1,IMAGE,2", photo, "-o", file)
    shown = succeed("request", backend, "qwen2_5_vl", *words).splitlines()
    assert shown[-1] == f"written: {file}"
    request = messages(backend).pb2.GenerateRequest.FromString(file.read_bytes())
    ids = list(request.tokenized.input_token_ids if backend == "trtllm" else request.tokenized.input_ids)
    assert (ids[0], ids[-1], len(ids)) == (1, 2, 3 if backend == "trtllm" else 8)
    found = json.loads(succeed("inspect-request", "--json", file))
    assert (found["backend"], found["problems"], len(found["items"])) == (backend, [], 1)
    assert succeed("inspect-request", file).splitlines()[0].startswith(f"{backend}, ")


def test_dtypes_of_the_worker(photo, tmp_path):
    file = tmp_path / "request.bin"
    common = ("request", "vllm", "qwen2_5_vl", "--input-ids", "IMAGE", photo, "-o", file)
    for words, dtype in (((), "float32"), (("--dtype", "bfloat16"), "bfloat16"), (("--device-normalize",), "uint8")):
        succeed(*common, *words)
        request = messages("vllm").pb2.GenerateRequest.FromString(file.read_bytes())
        assert request.mm_inputs.pixel_values.dtype == dtype
    assert fail(*common, "--dtype", "float64") == ("error: --dtype float64: expected one of float32, bfloat16, float16")


def test_prompts_are_tokenized(checkpoint, photo):
    found = json.loads(succeed("request", "vllm", checkpoint, "--prompt", f"What is {PAD} ?", photo, "--json"))
    assert found["prompt_tokens"] == 3 + found["items"][0]["feature_tokens"]
    assert found["output"] is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("qwen2_5_vl",), "give either --prompt or --input-ids"),
        (("qwen2_5_vl", "--prompt", "x", "--input-ids", "1"), "give either --prompt or --input-ids"),
        (
            ("qwen2_5_vl", "--prompt", "x"),
            "--prompt needs the directory of a checkpoint with a tokenizer.json; or give",
        ),
        (("qwen2_5_vl", "--input-ids", "1,x"), "--input-ids: x is neither a number nor IMAGE"),
        (("qwen2_5_vl", "--input-ids", "1,IMAGE"), "the prompt has 1 placeholder '<|image_pad|>', for 0 images"),
        (("clip", "--input-ids", "1"), "clip does not say what an image becomes in a prompt"),
    ],
)
def test_prompts_that_are_wrong(words, text):
    assert fail("request", "vllm", *words).startswith(f"error: {text}")


def test_backends_and_files_that_are_wrong(photo, tmp_path):
    ids = ("--input-ids", "IMAGE", photo)
    assert fail("request", "ollama", "qwen2_5_vl", *ids) == (
        "error: the backend must be one of vllm, sglang, trtllm, tokenspeed"
    )
    assert fail("request", "vllm", "qwen2_5_vl", *ids, "-o", "nowhere/a.bin") == "error: nowhere: no such directory"
    assert fail("request", "sglang", "gemma3", *ids).startswith("error: sglang cannot serve gemma3 over gRPC: ")
    missing = fail("request", "vllm", "qwen2_5_vl", "--input-ids", "IMAGE", tmp_path / "none.png")
    assert missing.endswith("cannot be opened: no such file or directory")


def test_what_is_no_request(tmp_path):
    file = tmp_path / "request.bin"
    file.write_bytes(b"\xff\xff\xff")
    assert fail("inspect-request", file) == f"error: {file}: not a request of any backend"
    assert fail("inspect-request", tmp_path / "none").endswith("none: No such file or directory")


def test_what_is_wrong_with_a_request_is_said(photo, tmp_path):
    file = tmp_path / "request.bin"
    succeed("request", "vllm", "qwen2_5_vl", "--input-ids", "IMAGE", photo, "-o", file)
    request = messages("vllm").pb2.GenerateRequest.FromString(file.read_bytes())
    request.mm_inputs.im_token_id = 7
    file.write_bytes(request.SerializeToString())
    done = invoke("inspect-request", file)
    assert done.exit_code == 1
    assert "wrong: " in done.stdout
    assert json.loads(invoke("inspect-request", "--json", file).stdout)["problems"]
