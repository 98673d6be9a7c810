"""Size and canvas rules: their properties, and the answers that transformers gave (sizes.json, by make_tables.py)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.errors import ImageSizeError
from foveal.plan.canvas import best_fit
from foveal.plan.sizes import fit_canvas, resize, smart_resize
from foveal.types import Size

TABLE = json.loads(Path(__file__).with_name("sizes.json").read_text())
SMART = {
    "qwen2_vl": (28, 3136, 12845056),
    "qwen2_5_vl": (28, 3136, 12845056),
    "qwen3_vl": (32, 65536, 16777216),
    "qwen2_vl_tight": (28, 50000, 100000),
}
side = st.integers(1, 6000)
unhurried = settings(deadline=None)  # machines that run tests are often busy
factor = st.sampled_from([14, 28, 32])


def test_table_is_large_enough():
    assert all(len(TABLE[name]) >= 200 for name in (*SMART, "llava1_5", "llama4", "llama4_largest"))


@pytest.mark.reference
def test_the_table_is_what_transformers_answers_now():
    for package in ("transformers", "torch", "torchvision"):
        module = pytest.importorskip(package, exc_type=ImportError)
        if module.__version__.split("+")[0] != TABLE["versions"][package].split("+")[0]:
            pytest.skip(f"{package} is {module.__version__}, the table is of {TABLE['versions'][package]}")
    from make_tables import make_table

    made = json.loads(json.dumps(make_table()))
    assert {name: rows for name, rows in TABLE.items() if name != "versions"} == made


@pytest.mark.parametrize("name", SMART)
def test_smart_resize_answers_as_transformers(name):
    factor, least, most = SMART[name]
    limits = {"factor": factor, "min_pixels": least, "max_pixels": most, "max_aspect": 200}
    for height, width, expected in TABLE[name]:
        if expected is None:
            with pytest.raises(ImageSizeError):
                smart_resize(height, width, **limits)
        else:
            assert [*smart_resize(height, width, **limits)] == expected, (height, width)


def test_shortest_edge_answers_as_transformers():
    for height, width, expected in TABLE["llava1_5"]:
        assert [*resize(height, width, shortest_edge=336, size=None)] == expected, (height, width)


@pytest.mark.parametrize("largest", [False, True])
def test_tiles_answer_as_transformers(largest):
    for height, width, expected in TABLE["llama4_largest" if largest else "llama4"]:
        canvas = best_fit(height, width, tile=336, max_tiles=16, largest=largest)
        resized = fit_canvas(height, width, canvas=canvas, grow_limit=None if largest else 336)
        assert [*canvas, *resized] == expected, (height, width)


@unhurried
@given(side, side, factor, st.integers(0, 400), st.integers(1, 4000))
def test_smart_resize_holds_its_budget(height, width, factor, least, extra):
    smallest, most = least * factor**2 + 1, (least + extra) * factor**2 + 1
    if max(height, width) > 200 * min(height, width):
        return
    size = smart_resize(height, width, factor=factor, min_pixels=smallest, max_pixels=most, max_aspect=200)
    assert size.height % factor == 0
    assert size.width % factor == 0
    assert min(size) >= factor
    if min(height, width) >= factor and factor not in size:
        rounded = round(height / factor) * round(width / factor) * factor**2
        assert size.height * size.width <= most or rounded < smallest
        assert size.height * size.width >= smallest or rounded > most


@unhurried
@given(side, side)
def test_smart_resize_keeps_multiples_within_the_budget(rows, columns):
    rows, columns = rows % 60 + 1, columns % 60 + 1
    size = smart_resize(28 * rows, 28 * columns, factor=28, min_pixels=1, max_pixels=10**8, max_aspect=200)
    assert size == (28 * rows, 28 * columns)


@unhurried
@given(side, side, st.integers(1, 700))
def test_shortest_edge_is_the_shorter_edge(height, width, edge):
    size = resize(height, width, shortest_edge=edge, size=None)
    assert min(size) == edge
    assert max(size) * min(height, width) <= edge * max(height, width)


def test_fixed_size_is_the_result():
    assert resize(5, 9, shortest_edge=None, size=Size(7, 3)) == (7, 3)


@unhurried
@given(side, side, st.sampled_from([224, 336]), st.integers(1, 40), st.booleans())
def test_tiles_stay_inside_the_canvas(height, width, tile, max_tiles, largest):
    canvas = best_fit(height, width, tile=tile, max_tiles=max_tiles, largest=largest)
    assert canvas.height % tile == 0
    assert canvas.width % tile == 0
    assert 1 <= (canvas.height // tile) * (canvas.width // tile) <= max_tiles
    size = fit_canvas(height, width, canvas=canvas, grow_limit=None if largest else tile)
    assert 1 <= size.height <= canvas.height
    assert 1 <= size.width <= canvas.width
    if not largest:
        assert size.height <= max(height, tile)
        assert size.width <= max(width, tile)


@unhurried
@given(st.integers(1, 4), st.integers(1, 4))
def test_an_image_of_whole_tiles_is_its_own_canvas(rows, columns):
    canvas = best_fit(rows * 336, columns * 336, tile=336, max_tiles=16, largest=False)
    assert canvas == (rows * 336, columns * 336)
    assert fit_canvas(*canvas, canvas=canvas, grow_limit=336) == canvas


@pytest.mark.parametrize(
    ("height", "width", "text"),
    [
        (12, 4000, "aspect ratio 333 exceeds 200"),
        (4000, 12, "aspect ratio 333 exceeds 200"),
        (1, 201, "aspect ratio 201 exceeds 200"),
        (10, 2001, "aspect ratio 200.1 exceeds 200"),
    ],
)
def test_an_extreme_aspect_is_refused(height, width, text):
    with pytest.raises(ImageSizeError, match=f"^{text}$"):
        smart_resize(height, width, factor=28, min_pixels=3136, max_pixels=10**7, max_aspect=200)
