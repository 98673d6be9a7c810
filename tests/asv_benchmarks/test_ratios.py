"""The table of ratios: what is compared with what, that every part runs without its peers, and what is stored of it."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from foveal.spec import names

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "asv_benchmarks" / "ratios.py"
STORED = json.loads((ROOT / "docs" / "speed.json").read_text())
PICTURE = ROOT / "docs" / "speed.svg"
NO_PEERS = "import sys; sys.modules |= dict.fromkeys(['transformers', 'cv2', 'hf_processors_rs']); "
NO_PEERS += "sys.argv = sys.argv[1:]; import runpy; "
NO_PEERS += "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture(scope="module")
def comparison():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        yield lambda name: importlib.import_module(f"comparison.{name}")


def line(report, what="clip 640x480", ours=1.0, theirs=4.0, must=3.0, differing=0):
    times = (report.Times(seconds, 2 * seconds, 5) if seconds else None for seconds in (ours, theirs))
    return report.Line("PIL class", what, next(times), "PIL class", next(times), must, differing)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("qwen3_vl", ["torchvision class", "PIL class"]),
        ("llama4", ["torchvision class"]),
        ("phi4mm", ["torchvision class"]),
        ("internvl_chat", []),  # names a class of transformers whose fields its own code never reads
        ("phi3_v", []),
    ],
)
def test_peers_are_the_classes_that_transformers_has(comparison, name, kinds):
    assert comparison("peers").classes_of(name) == kinds


def test_a_line_is_the_same_after_json(comparison):
    report = comparison("report")
    for made in (line(report), line(report, theirs=None, differing=None)):
        assert report.Line.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("changes", "passed"),
    [({}, True), ({"must": 4.5}, False), ({"differing": 1}, False), ({"theirs": None}, None), ({"must": None}, None)],
)
def test_a_line_passes_if_it_is_fast_enough_and_equal(comparison, changes, passed):
    assert line(comparison("report"), **changes).passed is passed


def test_the_table_has_a_row_for_each_family_and_a_column_for_each_size(comparison, capsys):
    report = comparison("report")
    report.show_ratios([line(report), line(report, "clip 1024x768", theirs=2.0), line(report, "siglip 1024x768")])
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in capsys.readouterr().out.splitlines()[3:]]
    assert rows[0] == ["family", "640x480", "1024x768"]
    assert rows[2:] == [["clip", "4.00 (4.00)", "2.00 (2.00) FAIL"], ["siglip", "", "4.00 (4.00)"]]


def test_parts_run_without_transformers(tmp_path):
    file = tmp_path / "speed.json"
    command = [sys.executable, "-c", NO_PEERS, str(SCRIPT), "--budget", "0", "--rounds", "1", "--json", str(file)]
    command += ["--parts", "families", "libraries", "dtypes", "files", "--families", "llava1_5", "--sizes", "640x480"]
    done = subprocess.run([*command, "--ignore-speed"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(file.read_text())
    assert result["machine"]["command"].startswith("python asv_benchmarks/ratios.py --budget 0 ")
    found = {(line["part"], line["what"], line["against"]) for line in result["lines"]}
    assert ("torchvision class", "llava1_5 640x480", "torchvision class") in found
    assert ("dtypes and buffers", "llava1_5 640x480, uint8", "float32, reused") in found
    assert ("files", "llava1_5 640x480, Pillow's decoder", "PIL class") in found
    assert ("hf-processors-rs", "llava1_5 640x480, pillow<13", "hf-processors-rs") in found
    beside = [line for line in result["lines"] if line["part"] != "dtypes and buffers"]
    resizes = [line for line in beside if line["part"] == "resize beside libraries"]
    assert {line["against"] for line in resizes if not line["theirs"]} >= {"opencv area", "opencv cubic"}
    assert {line["differing"] for line in resizes if line["against"] == "pillow"} == {0}
    beside = [line for line in beside if line not in resizes]
    assert {line["theirs"] for line in beside} == {None}
    assert done.stdout.count("not installed") >= len(beside)


@pytest.fixture
def small(comparison, monkeypatch):
    """Return the part with small images, and what it measures with."""
    module = comparison("threads")
    monkeypatch.setattr(module, "BATCH", "96x64")
    monkeypatch.setattr(module, "LARGE", "640x480")
    return module.threads, lambda cpus: module.Options([], [], budget=0.0, rounds=1, cpus=cpus)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_threads_are_compared_with_one(small):
    threads, options = small
    before = os.sched_getaffinity(0)
    two = set(sorted(before)[:2])
    lines = threads(options(two))
    assert os.sched_getaffinity(0) == before
    assert "FOVEAL_THREADS" not in os.environ
    against = [line.against for line in lines]
    assert against == ["1 thread"] * 4 + ["memcpy, 1 thread", "memcpy, 2 threads"]
    assert [line.must for line in lines[:4]] == [1.7] * 4
    assert {line.differing for line in lines[:4]} == {0}


def test_one_cpu_is_said_to_be_too_few(small):
    threads, options = small
    lines = threads(options({max(os.sched_getaffinity(0))}))
    assert [line.note for line in lines[:4]] == ["only 1 CPU: not measured on 2 threads"] * 4
    assert [line.against for line in lines[4:]] == ["memcpy, 1 thread"]


# ---- what is stored


def test_the_stored_result_is_of_a_whole_run(comparison):
    peers = comparison("peers")
    found = {(line["part"], line["what"]) for line in STORED["lines"]}
    expected = {(kind, f"{name} {size}") for name in names() for kind in peers.classes_of(name) for size in sizes()}
    assert expected <= found
    others = {
        "resize",
        "levels",
        "dtypes and buffers",
        "files",
        "threads",
        "requests",
        "emit",
        "plan",
        "start",
        "warmup",
    }
    assert others <= {part for part, _ in found}
    assert not [line["what"] for line in STORED["lines"] if line["against"] and not line["theirs"]]


def test_no_stored_output_differs():
    assert {line["differing"] for line in STORED["lines"]} == {0, None}


def test_the_picture_shows_every_stored_ratio():
    tree = ElementTree.parse(PICTURE)
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    lines = [line for line in STORED["lines"] if line["part"].endswith(" class")]
    ratios = [text for text in texts if re.fullmatch(r"\d+(\.\d+)?", text)]
    assert len(ratios) == len(lines)
    assert {line["what"].split()[0] for line in lines} <= set(texts)
    shown = " ".join(texts)
    assert STORED["machine"]["date"] in shown
    assert STORED["machine"]["command"] in shown
    widest = max(float(element.get("x")) for element in tree.iter("{http://www.w3.org/2000/svg}text"))
    assert widest < float(tree.getroot().get("width"))


def sizes():
    return importlib.import_module("benchmarks.common").SIZES
