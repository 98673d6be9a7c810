"""Transparent pixels on white, and resized: before or after, beside Pillow."""

import numpy as np
from PIL import Image

from .common import parse, photo, touched

RESIZES = ["4000x3000->1024x768", "1920x1080->1280x704", "1280x960->1280x960"]


def transparent(height, width):
    """Return a photograph whose left half fades out, and a quarter of which is noise of alpha."""
    image = photo(height, width).convert("RGBA")
    alpha = np.full((height, width), 255, np.uint8)
    alpha[:, : width // 2] = np.linspace(0, 255, width // 2).astype(np.uint8)
    alpha[: height // 2, width // 2 :] = np.random.default_rng(0).integers(0, 256, (height // 2, width - width // 2))
    image.putalpha(Image.fromarray(alpha))
    return image


class Composite:
    """One thread, a reused buffer; ``time_opaque`` is the resize alone, ``time_pillow_*`` does the same work."""

    params = (RESIZES,)
    param_names = ("resize",)

    def setup(self, resize):
        from foveal.media.policy import DecodePolicy

        source, goal = resize.split("->")
        self.image, self.size = transparent(*parse(source)), parse(goal)
        self.opaque = self.image.convert("RGB")
        self.out = touched((3, *self.size), np.uint8)
        self.after = DecodePolicy(stage="after_resize")
        self.time_before(resize)
        self.time_after(resize)

    def _run(self, image, policy=None):
        import foveal.run

        foveal.run.resize(image, self.size, reference="pillow", out=self.out, threads=1, policy=policy)

    def time_opaque(self, resize):
        self._run(self.opaque)

    def time_before(self, resize):
        self._run(self.image)

    def time_after(self, resize):
        self._run(self.image, self.after)

    def time_pillow_before(self, resize):
        on_white(self.image).resize(self.size[::-1], Image.Resampling.BICUBIC)

    def time_pillow_after(self, resize):
        on_white(self.image.resize(self.size[::-1], Image.Resampling.BICUBIC))


def on_white(image):
    return Image.alpha_composite(Image.new("RGBA", image.size, (255,) * 4), image).convert("RGB")
