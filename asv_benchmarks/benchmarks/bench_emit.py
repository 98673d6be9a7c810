"""Normalizing and placing pixels without a resize, beside the memory copy that moves as many bytes."""

import numpy as np

from .common import photo, touched

LAYOUTS = {
    "planar": ("llava1_5", {"do_resize": False, "do_center_crop": False}, (960, 1280)),
    "merge_patches": ("qwen2_5_vl", {}, (952, 1288)),
}
"""Spec, overrides, and a size (height, width) that the spec's size rule leaves as it is."""


class Emit:
    """RGB array in, normalized tensor out."""

    params = (list(LAYOUTS), ["float32", "bfloat16", "uint8"])
    param_names = ("layout", "dtype")

    def setup(self, layout, dtype):
        import foveal

        spec, overrides, (height, width) = LAYOUTS[layout]
        self.preprocess = foveal.Preprocessor.from_spec(spec, **overrides)
        self.image = np.asarray(photo(height, width))
        self.dtype = dtype
        first = self.preprocess(self.image, dtype=dtype, threads=1)["pixel_values"]
        self.out = touched(first.shape, first.dtype)
        moved = self.image.nbytes + self.out.nbytes
        self.copy_from, self.copy_to = (touched((moved // 2,), np.uint8) for _ in range(2))
        self.time_reused_buffer(layout, dtype)

    def time_reused_buffer(self, layout, dtype):
        self.preprocess(self.image, dtype=self.dtype, out=self.out, threads=1)

    def time_fresh_buffers(self, layout, dtype):
        self.preprocess(self.image, dtype=self.dtype, threads=1)

    def time_memcpy(self, layout, dtype):
        np.copyto(self.copy_to, self.copy_from)
