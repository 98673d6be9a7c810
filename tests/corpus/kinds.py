"""Files of every kind that is read, in any size, under the names that ``stacks`` uses for what a preset is to give."""

from collections.abc import Callable

import numpy as np
from PIL import Image
from reading import noise, picture
from stacks import tagged, tiff, untagged

SIZES = [(1, 1), (1, 96), (96, 1), (96, 3), (3, 96), (3, 3), (2, 100), (26, 28), (27, 257), (500, 19), (161, 184)]
"""Height and width: those that reports name, and that were taken for channels, refused, or crashed."""

Make = Callable[[int], bytes]


def kinds(height: int, width: int) -> dict[str, Make]:
    """Return what makes the file of each kind for an orientation."""
    image = {mode: _picture(mode, height, width) for mode in _MODES}
    white = Image.new("P", (width, height), 5)
    few = Image.fromarray(noise(height, width, None) // 64 * 64)
    keyed = Image.merge("RGB", [few, few, Image.new("L", few.size, 9)])
    small = {"num_resolutions": 1}
    return {
        **{f"png {mode}": tagged(image[mode], "PNG") for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")},
        "png L, key": tagged(few, "PNG", transparency=64),
        "png RGB, key": tagged(keyed, "PNG", transparency=(64, 64, 9)),
        "png P, alphas": tagged(image["P"], "PNG", transparency=bytes(range(0, 256, 16))),
        **{f"jpeg {mode}": tagged(image[mode], "JPEG") for mode in ("L", "RGB", "CMYK")},
        **{f"jpeg RGB {way}": tagged(image["RGB"], "JPEG", subsampling=way) for way in ("4:4:4", "4:2:2", "4:2:0")},
        "jpeg progressive": tagged(image["RGB"], "JPEG", progressive=True),
        "webp RGB": untagged(image["RGB"], "WEBP"),
        "webp RGBA": untagged(image["RGBA"], "WEBP", lossless=True, exact=True),
        "gif": untagged(image["P"], "GIF"),
        "gif, key": untagged(image["P"], "GIF", transparency=3),
        "gif animated": untagged(image["P"], "GIF", save_all=True, append_images=[white]),
        **{f"tiff {mode}": tiff(image[mode]) for mode in _MODES},
        **{f"bmp {mode}": untagged(image[mode], "BMP") for mode in ("1", "L", "P", "RGB", "RGBA")},
        **{f"ppm {mode}": untagged(image[mode], "PPM") for mode in ("1", "L", "RGB")},
        **{f"qoi {mode}": untagged(image[mode], "QOI") for mode in ("RGB", "RGBA")},
        **{f"jpeg2000 {mode}": untagged(image[mode], "JPEG2000", **small) for mode in ("L", "LA", "RGB", "RGBA")},
    }


_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I;16B", "I", "F", "LAB")


def _picture(mode: str, height: int, width: int) -> Image.Image:
    """Return a noisy picture, its alpha transparent and opaque in runs, as cut-out pictures have it."""
    image = picture(mode, height, width)
    if mode in ("LA", "RGBA"):
        alpha = np.asarray(image.getchannel("A")).copy()
        alpha[:, : width // 3] = 0
        alpha[:, width - width // 3 :] = 255
        image.putalpha(Image.fromarray(alpha))
    return image
