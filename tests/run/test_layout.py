"""Offsets of every layout: A[channel] + R[row] + C[column] is where the plain twin puts a value."""

import msgspec
import naive
import numpy as np
import pytest
from views import view_of

from foveal.plan.plan import Pack
from foveal.run.layout import layout_of
from foveal.types import Size

LAYOUTS = {
    "planar": (Pack("planar"), naive.planar),
    "allotted": (Pack("planar", allotted=Size(40, 61)), lambda x: naive.allotted(x, (40, 61), -1)),
    "pixels": (Pack("pixels"), naive.pixels),
    "tiles": (Pack("tiles", 12), lambda x: naive.tiles(x, 12)),
    "patches": (Pack("patches", 4), lambda x: naive.patches(x, 4)),
    "channels last": (Pack("channels_last_patches", 4), lambda x: naive.channels_last_patches(x, 4)),
    "merge blocks": (Pack("merge_patches", 4, 3, 2), lambda x: naive.merge_patches(x, 4, 3, 2)),
}
SIZE = (36, 60)


def placed(layout, image, offset, elements):
    """Every value of (3, height, width) where a layout says, -1 elsewhere; nothing may lie before ``offset``."""
    out = np.full(offset + elements, -1)
    step = 3 if layout.interleaved else 1
    columns = (layout.columns[:, None] + np.arange(layout.run) * step).ravel()
    for copy in range(layout.copies):
        first = layout.rows[:, None] + columns + copy * layout.gap
        for channel in range(3):
            out[first + layout.channels[channel]] = image[channel]
    assert (out[:offset] == -1).all()
    return out[offset:]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("offset", [0, 1000])
def test_layouts(name, offset):
    pack, twin = LAYOUTS[name]
    view = msgspec.structs.replace(view_of(SIZE, pack=pack), offset=offset)
    image = np.arange(3 * SIZE[0] * SIZE[1]).reshape(3, *SIZE)
    want = twin(image).ravel()
    np.testing.assert_array_equal(placed(layout_of(view), image, offset, want.size), want)


@pytest.mark.parametrize("name", LAYOUTS)
def test_runs_and_bands(name):
    """Rows of a band, and the runs of a group, follow one another as the kernel assumes."""
    pack, _ = LAYOUTS[name]
    layout = layout_of(view_of(SIZE, pack=pack))
    assert len(layout.columns) * layout.run == SIZE[1]
    assert len(layout.columns) % layout.merge == 0
    assert SIZE[0] % layout.band == 0
    step = 3 if layout.interleaved else 1
    for y in range(SIZE[0]):
        first = y // layout.band * layout.band
        patch, row = divmod(y - first, layout.side)
        assert layout.rows[y] == layout.rows[first] + patch * layout.step + row * layout.run * step
