"""What the families share that cut an image into the grid of tiles whose shape is nearest to the image's."""

import math


def sizes_of_nearest_grid(side: int) -> dict[str, tuple[int, int]]:
    """Return sizes at which 12 tiles of this side at most are chosen one way or another.

    Of two grids that are equally near, the larger one wins if the image has more than half of its pixels.
    """
    half = math.isqrt(2 * side**2)
    tied = 4 * math.ceil(side * math.sqrt(5 / 2.25) / 4)
    return {
        "one_pixel": (1, 1),
        "tiny": (3, 5),
        "square": (side, side),
        "half_of_four": (half, half),
        "over_half_of_four": (half + 1, half + 1),
        "two": (100, 203),
        "two_tall": (203, 100),
        "three_by_four": (300, 400),
        "four_by_three": (401, 303),
        "between_grids": (120, 170),
        "tied": (80, 180),
        "tied_over_half": (tied, tied * 9 // 4),
        "eleven": (550, 50),
        "one_row": (1, 300),
        "one_column": (800, 1),
        "vga": (480, 640),
    }
