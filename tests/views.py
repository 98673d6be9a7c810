"""One view from arrays, run into guarded memory: for the tests of kernels."""

import ctypes
import mmap

import msgspec
import numpy as np

from foveal.media.pixels import ON_WHITE, Backdrop, Pixels
from foveal.plan.plan import Normalization, Pack, View
from foveal.run import execute
from foveal.types import DTYPES, Box, Size

GUARD = 192
POISON = 0xA5
CLIP = Normalization(True, 1 / 255, True, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


def pixels_of(array, background=(255, 255, 255), **backdrop):
    """An array (height, width, 3 or 4) of any strides as Pixels, on one colour or on a backdrop with other fields."""
    height, width, channels = array.shape
    start = array.__array_interface__["data"][0]
    rows = (start + np.arange(height) * array.strides[0]).astype(np.uint64)
    offsets = tuple(channel * array.strides[2] for channel in range(3))
    alpha = 3 * array.strides[2] if channels == 4 else None
    behind = Backdrop(background, **{"dark": background, **backdrop})
    return Pixels(height, width, rows, array.strides[1], offsets, alpha, behind, array)


def guarded_pixels(image, step=3, at_end=True, backdrop=ON_WHITE):
    """An image of 3 or 4 channels whose rows touch memory that must not be read: behind them, or before them."""
    height, width, channels = image.shape
    used, page = (width - 1) * step + channels, mmap.PAGESIZE
    pages = -(-used // page)
    pitch = (pages + 1) * page
    memory = np.frombuffer(mmap.mmap(-1, height * pitch), np.uint8)
    rows = memory.ctypes.data + np.arange(height, dtype=np.int64) * pitch + (pages * page - used if at_end else page)
    for y, row in enumerate(rows - memory.ctypes.data):
        for channel in range(channels):
            memory[row + channel : row + used : step] = image[y, :, channel]
        _forbid(memory.ctypes.data + y * pitch + (pages * page if at_end else 0), page)
    return Pixels(height, width, rows.view(np.uint64), step, (0, 1, 2), 3 if channels == 4 else None, backdrop, memory)


def _forbid(address, size):
    """Forbid all access to whole pages: it ends the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0) == 0


def view_of(
    size,
    *,
    reads="image",
    window=None,
    border=(0, 0, 0),
    filter="bicubic",
    method="antialias",
    vertical_first=False,
    crop=None,
    canvas=None,
    place=(0, 0),
    fill=(0, 0, 0),
    pack=None,
):
    """A view with everything at its simplest unless said; where no window is, `run` takes the whole image."""
    crop = crop or Box(0, 0, *size)
    return View(
        name="view",
        reads=reads,
        window=window and Box(*window),
        border=border,
        resized=Size(*size),
        filter=filter,
        method=method,
        vertical_first=vertical_first,
        crop=crop,
        canvas=Size(*(canvas or (crop.height, crop.width))),
        place=place,
        fill=fill,
        pack=pack or Pack("planar"),
        offset=0,
    )


def run(view, pixels, *, reference="pillow", normalization=CLIP, dtype="uint8", bands=None, digits=None):
    """Run a view into poisoned memory with guard zones; the guards must stay as they were."""
    if view.window is None:
        view = msgspec.structs.replace(view, window=Box(0, 0, pixels.height, pixels.width))
    elements = 3 * view.canvas.height * view.canvas.width * view.pack.temporal
    size = elements * DTYPES[dtype].itemsize
    memory = np.full(size + 2 * GUARD, POISON, np.uint8)
    address = memory.ctypes.data + GUARD
    for start, stop in bands or [(0, view.canvas.height)]:
        execute.run_view(view, reference, normalization, pixels, dtype, address, start, stop, digits)
    assert (memory[:GUARD] == POISON).all()
    assert (memory[-GUARD:] == POISON).all()
    return memory[GUARD : GUARD + size].view(DTYPES[dtype])
