"""Windows rules: the parts of a picture that are views of their own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.errors import ImageSizeError
from foveal.plan.windows import overlapping_crops, pan_and_scan
from foveal.types import Box

side = st.integers(1, 20000)
unhurried = settings(deadline=None)


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (1000, 1000, []),
        (1000, 1199, []),  # below 1.2
        (1000, 1200, [Box(0, 0, 1000, 600), Box(0, 600, 1000, 600)]),  # 1.2, but two at least
        (300, 1000, [Box(0, 0, 300, 334), Box(0, 334, 300, 334), Box(0, 668, 300, 332)]),  # 3.33; the last is smaller
        (1000, 300, [Box(0, 0, 334, 300), Box(334, 0, 334, 300), Box(668, 0, 332, 300)]),
        (255, 1000, []),  # crops of 255 are too small
        (256, 511, [Box(0, 0, 256, 256), Box(0, 256, 256, 255)]),
        (256, 510, []),  # 255 wide
        (500, 5000, [Box(0, start, 500, 1250) for start in (0, 1250, 2500, 3750)]),  # four at most
        (400, 1001, [Box(0, 0, 400, 334), Box(0, 334, 400, 334), Box(0, 668, 400, 333)]),  # 2.5025 + 0.5, cut: 3
    ],
)
def test_pan_and_scan_by_hand(height, width, expected):
    assert pan_and_scan(height, width, min_crop=256, max_crops=4, min_ratio=1.2) == expected


def test_a_crop_of_nothing_is_refused():
    with pytest.raises(ImageSizeError, match=r"^the last of 4 crops of 3 pixels would be empty$"):
        pan_and_scan(2, 9, min_crop=1, max_crops=4, min_ratio=1.2)


@unhurried
@given(side, side, st.integers(1, 600), st.integers(1, 20), st.floats(0, 30))
def test_crops_are_side_by_side_and_cover_the_picture(height, width, least, most, ratio):
    try:
        found = pan_and_scan(height, width, min_crop=least, max_crops=most, min_ratio=ratio)
    except ImageSizeError:
        return
    assert len(found) <= most
    assert sum(box.height * box.width for box in found) in (0, height * width)
    along, length = ("left", "width") if width >= height else ("top", "height")
    place = 0
    for box in found:
        assert getattr(box, along) == place
        place += getattr(box, length)
        assert min(box) >= 0
    if found:
        assert min(height, width) >= least
        assert len({getattr(box, length) for box in found[:-1]}) <= 1


def test_overlapping_crops_by_hand():
    assert overlapping_crops(378, 644, tile=378, patch=14, before=4, after=4) == [
        Box(0, 0, 378, 378),
        Box(0, 266, 378, 378),
    ]
    places = [(box.top, box.left) for box in overlapping_crops(294, 210, tile=126, patch=14, before=2, after=1)]
    assert places == [(0, 0), (0, 84), (84, 0), (84, 84), (168, 0), (168, 84)]


@unhurried
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 5), st.integers(0, 5))
def test_overlapping_crops_share_their_margins(rows, columns, before, after):
    margin, step = (before + after) * 2, (12 - before - after) * 2
    height, width = rows * step + margin, columns * step + margin
    found = overlapping_crops(height, width, tile=24, patch=2, before=before, after=after)
    assert len(found) == rows * columns
    covered = np.zeros((height, width), int)
    for top, left, high, wide in found:
        assert (high, wide) == (24, 24)
        assert 0 <= top <= height - 24
        assert 0 <= left <= width - 24
        covered[top : top + high, left : left + wide] += 1
    assert covered.min() == 1
    assert covered[0].max() <= (2 if step >= margin else 24)
