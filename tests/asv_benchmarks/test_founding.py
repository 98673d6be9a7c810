"""The founding experiment: its naive forms are what they say, both sides give the same bytes, and it runs."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import foveal

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "asv_benchmarks" / "founding.py"


@pytest.fixture(scope="module")
def founding():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        yield importlib.import_module("founding")


@pytest.fixture
def naive(founding):
    return importlib.import_module("comparison.naive_forms")


@pytest.fixture
def image():
    return np.random.default_rng(4).integers(0, 256, (5, 7, 3), np.uint8)


def test_sizes_are_those_of_the_set_that_was_published(founding):
    sides = np.array(founding.sizes(900))
    assert np.array_equal(sides, founding.sizes(900))
    assert np.mean((sides >= 200) & (sides <= 1500)) > 0.85
    assert 3500 < sides.max() <= 4000
    assert sides.min() >= 64


def test_pad_keeps_the_image_and_fills_the_rest(naive, image):
    out = np.zeros((8, 9, 3), np.uint8)
    naive.pad(image, np.array([1, 2, 3], np.uint8), out)
    assert np.array_equal(out[:5, :7], image)
    assert (out[5:] == [1, 2, 3]).all()
    assert (out[:5, 7:] == [1, 2, 3]).all()


def test_planar_normalizes_and_padding_is_the_bias(naive, image):
    mean, std = np.array([0.5, 0.25, 0.5], np.float32), np.array([0.5, 0.25, 0.125], np.float32)
    canvas, out = np.zeros((6, 8, 3), np.uint8), np.empty((3, 6, 8), np.float32)
    naive.pad(image, np.zeros(3, np.uint8), canvas)
    naive.planar(canvas, mean * np.float32(255), std * np.float32(255), out)
    wanted = (image.transpose(2, 0, 1) / 255 - mean[:, None, None]) / std[:, None, None]
    assert np.allclose(out[:, :5, :7], wanted, rtol=1e-5, atol=1e-6)
    assert np.allclose(out[:, 5], (-mean / std)[:, None])


def test_tiles_and_patches_are_copies_of_squares(naive):
    tensor = np.arange(3 * 4 * 8, dtype=np.float32).reshape(3, 4, 8)
    tiles, patches = np.empty((2, 3, 4, 4), np.float32), np.empty((8, 3, 2, 2, 2), np.float32)
    naive.tiles(tensor, 4, tiles)
    naive.merge_patches(tensor, 2, 2, patches)
    assert np.array_equal(tiles, [tensor[:, :, :4], tensor[:, :, 4:]])
    order = [(0, 0), (0, 2), (2, 0), (2, 2), (0, 4), (0, 6), (2, 4), (2, 6)]
    squares = [tensor[:, y : y + 2, x : x + 2] for y, x in order]
    assert np.array_equal(patches[:, :, 0], squares)
    assert np.array_equal(patches[:, :, 1], squares)


@pytest.mark.parametrize("strided", [False, True])
def test_bytes_of_a_call_are_those_that_are_appended_one_by_one(naive, strided):
    pixels = np.random.default_rng(5).integers(0, 256, (64, 64, 3), np.uint8)
    pixels = pixels[::2, ::-2] if strided else pixels[:32, :32].copy()
    assert pixels.flags.c_contiguous != strided
    preprocess = foveal.Preprocessor.from_spec("qwen3_vl", min_pixels=1024)
    made = preprocess(pixels, threads=1)["pixel_values"]
    bits = made.reshape(-1).view(np.uint32)
    expected = made.astype("<f4").tobytes()
    assert naive.append(bits, np.empty(0, np.uint8)).tobytes() == expected
    assert naive.write(bits, np.empty(made.nbytes, np.uint8)).tobytes() == expected
    assert np.array_equal(made, preprocess(np.ascontiguousarray(pixels), threads=1)["pixel_values"])


def test_the_experiment_finds_the_same_bytes_and_writes_tables_and_a_picture(tmp_path):
    document = tmp_path / "founding.md"
    document.write_text("before\n<!-- founding -->\nold\n<!-- end -->\nafter\n")
    command = [sys.executable, str(SCRIPT), "--images", "2", "--rounds", "1", "--buffers", "reused"]
    done = subprocess.run([*command, "--write", str(document)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = document.read_text()
    assert "\nold\n" not in text
    assert text.startswith("before\n<!-- founding -->\n\n- command: ")
    assert text.endswith("\n<!-- end -->\nafter\n")
    assert text.count("the bytes of 2 of 2 images are the same in all variants") == 2
    assert [len(re.findall(rf"^\| {row} \|", text, re.MULTILINE)) for row in ("pad", "serialize")] == [1, 2]
    assert (tmp_path / "founding.svg").read_text().startswith("<?xml")


def test_the_document_shows_a_whole_run():
    document = (ROOT / "docs" / "founding.md").read_text()
    assert re.findall(r"the bytes of (\d+) of (\d+) images", document) == [("900", "900")] * 4
    assert (ROOT / "docs" / "founding.svg").stat().st_size < 150_000


@pytest.mark.parametrize("option", ["--images", "--rounds"])
def test_a_number_that_measures_nothing_is_refused(option):
    done = subprocess.run([sys.executable, str(SCRIPT), option, "0"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"founding.py: error: argument {option}: '0' is no whole number of at least 1\n")
