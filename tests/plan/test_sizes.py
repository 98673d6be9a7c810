"""Size rules: answers worked out by hand, what they keep, and what they refuse, for any picture."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rules import OURS, answer

from foveal.errors import ImageSizeError
from foveal.plan import sizes
from foveal.types import Size

side = st.integers(1, 20000)
small = st.integers(1, 700)
tile = st.sampled_from([12, 100, 224, 336])
unhurried = settings(deadline=None)  # machines that run tests are often busy
factor = st.sampled_from([14, 28, 32])


@pytest.mark.parametrize("name", OURS)
@unhurried
@given(height=side, width=side)
def test_any_picture_is_answered_or_refused(name, height, width):
    found = answer(OURS[name], height, width)
    assert found is None or name.startswith("pan_and_scan") or min(found) >= 1


# ---- smart_resize


@pytest.mark.parametrize(
    ("height", "width", "limits", "expected"),
    [
        (480, 640, {}, (476, 644)),  # 17.14 and 22.86 blocks
        (42, 70, {}, (56, 56)),  # 1.5 and 2.5 blocks, half to even: 2 x 2
        (14, 28, {}, (56, 84)),  # 0 x 1 blocks are below the minimum; grown by 2.83
        (10, 100, {"min_pixels": 1}, (28, 28)),  # 0 blocks are below any minimum; shrunk to it
        (1000, 1000, {"max_pixels": 100_000}, (308, 308)),  # shrunk by 3.16 to 316.2, 11.3 blocks
        (1, 150, {"max_pixels": 784}, (28, 700)),  # one side is one block, whatever the budget
        (200, 1, {}, (812, 28)),
        (1000, 1000, {"min_pixels": 50_000, "max_pixels": 20_000}, (140, 140)),  # the maximum wins: 141.4
    ],
)
def test_smart_resize_by_hand(height, width, limits, expected):
    limits = {"factor": 28, "min_pixels": 3136, "max_pixels": 12845056, "max_aspect": 200} | limits
    assert sizes.smart_resize(height, width, **limits) == expected


def test_frames_share_the_budget():
    limits = {"factor": 28, "min_pixels": 12544, "max_pixels": 200_000, "max_aspect": 200}
    assert sizes.smart_resize(280, 560, **limits) == (280, 560)
    assert sizes.smart_resize(280, 560, **limits, frames=2) == (196, 420)  # 313600 pixels, shrunk by 1.252
    assert sizes.smart_resize(56, 84, **limits, frames=2) == (84, 112)  # 9408 pixels, grown by 1.155


def test_a_short_side_grows_before_its_aspect_is_judged():
    limits = {"factor": 28, "min_pixels": 1, "max_pixels": 10**7, "max_aspect": 200, "grow_short_side": True}
    assert sizes.smart_resize(14, 50, **limits) == (28, 112)  # doubled: 28 x 100
    assert sizes.smart_resize(3, 600, **limits) == (28, 5600)
    with pytest.raises(ImageSizeError, match=r"^aspect ratio 201 exceeds 200$"):
        sizes.smart_resize(1, 201, **limits)


@unhurried
@given(side, side, factor, st.integers(0, 400), st.integers(1, 4000))
def test_smart_resize_holds_its_budget(height, width, factor, least, extra):
    smallest, most = least * factor**2 + 1, (least + extra) * factor**2 + 1
    assume(max(height, width) <= 200 * min(height, width))
    size = sizes.smart_resize(height, width, factor=factor, min_pixels=smallest, max_pixels=most, max_aspect=200)
    assert size.height % factor == 0
    assert size.width % factor == 0
    assert min(size) >= factor
    if min(height, width) >= factor and factor not in size:
        rounded = round(height / factor) * round(width / factor) * factor**2
        assert size.height * size.width <= most or rounded < smallest
        assert size.height * size.width >= smallest or rounded > most


@unhurried
@given(st.integers(1, 60), st.integers(1, 60))
def test_smart_resize_keeps_multiples_within_the_budget(rows, columns):
    size = sizes.smart_resize(28 * rows, 28 * columns, factor=28, min_pixels=1, max_pixels=10**8, max_aspect=200)
    assert size == (28 * rows, 28 * columns)


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
        sizes.smart_resize(height, width, factor=28, min_pixels=3136, max_pixels=10**7, max_aspect=200)


# ---- resize


@pytest.mark.parametrize(
    ("height", "width", "edge", "expected"),
    [(480, 640, 336, (336, 448)), (640, 480, 336, (448, 336)), (3, 5, 336, (336, 560)), (7, 10, 100, (100, 142))],
)
def test_shortest_edge_by_hand(height, width, edge, expected):
    assert sizes.resize(height, width, shortest_edge=edge, size=None) == expected


@unhurried
@given(side, side, small)
def test_shortest_edge_is_the_shorter_edge(height, width, edge):
    size = sizes.resize(height, width, shortest_edge=edge, size=None)
    assert min(size) == edge
    assert max(size) * min(height, width) <= edge * max(height, width)


def test_fixed_size_is_the_result():
    assert sizes.resize(5, 9, shortest_edge=None, size=Size(7, 3)) == (7, 3)


# ---- onto a canvas


@pytest.mark.parametrize(
    ("height", "width", "canvas", "limit", "expected"),
    [
        (480, 640, (672, 672), 336, (480, 640)),  # neither side is below the limit: it stays
        (200, 300, (336, 336), 336, (224, 336)),  # grows to the limit
        (200, 300, (672, 672), None, (448, 672)),  # grows to the canvas
        (1000, 3000, (336, 1008), 336, (336, 1008)),
        (1, 700, (336, 672), 336, (1, 672)),  # never less than a pixel
        (100, 333, (336, 336), 336, (100, 336)),  # 100.9, rounded down
    ],
)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_resize_to_canvas_by_hand(height, width, canvas, limit, expected, precision):
    size = sizes.resize_to_canvas(height, width, canvas=Size(*canvas), grow_limit=limit, precision=precision)
    assert size == expected


def test_a_side_that_a_tensor_bounds_is_scaled_in_single_precision():
    picture, canvas = (2454, 1636), Size(1680, 1008)
    assert sizes.resize_to_canvas(*picture, canvas=canvas, grow_limit=336, precision="float64") == (1511, 1008)
    assert sizes.resize_to_canvas(*picture, canvas=canvas, grow_limit=336, precision="float32") == (1512, 1008)


@unhurried
@given(side, side, tile, st.integers(1, 5), st.integers(1, 5), st.booleans(), st.sampled_from(["float32", "float64"]))
def test_resize_to_canvas_stays_inside(height, width, tile, rows, columns, grow, precision):
    canvas = Size(rows * tile, columns * tile)
    limit = None if grow else tile
    size = sizes.resize_to_canvas(height, width, canvas=canvas, grow_limit=limit, precision=precision)
    assert 1 <= size.height <= canvas.height
    assert 1 <= size.width <= canvas.width
    assert grow or (size.height <= max(height, tile) and size.width <= max(width, tile))


@pytest.mark.parametrize(
    ("height", "width", "round_up", "expected"),
    [
        (100, 300, True, (225, 672)),
        (100, 301, True, (224, 672)),
        (100, 301, False, (223, 672)),
        (300, 100, True, (672, 225)),
    ],
)
def test_fit_canvas_by_hand(height, width, round_up, expected):
    assert sizes.fit_canvas(height, width, canvas=Size(672, 672), round_up=round_up) == expected


@unhurried
@given(side, side, small, small, st.booleans())
def test_fit_canvas_fills_one_side(height, width, rows, columns, round_up):
    canvas = Size(rows, columns)
    try:
        size = sizes.fit_canvas(height, width, canvas=canvas, round_up=round_up)
    except ImageSizeError:
        assert not round_up
        assert min(height, width) * min(rows / height, columns / width) < 1 + 1e-6
        return
    assert size.height <= canvas.height
    assert size.width <= canvas.width
    assert size.height == canvas.height or size.width == canvas.width
    exact = min(rows / height, columns / width)
    assert abs(size.height - height * exact) < 1 + 1e-6
    assert abs(size.width - width * exact) < 1 + 1e-6


@pytest.mark.parametrize(
    ("height", "width", "least", "text"),
    [
        (1, 1000, 0, "would be resized to 0x448, a side below 1"),
        (4, 448, 10, "would be resized to 4x448, a side below 10"),
        (448, 9, 10, "would be resized to 448x9, a side below 10"),
    ],
)
def test_a_canvas_that_leaves_nothing_is_refused(height, width, least, text):
    with pytest.raises(ImageSizeError, match=f"^{text}$"):
        sizes.fit_canvas(height, width, canvas=Size(448, 448), round_up=False, least=least)


@pytest.mark.parametrize(
    ("height", "width", "canvas", "expected"),
    [
        (480, 640, (1008, 1344), (1008, 1344)),
        (640, 480, (1344, 1008), (1344, 1008)),
        (100, 301, (672, 1008), (334, 1008)),
    ],
)
def test_hd_resize_by_hand(height, width, canvas, expected):
    assert sizes.hd_resize(height, width, canvas=Size(*canvas)) == expected


@pytest.mark.parametrize(("size", "name"), [((1, 5500), "height"), ((5500, 1), "width")])
def test_hd_resize_leaves_a_pixel(size, name):
    canvas = Size(336, 5376) if name == "height" else Size(5376, 336)
    with pytest.raises(ImageSizeError, match=f"^would be resized to a {name} of 0$"):
        sizes.hd_resize(*size, canvas=canvas)


@unhurried
@given(small, small, st.integers(1, 16))
def test_an_upright_picture_is_resized_as_if_it_lay(height, width, tiles):
    assume(336 * tiles * min(height, width) >= max(height, width) > min(height, width))
    lying = sizes.hd_resize(min(height, width), max(height, width), canvas=Size(336, 336 * tiles))
    upright = sizes.hd_resize(max(height, width), min(height, width), canvas=Size(336 * tiles, 336))
    assert upright == (lying.width, lying.height)


# ---- whole patches


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (480, 640, (480, 640)),
        (481, 641, (496, 656)),  # up to whole patches
        (2000, 1000, (1024, 512)),
        (1025, 1024, (1024, 1024)),  # 1023 after the shrink, and up again
        (1, 1, (16, 16)),
    ],
)
def test_resize_bounded_edge_by_hand(height, width, expected):
    assert sizes.resize_bounded_edge(height, width, bound=Size(1024, 1024), patch=16) == expected


def test_a_bound_that_leaves_nothing_is_refused():
    with pytest.raises(ImageSizeError, match=r"^would be resized to 0x1024$"):
        sizes.resize_bounded_edge(1, 1025, bound=Size(1024, 1024), patch=16)


@unhurried
@given(side, side, st.integers(16, 2000), st.integers(16, 2000), st.sampled_from([14, 16, 28]))
def test_bounded_edges_are_whole_patches_that_cover_the_bound_at_most(height, width, high, wide, patch):
    try:
        size = sizes.resize_bounded_edge(height, width, bound=Size(high, wide), patch=patch)
    except ImageSizeError:
        assert min(height, width) / max(height / high, width / wide) < 1 + 1e-6
        return
    assert size.height % patch == size.width % patch == 0
    assert size.height < high + patch
    assert size.width < wide + patch
    if height <= high and width <= wide:
        assert height <= size.height < height + patch
        assert width <= size.width < width + patch


@pytest.mark.parametrize(
    ("height", "width", "edge", "expected"),
    [
        (480, 640, 1456, (1092, 1456)),
        (100, 301, 1456, (484, 1456)),  # 483.7, cut to 483, up to an even number
        (1, 5000, 1456, (1, 1456)),  # nothing is even, a pixel is left
        (5000, 1, 1456, (1456, 1)),
        (300, 400, 8192, (3072, 4096)),  # 6144x8192, shrunk once more
        (100, 301, 8192, (1361, 4096)),  # 2722x8192; after the cap nothing is made even
    ],
)
def test_resize_longest_edge_by_hand(height, width, edge, expected):
    assert sizes.resize_longest_edge(height, width, edge=edge, cap=4096) == expected


@unhurried
@given(side, side, st.integers(2, 9000), st.integers(2, 9000))
def test_the_longest_edge_is_the_longest(height, width, edge, cap):
    size = sizes.resize_longest_edge(height, width, edge=edge, cap=cap)
    assert min(size) >= 1
    assert max(size) <= min(edge + 1, cap)
    assert max(size) == edge or edge % 2 or edge > cap


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(1092, 1456, (1092, 1456)), (484, 1456, (728, 1456)), (1, 1, (364, 364)), (1100, 730, (1456, 1092))],
)
def test_resize_to_multiple_by_hand(height, width, expected):
    assert sizes.resize_to_multiple(height, width, of=364) == expected


@unhurried
@given(side, side, st.integers(1, 600))
def test_multiples_cover_the_longer_edge(height, width, of):
    size = sizes.resize_to_multiple(height, width, of=of)
    assert size.height % of == size.width % of == 0
    longer = size.width if width >= height else size.height
    assert max(height, width) <= longer < max(height, width) + of


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (480, 640, (288, 384)),
        (3, 5, (230, 384)),  # 230.4
        (1000, 30, (384, 14)),  # 11.5, but 14 at least
        (768, 5, (384, 14)),
        (256, 255, (384, 382)),  # 382.5, half to even
    ],
)
def test_resize_longest_side_by_hand(height, width, expected):
    assert sizes.resize_longest_side(height, width, side=384, least=14) == expected


@unhurried
@given(side, side, small, small)
def test_the_longest_side_has_its_length(height, width, length, least):
    size = sizes.resize_longest_side(height, width, side=length, least=least)
    assert min(size) >= least
    assert max(size) == max(length, least)


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (480, 640, (480, 640)),  # never grows
        (2000, 3000, (1468, 2202)),  # 142 x 214 patches: times 0.7343
        (14, 20000, (5, 7168)),  # 512 patches along an edge
        (1, 20000, (1, 7168)),
    ],
)
def test_navit_resize_by_hand(height, width, expected):
    assert sizes.navit_resize(height, width, patch=14, max_patches=16384, max_side=512) == expected


@unhurried
@given(side, side, factor, st.integers(1, 20000), st.integers(1, 600))
def test_navit_resize_holds_its_limits(height, width, patch, patches, longest):
    size = sizes.navit_resize(height, width, patch=patch, max_patches=patches, max_side=longest)
    assert 1 <= size.height <= min(height, longest * patch)
    assert 1 <= size.width <= min(width, longest * patch)
    allowed = patches * whole_patch(height, patch) * whole_patch(width, patch) + 1e-6
    assert min(size) == 1 or size.height * size.width <= allowed


def whole_patch(length, patch):
    """Return the length of a patch if as many as are whole shared what is left over, too."""
    return length / max(1, length // patch)


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(480, 640, (480, 640)), (896, 896, (896, 896)), (1792, 1792, (896, 896)), (13, 20000, (13, 20000))],
)
def test_limit_patches_by_hand(height, width, expected):
    assert sizes.limit_patches(height, width, patch=14, max_patches=4096) == expected


@unhurried
@given(side, side, factor, st.integers(1, 5000))
def test_limit_patches_holds_its_limit(height, width, patch, patches):
    size = sizes.limit_patches(height, width, patch=patch, max_patches=patches)
    assert size.height <= height
    assert size.width <= width
    if size != (height, width):
        assert size.height * size.width <= patches * whole_patch(height, patch) * whole_patch(width, patch) + 1e-6
    else:
        assert (height // patch) * (width // patch) <= patches


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(100, 100, (256, 256)), (100, 200, (176, 352)), (1, 20000, (16, 4096)), (3, 5, (192, 320))],
)
def test_fit_patches_by_hand(height, width, expected):
    assert sizes.fit_patches(height, width, patch=16, max_patches=256) == expected


@unhurried
@given(side, side, factor, st.integers(1, 5000))
def test_fit_patches_is_as_large_as_its_number_allows(height, width, patch, patches):
    size = sizes.fit_patches(height, width, patch=patch, max_patches=patches)
    rows, columns = size.height // patch, size.width // patch
    assert size == (rows * patch, columns * patch)
    assert rows * columns <= max(patches, 1)
    larger = (rows + 1) * (columns + 1)
    grown = max(height, width) * 100 / patch > math.sqrt(patches) * 2  # the scale ends at 100
    assert larger > patches or not grown or min(rows, columns) == 1


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (768, 816, (768, 816)),  # 16 x 17 of 48, within 280
        (480, 640, (672, 912)),
        (1, 300, (48, 13440)),  # one row of 300, cut to 280
        (2, 700, (48, 13440)),
        (1000, 10, (8016, 48)),
        (300, 1, (13440, 48)),  # none wide: one column of 300, cut to 280
    ],
)
def test_fit_pooled_patches_by_hand(height, width, expected):
    assert sizes.fit_pooled_patches(height, width, patch=16, pool=3, max_features=280) == expected


@unhurried
@given(side, side, st.sampled_from([14, 16]), st.integers(1, 4), st.integers(1, 1200))
def test_fit_pooled_patches_holds_its_budget(height, width, patch, pool, features):
    try:
        size = sizes.fit_pooled_patches(height, width, patch=patch, pool=pool, max_features=features)
    except ImageSizeError:  # where what fits exactly comes out a little less, or more
        assert height == width or features % max(height // width, width // height) == 0
        return
    step = patch * pool
    assert size.height % step == size.width % step == 0
    assert min(size) >= step
    assert (size.height // step) * (size.width // step) <= features
