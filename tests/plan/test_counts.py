"""Count rules on views made by hand; ``tests/tokens`` compares whole plans with the processors of transformers."""

import pytest

from foveal.plan.counts import Counts, count, count_features
from foveal.plan.plan import Pack, View
from foveal.spec import tokens
from foveal.types import Box, Size


def view(height, width, pack=None, name="image"):
    """Return a view of which only the canvas and the pack matter here."""
    canvas, crop = Size(height, width), Box(0, 0, height, width)
    place, black = (0, 0), (0, 0, 0)
    return View(
        name,
        "image",
        crop,
        black,
        canvas,
        "bicubic",
        "antialias",
        False,
        crop,
        canvas,
        place,
        black,
        pack or Pack("planar"),
        0,
    )


def tiled(rows, columns, tile, name="tiles"):
    return view(rows * tile, columns * tile, Pack("tiles", tile), name)


def counted(rule, views, grid=(1, 1), source=(480, 640)):
    return count(rule, tuple(views), grid, Size(*source))


def test_count_features_is_the_number_alone():
    rule = tokens.Fixed(tokens=7)
    assert count_features(rule, (tiled(2, 3, 10),), (2, 3), Size(5, 5)) == 42


def test_uncounted_images_have_tiles_and_no_features():
    assert counted(tokens.Uncounted(), [tiled(2, 2, 560)], (2, 2)) == Counts(0, 4, 2, 2)


@pytest.mark.parametrize(
    ("pack", "canvas", "patch", "merge", "expected"),
    [
        (Pack("merge_patches", 14, 2, 2), (476, 644), 14, 2, Counts(391, 1, 17, 23)),
        (Pack("patches", 14), (56, 84), 14, 2, Counts(6, 1, 2, 3)),
        (Pack("channels_last_patches", 16), (48 * 5, 48 * 7), 16, 3, Counts(35, 1, 5, 7)),
        (Pack("planar"), (768, 1024), 16, 1, Counts(3072, 1, 48, 64)),
        (Pack("planar"), (47, 63), 16, 1, Counts(6, 1, 2, 3)),
    ],
)
def test_merged_patches(pack, canvas, patch, merge, expected):
    assert counted(tokens.MergedPatches(patch=patch, merge=merge), [view(*canvas, pack)]) == expected


@pytest.mark.parametrize(
    ("options", "views", "grid", "expected"),
    [
        ({"patch": 14, "pool": 2}, [tiled(2, 3, 336), tiled(1, 1, 336, "global")], (2, 3), Counts(7 * 144, 7, 2, 3)),
        ({"patch": 14, "pool": 2}, [tiled(1, 1, 336)], (1, 1), Counts(144, 1, 1, 1)),
        ({"patch": 14, "pool": 2}, [tiled(1, 1, 378)], (1, 1), Counts(182, 1, 1, 1)),
        ({"patch": 14, "additional": 1, "strategy": "default"}, [view(336, 336)], (1, 1), Counts(576, 1, 1, 1)),
        ({"patch": 14, "additional": 1}, [view(336, 336)], (1, 1), Counts(577, 1, 1, 1)),
        ({"patch": 14}, [view(224, 280)], (1, 1), Counts(320, 1, 1, 1)),
        ({"patch": 14, "pool": 2, "tokens": 81}, [tiled(2, 2, 384), tiled(1, 1, 384)], (2, 2), Counts(405, 5, 2, 2)),
    ],
)
def test_per_tile(options, views, grid, expected):
    assert counted(tokens.PerTile(**options), views, grid) == expected


def test_fixed_counts_pictures():
    views = [view(896, 896, name=f"crop {number}") for number in range(3)]
    found = counted(tokens.Fixed(tokens=256), views)
    assert found == Counts(768, 3, 1, 1)
    assert (found.crops, found.features_per_tile) == (2, 256)


CLASS_TOKEN = {"patch": 14, "additional": 1, "strategy": "default"}


