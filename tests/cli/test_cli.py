import json
import os
import subprocess
import sys
from base64 import b64encode
from importlib import import_module
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
from commands import fail, invoke, succeed
from PIL import Image
from safetensors.numpy import load_file
from serving import Threaded, response

import foveal
from foveal.spec import find

PHOTO = Path(foveal.__file__).parent / "data" / "raccoon.jpg"
COMMANDS = ["demo", "models", "inspect", "plan", "show", "run", "warmup", "tune", "doctor"]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)).save(path)
    return path


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


# ---- the command itself


def test_help_lists_every_command():
    for words in ((), ("--help",), ("-h",)):
        text = succeed(*words)
        assert all(f"\n  {command} " in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_python_types(command):
    assert "<" not in succeed(command, "--help").replace("'pillow<13'", "")


def test_usage_lines():
    assert succeed("run", "-h").splitlines()[0].endswith(" run [OPTIONS] MODEL IMAGE...")
    assert succeed("demo", "-h").splitlines()[0].endswith(" demo [OPTIONS] [IMAGE]")
    assert "\n  IMAGE|WxH  Image files, URLs, or sizes as WIDTHxHEIGHT" in succeed("plan", "-h")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "show"])
def test_every_command_that_prints_results_has_json(command):
    assert "--json" in succeed(command, "--help")


def test_version():
    assert succeed("--version") == f"{foveal.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["models"], ["plan", "qwen2_vl", "640x480"], ["run", "--help"]])
def test_commands_that_compute_no_pixel_import_no_numba(words):
    done = python(
        "import sys\n"
        "from foveal.cli import app\n"
        "try:\n"
        f"    app({words})\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "assert not {'numba', 'llvmlite'} & set(sys.modules)\n"
    )
    assert done.returncode == 0, done.stderr


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "foveal", "plan", "qwen2_vl", "640x480", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["batch"]["features"] > 0


def test_usage_errors_are_one_line():
    assert fail("plan") == "error: Missing argument 'MODEL'."
    assert fail("nothing").startswith("error: No such command 'nothing'.")
    assert fail("run", "qwen2_vl", "a.png", "--nothing").startswith("error: No such option: --nothing")


def test_a_traceback_only_with_debug():
    plain = subprocess.run(
        [sys.executable, "-m", "foveal", "plan", "nobody", "1x1"], capture_output=True, text=True, check=False
    )
    assert plain.returncode == 2
    assert plain.stderr.startswith("error: no spec is named 'nobody'; ")
    assert plain.stderr.count("\n") == 1
    for words in (["--debug", "plan", "nobody", "1x1"], ["plan", "nobody", "1x1", "--debug"]):
        debug = subprocess.run([sys.executable, "-m", "foveal", *words], capture_output=True, text=True, check=False)
        assert debug.returncode == 1
        assert debug.stderr.startswith("Traceback ")
        assert "foveal.errors.UnknownModelError: no spec is named 'nobody'" in debug.stderr


def test_what_should_not_happen_is_one_line_and_another_status(monkeypatch):
    def broken():
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("foveal.spec.names", broken)
    result = invoke("models")
    assert result.exit_code == 1
    assert result.stderr == "error: unexpected RuntimeError: two lines (--debug shows more)\n"
    assert isinstance(invoke("models", "--debug").exception, RuntimeError)


# ---- models


def test_models():
    text = succeed("models")
    listed = json.loads(succeed("models", "--json"))
    assert [model["name"] for model in listed] == find.names()
    assert all(f"\n{model['name']} " in text for model in listed)
    assert set(listed[0]) == {
        "name",
        "references",
        "dtype",
        "tensors",
        "model_types",
        "image_processor_types",
        "source",
        "limits",
        "engines",
        "path",
    }
    assert [Path(model["path"]).read_text() for model in listed] == [
        (find.SPECS / f"{name}.yaml").read_text() for name in find.names()
    ]


# ---- plan


def test_plan_of_one_size():
    text = succeed("plan", "llama4", "1920x1080")
    assert text == (
        "llama4, as torchvision computes it; sizes are height x width\n"
        "\n"
        "image      size       aspect_ratios  feature tokens  pixel_values       dtype     bytes\n"
        "1920x1080  1080x1920  3x5            2304            (16, 3, 336, 336)  bfloat16  10.3 MiB\n"
        "\n"
        "image      view    resized   passes                      crop  canvas                    cut\n"
        "1920x1080  tiles   945x1680  bilinear, horizontal first  all   1008x1680, placed at 0,0  "
        "3x5 tiles of 336x336\n"
        "1920x1080  global  336x336   bilinear, horizontal first  all   336x336                   one tile of 336x336\n"
    )


def test_plan_of_several_images_ends_in_the_batch(image):
    text = succeed("plan", "llava1_5", image, "300x200", "--reference", "pillow")
    assert text.startswith("llava1_5, as pillow computes it")
    assert "\nimage.png  40x60     576             (1, 3, 336, 336)  float32  1.3 MiB\n" in text
    assert "\nbatch      2 images  1152            (2, 3, 336, 336)  float32  2.6 MiB\n" in text
    assert "\n300x200    image  336x504  bicubic, horizontal first  336x336 at 0,84  336x336  not cut\n" in text


