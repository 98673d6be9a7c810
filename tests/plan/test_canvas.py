"""Canvas rules: answers worked out by hand, and what every canvas keeps."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foveal.errors import ImageSizeError
from foveal.plan import canvas as canvases
from foveal.types import Size

side = st.integers(1, 20000)
tile = st.sampled_from([12, 100, 224, 336])
tiles = st.integers(1, 40)
unhurried = settings(deadline=None)


def grid(size, tile):
    """Return rows and columns of a canvas of whole tiles."""
    assert size.height % tile == size.width % tile == 0
    return size.height // tile, size.width // tile


# ---- best_fit


@pytest.mark.parametrize(
    ("height", "width", "largest", "expected"),
    [
        (480, 640, False, (2, 2)),  # 672/640: no canvas enlarges less
        (300, 200, False, (1, 1)),
        (336, 336, False, (1, 1)),
        (337, 336, False, (2, 1)),
        (100, 1700, False, (1, 6)),
        (10000, 10000, False, (4, 4)),  # all shrink it, this one least
        (300, 200, True, (5, 3)),  # by 5.04; no other by as much
        (200, 200, True, (4, 4)),
        (100, 1700, True, (1, 16)),
    ],
)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_best_fit_by_hand(height, width, largest, expected, precision):
    size = canvases.best_fit(height, width, tile=336, max_tiles=16, largest=largest, precision=precision)
    assert grid(size, 336) == expected


def test_scales_that_single_precision_cannot_tell_apart():
    picture = (34829401, 46439201)  # nearly 3 to 4
    exact = canvases.best_fit(*picture, tile=336, max_tiles=16, largest=False, precision="float64")
    rounded = canvases.best_fit(*picture, tile=336, max_tiles=16, largest=False, precision="float32")
    assert (grid(exact, 336), grid(rounded, 336)) == ((4, 4), (3, 4))


@unhurried
@given(side, side, tile, tiles, st.booleans(), st.sampled_from(["float32", "float64"]))
def test_best_fit_has_not_too_many_tiles(height, width, tile, most, largest, precision):
    size = canvases.best_fit(height, width, tile=tile, max_tiles=most, largest=largest, precision=precision)
    rows, columns = grid(size, tile)
    assert rows * columns <= most


@unhurried
@given(st.integers(1, 4), st.integers(1, 4))
def test_an_image_of_whole_tiles_is_its_own_canvas(rows, columns):
    picture = (rows * 336, columns * 336)
    assert canvases.best_fit(*picture, tile=336, max_tiles=16, largest=False) == picture


# ---- closest_aspect_ratio


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (480, 640, (3, 4)),
        (336, 336, (1, 1)),  # 2x2 is as close, but has more than twice the pixels
        (634, 634, (2, 2)),  # more than half of 896x896
        (2000, 2000, (3, 3)),
        (1, 300, (1, 12)),
        (800, 1, (12, 1)),
        (100, 150, (2, 3)),
    ],
)
@pytest.mark.parametrize("order", ["columns", "set"])
def test_closest_aspect_ratio_by_hand(height, width, expected, order):
    size = canvases.closest_aspect_ratio(height, width, tile=448, min_tiles=1, max_tiles=12, order=order)
    assert grid(size, 448) == expected


def test_grids_as_close_with_as_many_tiles_come_in_one_of_two_orders():
    """A picture of 2 to 5 lies between 2x2 and 1x4; a small one takes the first, a large one the last."""
    four = {"tile": 100, "min_tiles": 4, "max_tiles": 4}
    assert canvases.closest_aspect_ratio(2, 5, **four, order="columns") == (200, 200)
    assert canvases.closest_aspect_ratio(400, 1000, **four, order="columns") == (100, 400)
    assert canvases.closest_aspect_ratio(2, 5, **four, order="set") == (100, 400)
    assert canvases.closest_aspect_ratio(400, 1000, **four, order="set") == (200, 200)


@pytest.mark.parametrize("fewest", range(1, 31))
def test_the_order_of_a_set_is_that_of_the_set_that_the_reference_builds(fewest):
    for most in range(fewest, 31):
        numbers = range(fewest, most + 1)
        built = {(i, j) for n in numbers for i in range(1, n + 1) for j in range(1, n + 1) if fewest <= i * j <= most}
        expected = sorted(built, key=lambda pair: pair[0] * pair[1])
        assert canvases._set_of_grids(fewest, most) == expected


@unhurried
@given(side, side, tile, tiles, tiles, st.sampled_from(["columns", "set"]))
def test_closest_aspect_ratio_has_a_number_of_tiles_in_its_range(height, width, tile, one, other, order):
    fewest, most = sorted((one, other))
    limits = {"tile": tile, "min_tiles": fewest, "max_tiles": most}
    rows, columns = grid(canvases.closest_aspect_ratio(height, width, **limits, order=order), tile)
    assert fewest <= rows * columns <= most
    best = min(
        abs(width / height - a / b) for a in range(1, most + 1) for b in range(1, most // a + 1) if a * b >= fewest
    )
    assert abs(width / height - columns / rows) == best


# ---- covering_grid


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (300, 300, (1, 1)),  # nothing is lost in one tile
        (448, 448, (1, 1)),
        (600, 600, (2, 2)),  # one tile keeps 56 %, two cells of 300x600 74.7 %
        (448, 896, (2, 1)),  # found as one row of two columns, used the other way round
        (470, 448, (1, 1)),  # 0.953 of one side: 95.3 %
        (4000, 4000, (3, 4)),  # none keeps enough; twelve tiles keep most
    ],
)
def test_covering_grid_by_hand(height, width, expected):
    assert grid(canvases.covering_grid(height, width, tile=448, max_tiles=12), 448) == expected


@unhurried
@given(side, side, tile, st.integers(1, 12))
def test_covering_grid_has_not_too_many_tiles(height, width, tile, most):
    rows, columns = grid(canvases.covering_grid(height, width, tile=tile, max_tiles=most), tile)
    assert rows * columns <= most


# ---- least_upscale


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (512, 512, (1, 1)),
        (513, 512, (2, 1)),
        (480, 640, (1, 2)),  # by 1.07 at least
        (3000, 3000, (3, 3)),  # all shrink it: by 0.512 at least
        (100, 3000, (1, 6)),
    ],
)
def test_least_upscale_by_hand(height, width, expected):
    assert grid(canvases.least_upscale(height, width, tile=512, max_tiles=12), 512) == expected


@unhurried
@given(side, side, tile, tiles)
def test_least_upscale_enlarges_least(height, width, tile, most):
    rows, columns = grid(canvases.least_upscale(height, width, tile=tile, max_tiles=most), tile)
    assert rows * columns <= most
    scale = min(columns * tile / width, rows * tile / height)
    others = [min(a * tile / width, b * tile / height) for a in range(1, most + 1) for b in range(1, most // a + 1)]
    enlarging = [other for other in others if other >= 1]
    assert scale == (min(enlarging) if enlarging else max(others))


# ---- best_resolution

PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (336, 672, (336, 672)),
        (100, 100, (336, 672)),  # all keep every pixel; the first of the smallest wastes least
        (480, 640, (672, 672)),
        (300, 1200, (336, 1008)),
        (1200, 300, (1008, 336)),
        (600, 300, (672, 336)),
        (1, 700, (336, 1008)),  # whole; of 672 pixels no row would be left
    ],
)
def test_best_resolution_by_hand(height, width, expected):
    assert canvases.best_resolution(height, width, pinpoints=PINPOINTS) == expected


def test_of_sizes_that_keep_no_pixel_the_smallest_wastes_least():
    assert canvases.best_resolution(1, 20000, pinpoints=((672, 672), (336, 672), (672, 336))) == (336, 672)


@unhurried
@given(side, side, st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 3000)), min_size=1, max_size=9))
def test_the_best_resolution_is_of_the_list(height, width, pinpoints):
    assert canvases.best_resolution(height, width, pinpoints=tuple(pinpoints)) in pinpoints


# ---- dynamic_hd and hd_transform


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (1, 1, (1, 1)),
        (448, 449, (1, 2)),
        (2688, 2688, (6, 6)),
        (2689, 2688, (6, 6)),  # 7x6 are too many; the closest aspect ratio with the most tiles
        (400, 16500, (1, 36)),
        (480, 640, (2, 2)),
    ],
)
def test_dynamic_hd_by_hand(height, width, expected):
    assert grid(canvases.dynamic_hd(height, width, tile=448, max_tiles=36), 448) == expected


@unhurried
@given(side, side, tile, tiles)
def test_dynamic_hd_covers_the_image_if_it_may(height, width, tile, most):
    rows, columns = grid(canvases.dynamic_hd(height, width, tile=tile, max_tiles=most), tile)
    covering = -(-height // tile) * -(-width // tile)
    assert rows * columns <= most
    assert rows * columns == covering or covering > most


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (336, 336, (4, 4)),
        (480, 640, (3, 4)),  # a row of 4 is 3 tiles high; one of 5 would need 4 x 5
        (640, 480, (4, 3)),
        (100, 1000, (1, 10)),
        (1000, 100, (10, 1)),
    ],
)
def test_hd_transform_by_hand(height, width, expected):
    assert grid(canvases.hd_transform(height, width, tile=336, max_tiles=16), 336) == expected


def test_a_row_of_tiles_in_which_nothing_is_left_is_refused():
    with pytest.raises(ImageSizeError, match=r"^would be resized to a shorter edge of 0, 5376 long$"):
        canvases.hd_transform(1, 5500, tile=336, max_tiles=16)


@unhurried
@given(side, side, st.integers(1, 40))
def test_hd_transform_is_the_same_of_an_upright_picture(height, width, most):
    assume(height != width)
    try:
        size = canvases.hd_transform(height, width, tile=336, max_tiles=most)
    except ImageSizeError:
        with pytest.raises(ImageSizeError):
            canvases.hd_transform(width, height, tile=336, max_tiles=most)
        return
    rows, columns = grid(size, 336)
    assert rows * columns <= most
    assert canvases.hd_transform(width, height, tile=336, max_tiles=most) == (size.width, size.height)


# ---- overlapping_tiles

CROPS = {"tile": 378, "patch": 14, "before": 4, "after": 4}


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (378, 378, (1, 1)),
        (379, 378, (2, 1)),
        (378, 644, (1, 2)),  # two crops of 378 that share 8 patches
        (644, 644, (2, 2)),
        (10, 10, (1, 1)),  # smaller than the margins: no scale is above 1
        (2500, 150, (8, 1)),
    ],
)
def test_overlapping_tiles_by_hand(height, width, expected):
    size = canvases.overlapping_tiles(height, width, **CROPS, max_tiles=8)
    assert size == (expected[0] * 266 + 112, expected[1] * 266 + 112)


@unhurried
@given(side, side, st.integers(0, 12), st.integers(0, 12), st.integers(1, 20))
def test_overlapping_tiles_are_whole_crops(height, width, before, after, most):
    size = canvases.overlapping_tiles(height, width, tile=378, patch=14, before=before, after=after, max_tiles=most)
    margin = (before + after) * 14
    rows, columns = grid(Size(size.height - margin, size.width - margin), 378 - margin)
    assert 1 <= rows * columns <= most
