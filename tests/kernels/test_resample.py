"""Both passes in both orders, at every level, against the plain twin and against Pillow itself."""

from itertools import pairwise

import naive
import numpy as np
import PIL
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from views import pixels_of, run, view_of

from foveal.plan.plan import Pack
from foveal.run.execute import digit_counts
from foveal.types import Box

FILTERS = {
    "nearest": Image.NEAREST,
    "box": Image.BOX,
    "bilinear": Image.BILINEAR,
    "hamming": Image.HAMMING,
    "bicubic": Image.BICUBIC,
    "lanczos": Image.LANCZOS,
}
TORCHVISION = ["bilinear", "bicubic", "lanczos"]
PILLOW_13 = int(PIL.__version__.split(".")[0]) >= 13
sides = st.one_of(st.integers(1, 24), st.integers(1, 160))
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def image_of(height, width, seed, channels=3):
    """Random bytes for odd seeds, black and white for even ones: the strongest overshoots."""
    random = np.random.default_rng(seed)
    if seed % 2:
        return random.integers(0, 256, (height, width, channels), dtype=np.uint8)
    return (random.integers(0, 2, (height, width, channels)) * 255).astype(np.uint8)


@given(
    source=st.tuples(sides, sides),
    size=st.tuples(sides, sides),
    filter=st.sampled_from(
        [(kind, "pillow") for kind in naive.SUPPORT] + [(kind, "torchvision") for kind in TORCHVISION]
    ),
    vertical_first=st.booleans(),
    seed=st.integers(0, 1000),
)
@quick
def test_resize_equals_the_twin(level, source, size, filter, vertical_first, seed):
    kind, reference = filter
    image = image_of(*source, seed)
    view = view_of(size, filter=kind, vertical_first=vertical_first)
    got = run(view, pixels_of(image), reference=reference).reshape(3, *size)
    want = naive.resize(image, size, kind, reference, vertical_first)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@given(
    source=st.tuples(sides, sides),
    size=st.tuples(sides, sides),
    reference=st.sampled_from(["pillow", "torchvision"]),
    vertical_first=st.booleans(),
    seed=st.integers(0, 1000),
)
@example(source=(1, 97), size=(47, 82), reference="torchvision", vertical_first=False, seed=0)
@quick
def test_nearest_chooses_pixels(level, source, size, reference, vertical_first, seed):
    image = image_of(*source, seed)
    view = view_of(size, filter="nearest", vertical_first=vertical_first)
    got = run(view, pixels_of(image), reference=reference).reshape(3, *size)
    rows, columns = (
        naive.nearest_samples(*axis, reference, sum(size) <= 128) for axis in zip(source, size, strict=True)
    )
    np.testing.assert_array_equal(got.transpose(1, 2, 0), image[rows][:, columns])


@pytest.mark.parametrize("reference", ["pillow", "torchvision"])
def test_more_digits_than_needed_change_nothing(level, reference):
    image = image_of(61, 83, 1)
    view = view_of((40, 50))
    results = [run(view, pixels_of(image), reference=reference, digits=digits) for digits in digit_counts(reference)]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