def test_plan_as_json(image):
    tree = json.loads(succeed("plan", "qwen2_5_vl", image, "1036x756", "--json"))
    small, exact = tree["images"]
    assert (tree["model"], tree["reference"]) == ("qwen2_5_vl", "torchvision")
    assert (small["height"], small["width"]) == (40, 60)
    assert exact == {
        "image": "1036x756",
        "height": 756,
        "width": 1036,
        "stages": [],
        "views": [
            {
                "name": "image",
                "reads": "image",
                "window": {"top": 0, "left": 0, "height": 756, "width": 1036},
                "border": [0, 0, 0],
                "resized": {"height": 756, "width": 1036},
                "resample": None,
                "crop": {"top": 0, "left": 0, "height": 756, "width": 1036},
                "canvas": {"height": 756, "width": 1036},
                "place": {"top": 0, "left": 0},
                "fill": [0, 0, 0],
                "pack": {"kind": "merge_patches", "block": 14, "merge": 2, "temporal": 2, "allotted": None},
                "offset": 0,
            }
        ],
        "grid": {"rows": 54, "columns": 74},
        "shape": [54 * 74, 1176],
        "dtype": "float32",
        "bytes": 54 * 74 * 1176 * 4,
        "features": 27 * 37,
        "tensors": {"image_grid_thw": [[1, 54, 74]]},
        "side_tensors": [{"name": "image_grid_thw", "dtype": "int64", "shape": [1, 3]}],
    }
    assert tree["batch"] == {
        "primary": "pixel_values",
        "shape": [small["shape"][0] + exact["shape"][0], 1176],
        "dtype": "float32",
        "bytes": small["bytes"] + exact["bytes"],
        "features": small["features"] + exact["features"],
    }


def test_plan_shows_which_pass_is_first():
    words = ("plan", "qwen2_vl", "640x480", "--reference")
    assert "bicubic, vertical first" in succeed(*words, "pillow")
    assert "bicubic, horizontal first" in succeed(*words, "pillow<13")
    tree = json.loads(succeed(*words, "pillow", "--json"))
    assert tree["images"][0]["views"][0]["resample"] == {
        "filter": "bicubic",
        "method": "antialias",
        "first_pass": "vertical",
    }


def test_plan_of_stages():
    text = succeed("plan", "phi4mm", "600x500")
    assert text.partition("\n\n")[2] == (
        "image    size     image_sizes  image_attention_mask  num_img_tokens  feature tokens  image_pixel_values  "
        "dtype    bytes\n"
        "600x500  500x600  896x896      (5, 32, 32)           1164            1164            (5, 3, 448, 448)    "
        "float32  11.5 MiB\n"
        "\n"
        "image    view    reads   resized  passes                          crop  canvas                  cut\n"
        "600x500  canvas  image   746x896  bilinear, horizontal first      all   896x896, placed at 0,0  grid of 2x2\n"
        "600x500  global  canvas  448x448  bicubic, fixed taps, on values  all   448x448                 "
        "one tile of 448x448\n"
        "600x500  tiles   canvas  896x896  none                            all   896x896                 "
        "2x2 tiles of 448x448\n"
    )
    (tree,) = json.loads(succeed("plan", "phi4mm", "600x500", "--json"))["images"]
    assert [(stage["name"], stage["pack"]["kind"]) for stage in tree["stages"]] == [("canvas", "pixels")]
    assert [view["reads"] for view in tree["views"]] == ["canvas", "canvas"]
    assert tree["views"][0]["resample"] == {"filter": "bicubic", "method": "fixed_taps", "first_pass": None}
    assert tree["tensors"] == {"image_sizes": [[896, 896]], "num_img_tokens": [1164]}
    assert {"name": "image_attention_mask", "dtype": "float32", "shape": [5, 32, 32]} in tree["side_tensors"]


def test_plan_of_windows_and_of_padding_before_the_resize():
    text = succeed("plan", "gemma3", "1000x500", "--set", "do_pan_and_scan=true")
    assert "\n1000x500  crop 1  500x500 at 0,500  896x896  bilinear, horizontal first  all " in text
    assert " reads " not in text
    text = succeed("plan", "llava1_5", "200x100", "--set", "do_pad=true")
    assert "\n200x100  image  200x200 at -50,0  336x336  bicubic, horizontal first  all " in text
    (tree,) = json.loads(succeed("plan", "llava1_5", "200x100", "--set", "do_pad=true", "--json"))["images"]
    assert tree["views"][0]["window"] == {"top": -50, "left": 0, "height": 200, "width": 200}
    assert tree["views"][0]["border"] == [122, 116, 104]


def test_plan_of_a_padded_batch():
    text = succeed("plan", "siglip2", "300x200", "200x300")
    assert "\nimage    size      pixel_attention_mask  spatial_shapes  feature tokens " in text
    assert "\n300x200  200x300   (247,)                13x19           0 " in text
    assert "\nbatch    2 images  (2, 256)                              0               (2, 256, 768) " in text
    tree = json.loads(succeed("plan", "siglip2", "300x200", "200x300", "--json"))
    assert tree["batch"]["bytes"] == 2 * 256 * 768 * 4