@pytest.mark.parametrize(
    ("options", "tile", "grid", "source", "expected"),
    [
        (CLASS_TOKEN, 336, (2, 2), (672, 672), 576 + 48 * 48 + 48),
        (CLASS_TOKEN, 336, (2, 2), (480, 640), 2340),
        (CLASS_TOKEN, 336, (2, 1), (500, 300), 1576),
        (CLASS_TOKEN, 336, (1, 3), (400, 1000), 2040),
        (CLASS_TOKEN | {"strategy": "full"}, 336, (2, 2), (480, 640), 2341),
        ({"patch": 14}, 384, (2, 2), (480, 640), 729 + 40 * 54 + 40),
        ({"patch": 14, "limit": "anyres_max_9"}, 384, (6, 6), (2304, 2304), 729 + 81 * 81 + 81),
        ({"patch": 14, "limit": "anyres_max_36"}, 384, (6, 6), (2304, 2304), 729 + 162 * 162 + 162),
        ({"patch": 14, "limit": "anyres_max_9"}, 384, (3, 3), (1152, 1152), 729 + 81 * 81 + 81),
    ],
)
def test_anyres(options, tile, grid, source, expected):
    views = [tiled(1, 1, tile, "base"), tiled(*grid, tile)]
    assert counted(tokens.Anyres(**options), views, grid, source).features == expected


def test_anyres_of_a_view_alone_has_one_row_end():
    assert counted(tokens.Anyres(patch=14, limit="anyres_max_9"), [tiled(1, 1, 384)]) == Counts(730, 1, 1, 1)


@pytest.mark.parametrize(("grid", "expected"), [((1, 1), 313), ((3, 4), 1921), ((4, 4), 2509), ((1, 16), 2473)])
def test_phi3_hd(grid, expected):
    views = [tiled(1, 1, 336, "global"), tiled(*grid, 336)]
    assert counted(tokens.Phi3Hd(tokens=144), views, grid).features == expected


@pytest.mark.parametrize(
    ("grid", "source", "expected"),
    [
        ((1, 1), (448, 448), 256 + 1 + 256 + 16 + 16),
        ((2, 2), (896, 896), 256 + 1 + 32 * 32 + 32 + 16),
        ((1, 1), (448, 224), 256 + 1 + 16 * 8 + 16 + 16),
        ((1, 1), (224, 448), 256 + 1 + 8 * 16 + 8 + 16),
        ((1, 1), (448, 448 - 13), 256 + 1 + 256 + 16 + 16),
        ((1, 1), (448, 448 - 14), 256 + 1 + 256 + 16 + 16),
        ((1, 1), (448, 448 - 28), 256 + 1 + 16 * 15 + 16 + 16),
        ((1, 2), (448, 896 - 448 + 14), 256 + 1 + 16 * 17 + 16 + 16),
    ],
)
def test_phi4_mask(grid, source, expected):
    views = [tiled(1, 1, 448, "global"), tiled(*grid, 448)]
    assert counted(tokens.Phi4Mask(patch=14), views, grid, source).features == expected


def test_phi4_mask_of_odd_tiles_starts_every_tile_anew():
    views = [tiled(1, 1, 42, "global"), tiled(1, 2, 42)]
    assert counted(tokens.Phi4Mask(patch=14), views, (1, 2), (42, 84)).features == 256 + 1 + 2 * 4 + 2 + 16


def test_pooled_crops():
    views = [view(378, 378, Pack("channels_last_patches", 14), name) for name in ("base", "crop 0", "crop 1")]
    rule = tokens.PooledCrops(patch=14, pool=(2, 2))
    assert counted(rule, views, (27, 46)) == Counts(196 + 14 * 23, 3, 14, 23, 14, 14)
    assert counted(tokens.PooledCrops(patch=14, pool=(1, 3)), views, (27, 46)) == Counts(
        27 * 9 + 27 * 16, 3, 27, 16, 27, 9
    )
