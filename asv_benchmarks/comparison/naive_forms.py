"""Image preprocessing as it is first written: one plain loop a step, and an array between each two of them.

These are the forms in which a gateway was profiled before this project began (docs/founding.md): pixels padded through
an intermediate image, taken apart one by one, cut by copying slices, and appended to a buffer value by value. Numba
compiles them without the interpreter.
"""

from types import SimpleNamespace

import numba
import numpy as np


def pad(image, fill, out):
    """Lay an image on the top left of a canvas of one colour.

    Parameters
    ----------
    image : uint8[height, width, 3]
    fill : uint8[3]
    out : uint8[canvas height, canvas width, 3]
    """
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            for channel in range(3):
                out[y, x, channel] = fill[channel]
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            for channel in range(3):
                out[y, x, channel] = image[y, x, channel]


def planar(image, mean, std, out):
    """Normalize pixels and take their channels apart, one value at a time.

    Parameters
    ----------
    image : uint8[height, width, 3]
    mean, std : float32[3]
        For bytes.
    out : float32[3, height, width]
    """
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            for channel in range(3):
                out[channel, y, x] = (np.float32(image[y, x, channel]) - mean[channel]) / std[channel]


def tiles(tensor, side, out):
    """Copy square tiles out of a planar tensor.

    Parameters
    ----------
    tensor : float32[3, height, width]
    side : int
    out : float32[tiles, 3, side, side]
    """
    across = tensor.shape[2] // side
    for tile in range(tensor.shape[1] // side * across):
        top, left = tile // across * side, tile % across * side
        out[tile] = tensor[:, top : top + side, left : left + side]


def merge_patches(tensor, side, merge, out):
    """Copy patches out of a planar tensor, in blocks of merge x merge, each as often as there are frames.

    Parameters
    ----------
    tensor : float32[3, height, width]
    side, merge : int
    out : float32[patches, 3, frames, side, side]
    """
    down, across, patch = tensor.shape[1] // side, tensor.shape[2] // side, 0
    for block in range(0, down, merge):
        for column in range(0, across, merge):
            for y in range(block, block + merge):
                for x in range(column, column + merge):
                    for channel in range(3):
                        for frame in range(out.shape[2]):
                            out[patch, channel, frame] = tensor[
                                channel, y * side : (y + 1) * side, x * side : (x + 1) * side
                            ]
                    patch += 1


def append(bits, out):
    """Append values to a buffer that grows, little end first; return what was written.

    Parameters
    ----------
    bits : uint32[values]
        The values' bits.
    out : uint8[capacity]
    """
    used = 0
    for value in bits:
        if used + 4 > out.size:
            larger = np.empty(max(2 * out.size, 64), np.uint8)
            larger[:used] = out[:used]
            out = larger
        for byte in range(4):
            out[used + byte] = (value >> np.uint32(8 * byte)) & np.uint32(255)
        used += 4
    return out[:used]


def write(bits, out):
    """Write values into a buffer that is as large as they are, little end first; return it."""
    for position in range(bits.size):
        for byte in range(4):
            out[4 * position + byte] = (bits[position] >> np.uint32(8 * byte)) & np.uint32(255)
    return out


def _compiled(checked, serialize):
    compiled = numba.njit(nogil=True, boundscheck=checked, error_model="numpy")
    loops = {loop.__name__: compiled(loop) for loop in (pad, planar, tiles, merge_patches)}
    return SimpleNamespace(**loops, serialize=compiled(serialize))


AS_FIRST_WRITTEN = _compiled(True, append)
"""With a check of every index and of the buffer's capacity, as in the gateway."""
WITHOUT_CHECKS = _compiled(False, write)
"""With every length known in advance: what a compiler can do for such loops."""
