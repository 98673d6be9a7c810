"""One view from arrays, run into guarded memory: for the tests of kernels."""

import numpy as np

from foveal.media.pixels import Pixels
from foveal.plan.plan import Normalization, Pack, View
from foveal.run import execute
from foveal.types import DTYPES, Box, Size

GUARD = 192
POISON = 0xA5
CLIP = Normalization(True, 1 / 255, True, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


def pixels_of(array, background=(255, 255, 255)):
    """An array (height, width, 3 or 4) of any strides as Pixels."""
    height, width, channels = array.shape
    start = array.__array_interface__["data"][0]
    rows = (start + np.arange(height) * array.strides[0]).astype(np.uint64)
    offsets = tuple(channel * array.strides[2] for channel in range(3))
    alpha = 3 * array.strides[2] if channels == 4 else None
    return Pixels(height, width, rows, array.strides[1], offsets, alpha, background, array)


def view_of(
    size, *, filter="bicubic", vertical_first=False, crop=None, canvas=None, place=(0, 0), fill=(0, 0, 0), pack=None
):
    """A view with everything at its simplest unless said."""
    crop = crop or Box(0, 0, *size)
    canvas = Size(*(canvas or (crop.height, crop.width)))
    return View("view", Size(*size), filter, vertical_first, crop, canvas, place, fill, pack or Pack("planar"), 0)


def run(view, pixels, *, reference="pillow", normalization=CLIP, dtype="uint8", bands=None, digits=None):
    """Run a view into poisoned memory with guard zones; the guards must stay as they were."""
    elements = 3 * view.canvas.height * view.canvas.width * view.pack.temporal
    size = elements * DTYPES[dtype].itemsize
    memory = np.full(size + 2 * GUARD, POISON, np.uint8)
    address = memory.ctypes.data + GUARD
    for start, stop in bands or [(0, view.canvas.height)]:
        execute.run_view(view, reference, normalization, pixels, dtype, address, start, stop, digits)
    assert (memory[:GUARD] == POISON).all()
    assert (memory[-GUARD:] == POISON).all()
    return memory[GUARD : GUARD + size].view(DTYPES[dtype])
