"""Exact uint8 resizing, beside Pillow's."""

import os

import numpy as np
from PIL import Image

from .common import LEVELS, parse, photo, touched

RESIZES = ["4000x3000->1024x768", "1920x1080->1280x704", "640x480->336x336"]
FILTERS = ["bilinear", "bicubic", "lanczos"]


class Resize:
    """One thread, default instruction level; ``time_pillow`` does the same work."""

    params = (RESIZES, FILTERS)
    param_names = ("resize", "filter")

    def setup(self, resize, filter):
        source, goal = resize.split("->")
        self.image, self.size, self.filter = photo(*parse(source)), parse(goal), filter
        self.out = touched((3, *self.size), np.uint8)
        self.time_reused_buffer(resize, filter)

    def time_reused_buffer(self, resize, filter):
        import foveal.run

        foveal.run.resize(self.image, self.size, filter=self.filter, reference="pillow", out=self.out, threads=1)

    def time_fresh_buffers(self, resize, filter):
        import foveal.run

        foveal.run.resize(self.image, self.size, filter=self.filter, reference="pillow", threads=1)

    def time_pillow(self, resize, filter):
        height, width = self.size
        self.image.resize((width, height), Image.Resampling[self.filter.upper()])


class ResizeAtLevel:
    """Bicubic at each instruction level; levels that this CPU lacks are skipped."""

    params = (RESIZES, LEVELS)
    param_names = ("resize", "level")

    def setup(self, resize, level):
        os.environ["FOVEAL_TARGET"] = level
        from foveal_kernels import target

        if level not in target.supported():
            raise NotImplementedError(f"this CPU cannot run the level {level}")
        source, goal = resize.split("->")
        self.image, self.size = photo(*parse(source)), parse(goal)
        self.out = touched((3, *self.size), np.uint8)
        self.time_reused_buffer(resize, level)

    def time_reused_buffer(self, resize, level):
        import foveal.run

        foveal.run.resize(self.image, self.size, filter="bicubic", reference="pillow", out=self.out, threads=1)