def test_plan_of_overlapping_crops():
    text = succeed("plan", "molmo2", "900x700")
    assert "\n900x700  canvas  image   all                 644x910  bilinear, without antialias  all " in text
    assert "\n900x700  crop 4  canvas  378x378 at 266,266  378x378  none " in text
    assert " 14, 14, 23, 33 " in text


def test_a_file_may_be_named_like_a_size(tmp_path, image, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image.rename("640x480")
    tree = json.loads(succeed("plan", "qwen2_vl", "640x480", "--json"))
    assert tree["images"][0]["height"] == 40


def test_plan_refuses(tmp_path):
    missing = "cannot be opened: no such file or directory"
    assert fail("plan", "qwen2_vl", "640x480", "none.png") == f"error: image 1 (none.png): {missing}"
    assert fail("plan", "qwen2_vl", tmp_path / "no.png") == f"error: image 0 ({tmp_path}/no.png): {missing}"
    assert fail("plan", "qwen2_vl", ".") == "error: image 0 (.): cannot be opened: is a directory"
    assert fail("plan", "qwen2_vl", "640x480", "2x2000").startswith(
        "error: image 1 (2x2000) is 2000x2 (height x width)"
    )
    assert "reference" in fail("plan", "llama4", "640x480", "--reference", "pillow")
    assert fail("plan", "none.yaml", "1x1") == "error: none.yaml: No such file or directory"


@pytest.mark.parametrize(
    "item",
    [
        *("1920X1080", "1920*1080", "0x10", "10x0", "1920 x 1080", "1920,1080", "-5x5", "300x", "x300", "1.5x2"),
        "640x480px",
    ],
)
def test_what_looks_like_a_size_but_is_none(item):
    assert fail("plan", "qwen2_vl", "--", item) == (
        f"error: image 0 ({item}): neither a file nor a size; a size is WIDTHxHEIGHT, each at least 1, as 1920x1080"
    )


def test_plan_goes_by_the_limits_of_a_call(image, monkeypatch):
    assert fail("plan", "qwen2_vl", "640x480", "30000x30000") == (
        "error: image 1 (30000x30000): the image has 900000000 pixels (30000x30000, height x width), "
        "more than the limit of 178956970 (Limits.pixels)"
    )
    items = (image, "60x40", image)
    for variable, most in (
        ("IMAGES", 3),
        ("DECODED_BYTES", 3 * 4 * 40 * 60),
        ("ENCODED_BYTES", 2 * image.stat().st_size),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"FOVEAL_MAX_{variable}", str(most))
            succeed("plan", "qwen2_vl", *items)
            patch.setenv(f"FOVEAL_MAX_{variable}", str(most - 1))
            said = fail("plan", "qwen2_vl", *items)
            assert said.endswith(f"(Limits.{variable.lower()})")
            assert fail("run", "qwen2_vl", image, image, image).endswith(f"(Limits.{variable.lower()})")


def test_plan_of_several_is_the_plan_of_a_call(image):
    planned = json.loads(succeed("plan", "llava_onevision", image, "60x40", "--json"))
    expected = foveal.Preprocessor.from_spec("llava_onevision").plan([image, image])
    assert planned["batch"]["shape"] == list(expected.shape)


def test_a_very_long_argument_does_not_fill_the_screen():
    line = fail("plan", "qwen2_vl", "a" * 5000)
    assert line.endswith("): a str of 5000 characters is neither the path of a file nor a URL")
    assert len(line) < 250


@pytest.mark.parametrize("digits", [200, 9000])
def test_a_size_of_endless_digits_is_no_file(digits):
    item = f"{'9' * digits}x{'9' * digits}"
    assert fail("plan", "qwen2_vl", item) == (
        f"error: image 0 ({'9' * 60}...{'9' * 60}): "
        "neither a file nor a size; a size is WIDTHxHEIGHT, each at least 1, as 1920x1080"
    )


def test_long_words_and_words_that_cannot_be_printed():
    assert len(fail("9" * 9000)) < 700
    assert fail("plan", "9" * 9000, "1x1").startswith("error: no spec is named a long text; ")
    assert "\x1b" not in fail("plan\x1b[31m")
    missing = "cannot be opened: no such file or directory"
    assert fail("plan", "qwen2_vl", "a\x1b\n\udcff.png") == f"error: image 0 (a???.png): {missing}"


def test_a_model_id_means_its_spec():
    assert succeed("plan", "Qwen/Qwen2.5-VL-7B-Instruct", "640x480").startswith("qwen2_5_vl, ")


@pytest.mark.parametrize("model", ["acme/camera", "./checkpoints/mine"])
def test_a_model_that_is_no_directory_says_that_nothing_is_downloaded(model):
    assert fail("plan", model, "1x1") == (
        f"error: no spec is named '{model}', and no such directory exists; nothing is downloaded: "
        "pass the directory of a local checkpoint, or a name that foveal models lists"
    )


# ---- overrides


def features_of(*words):
    return json.loads(succeed("plan", *words, "--json"))["batch"]["features"]


def test_set_overrides_the_image_processor(image, tmp_path):
    assert features_of("qwen2_5_vl", "1024x768", "--set", "max_pixels=501760") == 609
    size = '{"shortest_edge": 3136, "longest_edge": 501760}'
    assert features_of("qwen2_5_vl", "1024x768", "--set", f"size={size}") == 609
    text = succeed("plan", "llava1_5", "640x480", "--set", "do_center_crop=false", "--set", "resample=lanczos")
    assert "336x448" in text
    assert "lanczos" in text
    path = tmp_path / "out.npz"
    succeed("run", "llava1_5", image, "-o", path, "--set", "image_mean=[0, 0, 0]", "--set", "image_std=[1,1,1]")
    expected = foveal.Preprocessor.from_spec("llava1_5", image_mean=[0, 0, 0], image_std=[1, 1, 1])(image)
    with np.load(path) as written:
        np.testing.assert_array_equal(written["pixel_values"], expected["pixel_values"])


def test_set_overrides_a_checkpoint(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 200704}'
    )
    (tmp_path / "config.json").write_text('{"model_type": "qwen2_vl"}')
    assert features_of(tmp_path, "1024x768") <= 256
    assert features_of(tmp_path, "1024x768", "--set", "max_pixels=501760") == 609


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sharpen=true", "'sharpen' is not an option of qwen2_vl "),
        ("max_pixels", "--set max_pixels: expected NAME=VALUE"),
        ("=3", "--set =3: expected NAME=VALUE"),
        ("max-pixels=3", "--set max-pixels=3: expected NAME=VALUE"),
        ("reference=pillow", "--set reference: not an option of an image processor"),
        ("spec=1", "--set spec: not an option of an image processor"),
        ("max_pixels=many", "max_pixels='many': "),
        ("max_pixels=" + "[" * 100_000, "max_pixels=a long text: "),
        ("rescale_factor=NaN", "rescale_factor"),
        ("do_resize=True", "do_resize='True': "),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_set_refuses(command, setting, message, image):
    assert fail(command, "qwen2_vl", image, "--set", setting).startswith(f"error: {message}")


