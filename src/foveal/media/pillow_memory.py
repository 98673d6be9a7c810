"""Row addresses inside Pillow's own memory.

``np.asarray(image)`` copies every pixel, which costs more than resizing it. Pillow's core image keeps an array of row
pointers; they are read here through the public capsule of ``Image.getim()``. The layout of the C struct is not public,
so it is checked twice: once in a process, on small images whose memory is also known from Pillow's Arrow export, and
for each image against its size. Where a check fails, the Arrow export serves (images in one memory block), and after
it ``np.asarray``.
"""

import ctypes
import functools

import numpy as np
import numpy.typing as npt
from PIL import Image

from foveal.media.arrays import array_pixels
from foveal.media.pixels import ON_WHITE, Backdrop, Pixels

__all__ = ["MODES", "pillow_pixels"]

_LAYOUTS: dict[str, tuple[int, tuple[int, int, int], int | None]] = {
    "L": (1, (0, 0, 0), None),
    "LA": (4, (0, 0, 0), 3),
    "RGB": (4, (0, 1, 2), None),
    "RGBA": (4, (0, 1, 2), 3),
}
"""Bytes of a pixel, offsets of red, green and blue, offset of alpha; LA is stored as L, L, L, A."""

MODES = frozenset(_LAYOUTS)
"""Modes whose pixels are used where they lie."""


class _Head(ctypes.Structure):
    """First fields of Pillow's image struct.

    Source: Pillow 12.0.0 to 13.0.0, src/libImaging/Imaging.h.
    """

    _fields_ = (
        ("mode", ctypes.c_int),
        ("type", ctypes.c_int),
        ("depth", ctypes.c_int),
        ("bands", ctypes.c_int),
        ("xsize", ctypes.c_int),
        ("ysize", ctypes.c_int),
        ("palette", ctypes.c_void_p),
        ("image8", ctypes.c_void_p),
        ("image32", ctypes.c_void_p),
        ("image", ctypes.c_void_p),
        ("block", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p),
        ("pixelsize", ctypes.c_int),
        ("linesize", ctypes.c_int),
    )


class _ArrowArray(ctypes.Structure):
    """Source: Arrow C data interface, version 1."""


_ArrowArray._fields_ = (
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def pillow_pixels(image: Image.Image, backdrop: Backdrop = ON_WHITE) -> Pixels:
    """Return the pixels of a loaded image of one of `MODES`, without a copy where Pillow's memory is understood.

    The image must not be changed while the pixels are read; closing or deleting it is harmless.
    """
    memory = _struct_rows(image) if _struct_is_known() else None
    memory = memory or _arrow_rows(image)
    if memory is None:
        return array_pixels(np.asarray(image), backdrop)
    rows, owner = memory
    step, channels, alpha = _LAYOUTS[image.mode]
    return Pixels(image.height, image.width, rows, step, channels, alpha, backdrop, (owner, image))


def _struct_rows(image: Image.Image) -> tuple[npt.NDArray[np.uint64], object] | None:
    """Return row addresses from the image struct and the capsule that keeps them valid; None where a check fails."""
    capsule = image.getim()
    head = _Head.from_address(_capsule_pointer(capsule, b"Pillow Imaging"))
    step = _LAYOUTS[image.mode][0]
    typed, other = (head.image8, head.image32) if step == 1 else (head.image32, head.image8)
    if (
        (head.xsize, head.ysize) != image.size
        or head.bands != len(image.getbands())
        or (head.pixelsize, head.linesize) != (step, step * head.xsize)
        or not head.image
        or typed != head.image
        or other
    ):
        return None
    rows = np.empty(head.ysize, np.uint64)
    ctypes.memmove(rows.ctypes.data, head.image, rows.nbytes)
    return rows, capsule


def _arrow_rows(image: Image.Image) -> tuple[npt.NDArray[np.uint64], object] | None:
    """Return row addresses from the Arrow export; None where the image is not one block of memory."""
    try:
        capsule = image.__arrow_c_array__()[1]
    except (AttributeError, ValueError, MemoryError):
        return None
    exported = _ArrowArray.from_address(_capsule_pointer(capsule, b"arrow_array"))
    values = exported.children[0].contents if exported.n_children else exported
    step = _LAYOUTS[image.mode][0]
    if values.length != image.width * image.height * step or values.n_buffers != 2:
        return None
    return _pitched(values.buffers[1], image.height, image.width * step), capsule


def _pitched(address: int, height: int, pitch: int) -> npt.NDArray[np.uint64]:
    return np.uint64(address) + np.arange(height, dtype=np.uint64) * np.uint64(pitch)


@functools.cache
def _struct_is_known() -> bool:
    """Whether the struct of the Pillow that is installed has the layout of `_Head`."""
    return all(map(_probe, _LAYOUTS))


def _probe(mode: str) -> bool:
    image = Image.new(mode, (5, 3))
    expected, found = _arrow_rows(image), _struct_rows(image)
    return expected is not None and found is not None and bool((expected[0] == found[0]).all())
