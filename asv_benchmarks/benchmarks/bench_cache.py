"""A request of an image that a cache holds, beside one that is decoded and resized, and beside the copy alone."""

import numpy as np

from .bench_requests import PLACEHOLDER, jpeg
from .common import touched


class ImageCache:
    """From a JPEG to a request for vLLM in bfloat16, on one thread, in a process whose allocator is tuned."""

    params = (["640x480", "1920x1080"],)
    param_names = ("size",)

    def setup(self, size):
        import foveal

        foveal.tune_allocator()
        self.preprocess, self.data = foveal.Preprocessor.from_spec("qwen2_5_vl"), jpeg(size)
        self.assemble, self.info = foveal.assemble, foveal.ServerInfo(encoder_dtype="bfloat16")
        self.cache, self.empty = foveal.ImageCache(1 << 30), foveal.ImageCache(1 << 30)
        request = self.request(self.cache)
        self.source = touched((len(request.serialized),), np.uint8)
        self.target = touched(self.source.shape, np.uint8)

    def request(self, cache):
        ready = self.preprocess.process([1, PLACEHOLDER], [self.data], cache=cache)
        return self.assemble(ready, "vllm", self.info, threads=1)

    def time_hit(self, size):
        self.request(self.cache)

    def time_miss(self, size):
        self.empty.clear()
        self.request(self.empty)

    def time_without(self, size):
        self.request(None)

    def time_memcpy(self, size):
        np.copyto(self.target, self.source)


class Timings:
    """A small call with the stage timings off, and collected."""

    def setup(self):
        import foveal

        self.preprocess = foveal.Preprocessor.from_spec("clip")
        self.image, self.collected = np.zeros((240, 320, 3), np.uint8), foveal.timings.collected
        self.preprocess(self.image, threads=1)

    def time_off(self):
        self.preprocess(self.image, threads=1)

    def time_collected(self):
        with self.collected():
            self.preprocess(self.image, threads=1)