def test_a_model_may_be_a_file_or_a_directory(tmp_path):
    spec = tmp_path / "own.yaml"
    spec.write_text((find.SPECS / "llava1_5.yaml").read_text())
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text('{"model_type": "qwen2_vl"}')
    (checkpoint / "preprocessor_config.json").write_text(
        '{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 200704}'
    )
    assert json.loads(succeed("plan", spec, "640x480", "--json"))["model"] == "llava1_5"
    tree = json.loads(succeed("plan", checkpoint, "1920x1080", "--json"))
    assert tree["model"] == "qwen2_vl"
    assert tree["batch"]["features"] * 28**2 <= 200704


# ---- run


def read_safetensors(path):
    return dict(safetensors.deserialize(path.read_bytes()))


@pytest.mark.parametrize("dtype", [None, "float32", "bfloat16", "uint8"])
def test_run_writes_safetensors(image, tmp_path, dtype):
    path = tmp_path / "out.safetensors"
    options = [] if dtype is None else ["--dtype", dtype]
    tree = json.loads(succeed("run", "qwen2_vl", image, image, "-o", path, "--json", *options))
    expected = foveal.Preprocessor.from_spec("qwen2_vl")([image, image], dtype=dtype)
    written = read_safetensors(path)
    assert list(written.keys() ^ expected.keys()) == []
    for name, tensor in expected.items():
        assert bytes(written[name]["data"]) == tensor.tobytes()
        assert tuple(written[name]["shape"]) == tensor.shape
    assert [row["name"] for row in tree["tensors"]] == list(expected)
    assert tree["tensors"][0]["dtype"] == (dtype or "float32")
    assert tree["output"] == str(path)
    assert set(tree) == {"model", "reference", "images", "tensors", "milliseconds", "output"}
    assert tree["images"][1] == {"image": str(image), "height": 40, "width": 60, "features": expected.plans[1].features}


