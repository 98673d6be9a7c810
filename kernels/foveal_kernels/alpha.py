"""Transparent pixels over a backdrop: the arithmetic, and the kernel for pictures whose alpha was resized too.

A backdrop is two rows of RGBX pixels that take turns: the rows of a chessboard, or twice the same.
"""

import numpy as np

from .compile import helper, kernel
from .simd import load_u8, store_u8


@helper
def blend(value, back, alpha):
    """One channel of a pixel over an opaque one, rounded to the nearest.

    Notes
    -----
    The same number for all values as Pillow's alpha_composite over an opaque destination, which keeps 7 more bits, as
    its paste with a mask, and, over black, as its premultiplied colours.
    Source: Pillow 13.0.0, src/libImaging/AlphaComposite.c, Paste.c, Convert.c.
    """
    value, back, alpha = np.uint32(value), np.uint32(back), np.uint32(alpha)
    mixed = value * alpha + back * (np.uint32(255) - alpha) + np.uint32(128)
    return np.uint8((mixed + (mixed >> np.uint32(8))) >> np.uint32(8))


@helper
def blend_down(value, back, alpha):
    """Do the same in float32, the fraction cut off.

    Notes
    -----
    Source: moonshotai/Kimi-K3, media_utils.py, fill_transparent_bg_with; smg 1.13.0, crates/multimodal/src/vision/
    transforms.rs, fill_transparent_bg.
    """
    share = np.float32(alpha) / np.float32(255)
    front = share * np.float32(value)
    return np.uint8(np.int32(front + (np.float32(1) - share) * np.float32(back)))


@helper
def straight(value, alpha):
    """Undo the weighting of a channel by its alpha.

    Notes
    -----
    Source: Pillow 13.0.0, src/libImaging/Convert.c, from RGBa to RGBA.
    """
    if alpha == 0 or alpha == 255:
        return np.uint8(value)
    return np.uint8(min(np.uint32(255) * np.uint32(value) // np.uint32(alpha), np.uint32(255)))


@helper
def board_row(board, square, y):
    """Return the address of the backdrop's row behind row ``y`` of the image."""
    return np.intp(board.ctypes.data) + ((y // square) & 1) * np.intp(board.strides[0])


@kernel
def composite_resized(alpha, board, square, top, weighted, rounds_down, colors):
    """Composite a picture whose colours and alpha were resized, in place.

    Parameters
    ----------
    alpha : uint8[height, width, 3]
        The first channel counts.
    board : uint8[2, at least 4 * width]
        RGBX rows.
    square : int
        Rows of pixels for which one of them is used before the other is.
    top : int
        Row of the resized picture that row 0 is.
    weighted : bool
        Whether colours were multiplied by their alpha before they were resized.
    rounds_down : bool
    colors : uint8[height, width, 3]
    """
    height, width, _ = colors.shape
    for y in range(height):
        back = board_row(board, square, top + y)
        pixel, shares = np.intp(colors[y].ctypes.data), np.intp(alpha[y].ctypes.data)
        for x in range(width):
            share = load_u8(shares + 3 * x)
            for channel in range(3):
                value = load_u8(pixel + 3 * x + channel)
                if weighted:
                    value = straight(value, share)
                behind = load_u8(back + 4 * x + channel)
                value = blend_down(value, behind, share) if rounds_down else blend(value, behind, share)
                store_u8(pixel + 3 * x + channel, value)