@given(
    source=st.tuples(st.integers(1, 400), st.integers(1, 400)),
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    kind=st.sampled_from(list(FILTERS)),
    seed=st.integers(0, 1000),
)
@quick
def test_resize_equals_the_installed_pillow(level, source, size, kind, seed):
    image = image_of(*source, seed)
    (height, width), (new_height, new_width) = source, size
    shorter, narrower = height - new_height, width - new_width
    view = view_of(size, filter=kind, vertical_first=PILLOW_13 and shorter > 0 and shorter > 2 * narrower)
    got = run(view, pixels_of(image)).reshape(3, *size)
    want = np.asarray(Image.fromarray(image).resize((new_width, new_height), FILTERS[kind]))
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@given(
    source=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    size=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    kind=st.sampled_from(list(FILTERS)),
    seed=st.integers(0, 1000),
)
@quick
def test_resize_in_the_order_of_older_pillow(level, source, size, kind, seed):
    """Two resizes of one axis each, which the installed Pillow does in the order in which they are asked for."""
    image = image_of(*source, seed)
    got = run(view_of(size, filter=kind), pixels_of(image), reference="pillow<13").reshape(3, *size)
    wide = Image.fromarray(image).resize((size[1], source[0]), FILTERS[kind])
    want = np.asarray(wide.resize((size[1], size[0]), FILTERS[kind]))
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@pytest.mark.parametrize("size", [(704, 1280), (768, 1024), (336, 336), (1092, 1932)])
def test_large_images_equal_the_installed_pillow(level, size):
    rows, columns = np.mgrid[0:1080, 0:1920]
    image = np.stack([rows * 7 + columns * 3, rows ^ columns, (rows // 16 + columns // 16) % 2 * 255], -1).astype(
        np.uint8
    )
    got = run(view_of(size), pixels_of(image)).reshape(3, *size)
    want = np.asarray(Image.fromarray(image).resize(size[::-1], Image.BICUBIC))
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@given(
    source=st.tuples(st.integers(4, 120), st.integers(1, 120)),
    size=st.tuples(st.integers(1, 120), st.integers(1, 120)),
    vertical_first=st.booleans(),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    seed=st.integers(0, 1000),
)
@quick
def test_bands_in_any_order_give_the_same_bits(level, source, size, vertical_first, cuts, seed):
    image = image_of(*source, seed)
    view = view_of(size, vertical_first=vertical_first, canvas=(size[0] + 5, size[1] + 3), place=(2, 1))
    whole = run(view, pixels_of(image))
    edges = sorted({0, view.canvas.height, *(min(cut, view.canvas.height) for cut in cuts)})
    bands = list(pairwise(edges))[::-1]
    np.testing.assert_array_equal(run(view, pixels_of(image), bands=bands), whole)


@given(
    source=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    size=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    data=st.data(),
    vertical_first=st.booleans(),
    seed=st.integers(0, 1000),
)
@quick
def test_a_crop_on_a_canvas_is_a_slice(level, source, size, data, vertical_first, seed):
    """Also with the source's own size, where nothing is resampled."""
    size = data.draw(st.sampled_from([source, size]))
    top, left = data.draw(st.integers(0, size[0] - 1)), data.draw(st.integers(0, size[1] - 1))
    height, width = data.draw(st.integers(1, size[0] - top)), data.draw(st.integers(1, size[1] - left))
    place = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 40)))
    canvas = (height + place[0] + data.draw(st.integers(0, 9)), width + place[1] + data.draw(st.integers(0, 40)))
    image, fill = image_of(*source, seed), (1, 128, 255)
    crop = Box(top, left, height, width)
    view = view_of(size, crop=crop, canvas=canvas, place=place, fill=fill, vertical_first=vertical_first)
    got = run(view, pixels_of(image)).reshape(3, *canvas)
    window = naive.resize(image, size, "bicubic", "pillow", vertical_first)[top : top + height, left : left + width]
    np.testing.assert_array_equal(got.transpose(1, 2, 0), naive.canvas(window, canvas, place, fill))


def test_strong_reductions_and_enlargements(level):
    image = image_of(2000, 3, 0)
    for size, first in (((2, 700), True), ((1, 1), True), ((1, 1), False), ((4000, 2), False)):
        got = run(view_of(size, filter="lanczos", vertical_first=first), pixels_of(image)).reshape(3, *size)
        want = naive.resize(image, size, "lanczos", "pillow", first)
        np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


def test_patches_are_written_only_where_they_belong(level):
    """Every element of a band's rows is written, and no other."""
    image, pack = image_of(50, 70, 3), Pack("merge_patches", 14, 2, 2)
    view = view_of((56, 84), pack=pack)
    top = run(view, pixels_of(image), dtype="float32", bands=[(0, 28)])
    bottom = run(view, pixels_of(image), dtype="float32", bands=[(28, 56)])
    half = top.size // 2
    poison = np.frombuffer(b"\xa5" * 4, np.float32)[0]
    assert (top[half:] == poison).all()
    assert (bottom[:half] == poison).all()
    assert not (top[:half] == poison).any()
    assert not (bottom[half:] == poison).any()