def test_what_run_wrote_is_read_back_as_the_readme_says(image, tmp_path):
    path = tmp_path / "out.safetensors"
    succeed("run", "llama4", image, "-o", path)
    expected = foveal.Preprocessor.from_spec("llama4")(image)
    tensors = load_file(path)
    assert tensors["pixel_values"].dtype == expected["pixel_values"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(tensors["pixel_values"], expected["pixel_values"])


def test_run_writes_npz(image, tmp_path):
    path = tmp_path / "out.npz"
    succeed("run", "llava1_5", image, "--output", path, "--reference", "pillow", "--threads", 1)
    expected = foveal.Preprocessor.from_spec("llava1_5", "pillow")(image)
    with np.load(path) as written:
        assert sorted(written) == sorted(expected)
        np.testing.assert_array_equal(written["pixel_values"], expected["pixel_values"])


def test_run_without_a_file_shows_the_tensors(image):
    lines = succeed("run", "llava1_5", image).splitlines()
    assert lines[:2] == [
        "tensor        dtype    shape             bytes",
        "pixel_values  float32  (1, 3, 336, 336)  1.3 MiB",
    ]
    assert lines[3].startswith("1 image, 576 feature tokens, ")
    assert lines[4:] == ["not written: no -o"]


def test_run_refuses(image, tmp_path):
    text = tmp_path / "text.png"
    text.write_text("no image")
    name = tmp_path / "out.npz"
    assert fail("run", "llama4", image, "-o", name) == (
        "error: npz cannot hold bfloat16: write .safetensors, or choose --dtype float32"
    )
    assert fail("run", "qwen2_vl", image, "-o", name, "--dtype", "bfloat16").startswith(
        "error: npz cannot hold bfloat16"
    )
    assert fail("run", "qwen2_vl", image, "-o", "out.pt") == (
        "error: the output is out.pt: its name must end in .safetensors or .npz"
    )
    assert fail("run", "qwen2_vl", image, "-o", "nowhere/out.npz") == "error: nowhere: no such directory"
    assert fail("run", "qwen2_vl", image, text).startswith(f"error: image 1 ({text}): not an image of a format")
    assert fail("run", "llava1_5", ".") == "error: image 0 (.): cannot be opened: is a directory"
    assert fail("run", "qwen2_vl", image, "--dtype", "int3").startswith("error: dtype ")
    assert fail("run", "qwen2_vl", image, "--threads", "0") == "error: --threads 0: must be at least 1"
    assert not name.exists()


def test_run_names_an_image_of_a_size_that_is_refused_and_one_that_is_broken(image, tmp_path):
    thin, broken = tmp_path / "thin.png", tmp_path / "broken.png"
    Image.new("RGB", (2, 2000)).save(thin)
    broken.write_bytes(image.read_bytes()[:500])
    line = fail("run", "qwen2_vl", image, thin)
    assert line.startswith(f"error: image 1 ({thin}) is 2000x2 (height x width): ")
    line = fail("run", "qwen2_vl", image, broken)
    assert line == f"error: image 1 ({broken}): the PNG data are truncated or corrupt"


def test_a_file_that_cannot_be_written(image, tmp_path):
    path = tmp_path / "out.safetensors"
    path.mkdir()
    assert fail("run", "qwen2_vl", image, "-o", path) == f"error: {path}: Is a directory"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_full_disk(image, tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.symlink_to("/dev/full")
    assert fail("run", "llava1_5", image, "-o", path) == f"error: {path}: No space left on device"


def test_a_demo_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("foveal.cli.demo"), "_CALLS", 1)
    path = tmp_path / "what_the_model_sees.png"
    path.symlink_to("/dev/full")
    result = invoke("demo", "--model", "llava1_5", "-o", tmp_path, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {path}: No space left on device\n"


def test_names_of_outputs_that_no_file_can_have(image):
    line = fail("run", "llava1_5", image, "-o", "x" * 4000 + ".npz")
    assert line == f"error: {'x' * 60}...{'x' * 56}.npz: File name too long"
    assert fail("run", "llava1_5", image, "-o", "x" * 4000 + "/a.npz").endswith("x: no such directory")


@pytest.mark.parametrize("words", ["models", "plan qwen2_vl 64x48", "plan qwen2_vl 64x48 --json", "--help", "doctor"])
def test_a_closed_standard_output(words):
    command = f"{sys.executable} -m foveal {words} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# ---- warmup, doctor


def test_warmup_of_one_model():
    tree = json.loads(succeed("warmup", "llava1_5", "--reference", "pillow", "--json"))
    (row,) = tree["models"]
    assert (row["model"], row["reference"], row["dtype"]) == ("llava1_5", "pillow", "float32")
    assert tree["seconds"] >= row["seconds"] > 0


@pytest.fixture
def warmed(monkeypatch):
    """What would be compiled."""
    asked = []

    def pretend(self, dtype=None, progress=None):
        asked.append((self.name, self.reference, dtype))
        progress("emit")

    monkeypatch.setattr(foveal.Preprocessor, "warmup", pretend)
    return asked


def test_warmup_of_all(warmed):
    lines = succeed("warmup", "--all").splitlines()
    specs = [foveal.Preprocessor.from_spec(name) for name in find.names()]
    assert warmed == [(spec.name, spec.reference, None) for spec in specs]
    assert [line.split()[:3] for line in lines[:-1]] == [[spec.name, spec.reference, spec.dtype] for spec in specs]
    assert lines[-1].startswith("in all ")
    assert len({len(line) for line in lines}) == 1


def test_warmup_of_all_with_another_dtype_and_reference(warmed):
    succeed("warmup", "--all", "--dtype", "bfloat16", "--reference", "pillow<13")
    having = [name for name in find.names() if "pillow" in find.load(name)["image"]["references"]]
    assert warmed == [(name, "pillow<13", "bfloat16") for name in having] != []
    assert fail("warmup", "--all", "--reference", "opencv").startswith("error: reference='opencv': ")


def test_warmup_refuses():
    assert fail("warmup") == "error: name a MODEL or say --all"
    assert fail("warmup", "llava1_5", "--all") == "error: name a MODEL or say --all"
    assert fail("warmup", "llava1_5", "--dtype", "int3").startswith("error: ")


def test_warmup_says_where_it_could_not_keep_kernels(tmp_path):
    """As in an image whose FOVEAL_CACHE_DIR was mistyped, or is another user's."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    variables = {**os.environ, "FOVEAL_CACHE_DIR": str(blocked), "TMPDIR": str(tmp_path), "FOVEAL_TARGET": "generic"}
    command = [sys.executable, "-m", "foveal", "warmup", "qwen2_5_vl", "--dtype", "uint8", "--json"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    (own,) = (tmp_path / f"foveal-{os.getuid()}").iterdir()
    assert done.stderr == f"{blocked / own.name} cannot be written: what was compiled is kept in {own}\n"
    again = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert again.stderr == ""


def test_warmup_says_that_it_could_not_keep_kernels(monkeypatch, tmp_path, warmed):
    monkeypatch.setattr("foveal.run.warmup.compiled", lambda: ("emit",))
    monkeypatch.setattr("foveal.run.warmup.cache_directories", lambda: (tmp_path / "absent",))
    said = f"{tmp_path / 'absent'} cannot be written: what was compiled is not kept\n"
    assert invoke("warmup", "llava1_5").stderr == said
    monkeypatch.setattr("foveal.run.warmup.cache_directories", lambda: (tmp_path,))
    assert invoke("warmup", "llava1_5").stderr == ""


def test_doctor():
    found = json.loads(succeed("doctor", "--json"))
    assert {"level", "threads", "cache_directory", "versions"} <= set(found)
    text = succeed("doctor")
    assert f"\ncache directory  {found['cache_directory']}\n" in text
    assert f"\nnumba            {found['versions']['numba']}\n" in text
    assert {"httpx", "pillow_heif"} <= set(found["versions"])
    assert found["settings"] == {}


def test_doctor_shows_what_the_environment_changes(monkeypatch):
    monkeypatch.setenv("FOVEAL_MAX_ASPECT_RATIO", "2.5")
    monkeypatch.setenv("FOVEAL_MAX_FRAMES", "4096")
    monkeypatch.setenv("FOVEAL_FETCH_ALLOWED_DOMAINS", "a.test,*.b.test")
    changed = {"Limits.aspect_ratio": 2.5, "FetchSettings.allowed_domains": ["a.test", "*.b.test"]}
    assert json.loads(succeed("doctor", "--json"))["settings"] == changed
    lines = [line.split() for line in succeed("doctor").splitlines()]
    assert ["Limits.aspect_ratio", "2.5"] in lines
    assert ["FetchSettings.allowed_domains", "a.test,", "*.b.test"] in lines
    monkeypatch.setenv("FOVEAL_MAX_FRAMES", "many")
    assert fail("doctor").startswith("error: FOVEAL_MAX_FRAMES is 'many': ")


def test_doctor_says_when_the_cache_is_read_only(monkeypatch):
    assert "cache writable" not in succeed("doctor")
    found = import_module("foveal.run").info() | {"cache_writable": False}
    monkeypatch.setattr("foveal.run.info", lambda: found)
    assert "\ncache writable   no: what it lacks is compiled in each process\n" in succeed("doctor")
    found["cache_fallback"] = "/elsewhere"
    assert "\ncache writable   no: what it lacks is kept in /elsewhere\n" in succeed("doctor")
    assert json.loads(succeed("doctor", "--json"))["cache_writable"] is False


def test_doctor_names_a_level_that_does_not_exist(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "foveal", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env={"FOVEAL_TARGET": "fastest", "HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


# ---- demo


@pytest.mark.parametrize("model", ["qwen2_5_vl", "llava1_5", "llama4"])
def test_demo(model, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("foveal.cli.demo"), "_CALLS", 2)
    directory = tmp_path / "deep" / "demo"
    tree = json.loads(succeed("demo", "--model", model, "-o", directory, "--json"))
    assert sorted(path.name for path in directory.iterdir()) == ["tensors.safetensors", "what_the_model_sees.png"]
    assert tree["written"] == [str(directory / "tensors.safetensors"), str(directory / "what_the_model_sees.png")]
    expected = foveal.Preprocessor.from_spec(model)(PHOTO)
    written = read_safetensors(directory / "tensors.safetensors")
    assert bytes(written["pixel_values"]["data"]) == expected["pixel_values"].tobytes()
    assert tree["batch"]["features"] == expected.plans[0].features
    assert [timing["threads"] for timing in tree["timings"]][:3:2] == [1, 1]
    assert all(timing["median_ms"] >= timing["best_ms"] > 0 for timing in tree["timings"])
    with Image.open(directory / "what_the_model_sees.png") as picture:
        assert picture.width > 1024


def test_demo_for_people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("foveal.cli.demo"), "_CALLS", 2)
    text = succeed("demo")
    assert "\nraccoon.jpg  768x1024  1x54x74 " in text
    assert "\nstep " in text
    assert "\npixel_values    float32  (3996, 1176)  17.9 MiB\n" in text
    assert text.splitlines()[-2:] == [
        "written: foveal-demo/tensors.safetensors",
        "written: foveal-demo/what_the_model_sees.png",
    ]


def test_demo_of_ones_own_photo(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("foveal.cli.demo"), "_CALLS", 2)
    path = tmp_path / "upright.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 4), np.uint8)
    Image.fromarray(pixels).save(path, exif=exif)
    tree = json.loads(succeed("demo", path, "-o", tmp_path, "--set", "min_pixels=12544", "--json"))
    assert (tree["images"][0]["image"], tree["images"][0]["height"], tree["images"][0]["width"]) == (str(path), 60, 40)
    expected = foveal.Preprocessor.from_spec("qwen2_5_vl", min_pixels=12544)(path)
    written = read_safetensors(tmp_path / "tensors.safetensors")
    assert bytes(written["pixel_values"]["data"]) == expected["pixel_values"].tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_turned_as_the_preprocessor_does_it(orientation, tmp_path):
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)).save(path, exif=exif)
    preprocess = foveal.Preprocessor.from_spec("llava1_5")
    decoded = import_module("foveal.cli.show").decoded(str(path))
    np.testing.assert_array_equal(preprocess(decoded)["pixel_values"], preprocess(path)["pixel_values"])


def test_demo_refuses_a_directory_that_is_a_file(tmp_path):
    path = tmp_path / "file"
    path.touch()
    assert fail("demo", "-o", path) == f"error: {path}: not a directory"
    assert fail("demo", "-o", path / "below") == f"error: {path / 'below'}: Not a directory"
    assert fail("demo", "none.png") == "error: image 0 (none.png): cannot be opened: no such file or directory"


# ---- inspect, and policies


@pytest.fixture
def turned(tmp_path):
    """Return the path of an image of 40x60 that its EXIF turns to 60x40, the right half of which is transparent."""
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.new("RGBA", (60, 40), (255, 0, 0, 0))
    picture.paste((0, 0, 255, 255), (0, 0, 30, 40))
    picture.save(path, exif=exif)
    return path


def test_inspect_shows_what_headers_say(turned, image):
    header, first, second = succeed("inspect", turned, image).splitlines()
    assert header.split() == ["image", "format", "size", "mode", "bits", "orientation", "frames", "alpha", "bytes"]
    assert first.split()[1:8] == ["PNG", "60x40", "RGBA", "8", "6", "1", "yes"]
    assert second.split()[1:8] == ["PNG", "40x60", "RGB", "8", "1", "1", "no"]


def test_inspect_in_json(turned):
    (found,) = json.loads(succeed("inspect", "--json", turned))
    assert found == {
        "image": str(turned),
        "format": "PNG",
        "height": 60,
        "width": 40,
        "stored": [40, 60],
        "mode": "RGBA",
        "bits": 8,
        "orientation": 6,
        "frames": 1,
        "has_alpha": True,
        "bytes": turned.stat().st_size,
    }


def test_inspect_goes_by_the_policy(turned):
    assert succeed("inspect", "--policy", "sglang", turned).splitlines()[1].split()[2] == "40x60"


def test_inspect_takes_data_urls_and_names_what_it_refuses(turned):
    url = "data:image/png;base64," + b64encode(turned.read_bytes()).decode()
    short = f"data:image/png;base64,... ({len(url):,} characters)"
    assert succeed("inspect", url).splitlines()[1].startswith(f"{short}  PNG ")
    for command in (["inspect"], ["plan", "qwen2_vl"], ["run", "qwen2_vl"]):
        tree = json.loads(succeed(*command, "--json", url))
        assert (tree if command == ["inspect"] else tree["images"])[0]["image"] == short
    cut = url[:80]
    assert fail("inspect", cut).startswith("error: image 0 (data:image/png;base64,... (80 characters)): the ")
    assert fail("inspect", "http://127.0.0.1/a.png").startswith("error: image 0 (http://127.0.0.1/a.png): ")


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_inspect_goes_on_after_what_is_no_image(turned, image, words):
    result = invoke("inspect", *words, "none.png", turned, "http://127.0.0.1/a.png", image, "data:,x")
    assert result.exit_code == 2
    if words:
        assert [entry["image"] for entry in json.loads(result.stdout)] == [str(turned), str(image)]
    else:
        assert [line.split()[2] for line in result.stdout.splitlines()] == ["size", "60x40", "40x60"]
    starts = ("0 (none.png): cannot be opened", "2 (http://127.0.0.1/a.png): the", "4 (data:,... (7 characters)): not")
    lines = result.stderr.splitlines()
    assert len(lines) == len(starts)
    assert all(line.startswith(f"error: image {start}") for line, start in zip(lines, starts, strict=True))


@pytest.mark.parametrize("command", [["run", "qwen2_vl"], ["show", "qwen2_vl"], ["demo"]])
def test_a_damaged_image_is_named_alike(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.jpg").write_bytes(PHOTO.read_bytes()[:3000])
    assert fail(*command, "cut.jpg") == "error: image 0 (cut.jpg): the JPEG data are truncated or corrupt"


@pytest.fixture
def server(turned):
    answers = {f"/{turned.name}?size=large": response(body=turned.read_bytes()), "/none.png": response(404)}
    with Threaded(answers) as site:
        yield site.url("")


def test_every_command_takes_urls(turned, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOVEAL_FETCH_ALLOW_PRIVATE_HOSTS", "1")
    monkeypatch.setenv("FOVEAL_FETCH_FILE_ROOT", str(turned.parent))
    data = f"data:image/png;base64,{b64encode(turned.read_bytes()).decode()}"
    urls = [f"{server}/{turned.name}?size=large", f"file://{turned}", data]
    for command in (["inspect"], ["plan", "qwen2_vl"], ["run", "qwen2_vl"]):
        of_file = json.loads(succeed(*command, "--json", turned, turned, turned))
        of_urls = json.loads(succeed(*command, "--json", *urls))
        assert without_names(of_urls) == without_names(of_file)
    rows = succeed("plan", "qwen2_vl", *urls).splitlines()
    assert [row.split()[0] for row in rows[3:6]] == [turned.name, turned.name, "data"]
    for url, name in zip(urls, (turned.stem, turned.stem, "data"), strict=True):
        assert succeed("show", "qwen2_vl", url) == f"written: {name}-qwen2_vl.png\n"
        (tmp_path / f"{name}-qwen2_vl.png").unlink()
    succeed("demo", "--json", urls[0])
    assert fail("plan", "qwen2_vl", f"{server}/none.png").endswith("the http URL: the server answered 404")


def without_names(tree):
    """Leave out what differs between calls."""
    if isinstance(tree, dict):
        return {key: without_names(value) for key, value in tree.items() if key not in ("image", "milliseconds")}
    return [without_names(entry) for entry in tree] if isinstance(tree, list) else tree


def test_policies_change_plans_tensors_and_pictures(turned, tmp_path, monkeypatch):
    sizes = [
        succeed("plan", "qwen2_vl", turned, *words).split("image_grid_thw")[1] for words in ((), ("--policy", "sglang"))
    ]
    assert "60x40" in sizes[0]
    assert "40x60" in sizes[1]
    succeed("run", "llava1_5", turned, "--policy", "sglang", "-o", tmp_path / "dropped.npz")
    expected = foveal.Preprocessor.from_spec("llava1_5", policy="sglang")(turned)["pixel_values"]
    np.testing.assert_array_equal(np.load(tmp_path / "dropped.npz")["pixel_values"], expected)
    monkeypatch.setattr(import_module("foveal.cli.demo"), "_CALLS", 1)
    succeed("demo", turned, "--model", "llava1_5", "--policy", "sglang", "-o", tmp_path, "--json")
    written = read_safetensors(tmp_path / "tensors.safetensors")["pixel_values"]
    assert bytes(written["data"]) == expected.tobytes()
    succeed("show", "llava1_5", turned, "--policy", "sglang", "-o", tmp_path / "seen.png")
    assert import_module("foveal.cli.show").decoded(str(turned), "sglang").size == (60, 40)


def test_a_policy_that_does_not_exist(turned):
    presets = "huggingface, huggingface-path, vllm, sglang, smg"
    line = f"error: policy must be one of {presets}, or a DecodePolicy, not 'nothing'"
    assert fail("plan", "qwen2_vl", turned, "--policy", "nothing") == line
    assert fail("inspect", turned, "--policy", "nothing") == line


# ---- show


def test_show(tmp_path, image):
    path = tmp_path / "sheet.png"
    assert succeed("show", "llama4", PHOTO, "-o", path) == f"written: {path}\n"
    with Image.open(path) as picture:
        assert picture.width > 1400


def test_show_names_its_picture_after_the_image_and_the_model(tmp_path, image, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert succeed("show", "clip", "image.png") == "written: image-clip.png\n"
    assert succeed("show", "clip", image, "-o", "sheet.WEBP") == "written: sheet.WEBP\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image-clip.png", "image.png", "sheet.WEBP"]


def test_show_and_demo_draw_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("foveal.cli.demo"), "_CALLS", 1)
    succeed("demo", "--model", "clip", "-o", tmp_path, "--json", "--set", "do_center_crop=false")
    succeed("show", "clip", PHOTO, "-o", tmp_path / "sheet.png", "--set", "do_center_crop=false")
    assert (tmp_path / "what_the_model_sees.png").read_bytes() == (tmp_path / "sheet.png").read_bytes()


def test_show_refuses(tmp_path, image):
    assert fail("show", "clip", image, "-o", "sheet.gif") == (
        "error: the output is sheet.gif: its name must end in .png, .jpg, .jpeg or .webp"
    )
    assert fail("show", "clip", image, "-o", "nowhere/sheet.png") == "error: nowhere: no such directory"
    assert fail("show", "clip", image, "-o", image) == f"error: the output {image} is the image itself"
    missing = "cannot be opened: no such file or directory"
    assert fail("show", "clip", "none.png") == f"error: image 0 (none.png): {missing}"
    assert fail("show", "qwen2_vl", image, "--set", "sharpen=1").startswith("error: 'sharpen' is not an option of ")
    thin = tmp_path / "thin.png"
    Image.new("RGB", (2, 2000)).save(thin)
    assert fail("show", "qwen2_vl", thin).startswith(f"error: image 0 ({thin}) is 2000x2 (height x width): ")


def test_show_on_a_full_disk(tmp_path, image):
    path = tmp_path / "sheet.png"
    path.symlink_to("/dev/full")
    assert fail("show", "clip", image, "-o", path) == f"error: {path}: No space left on device"
