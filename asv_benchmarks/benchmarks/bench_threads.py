"""Several threads, and several callers: what `foveal.run.schedule` decides."""

import os
from concurrent.futures import ThreadPoolExecutor

from .common import parse, photo, touched

WORKS = {"16 images": (16, "1024x768"), "one image": (1, "4000x3000"), "one small image": (1, "640x480")}


class Threads:
    """The suite's own environment has one thread a process, so each of these says how many it has."""

    params = (["llava1_5", "llama4", "qwen2_5_vl"], list(WORKS), [1, 2])
    param_names = ("model", "work", "threads")

    def setup(self, model, work, threads):
        import foveal

        os.environ["FOVEAL_THREADS"] = str(threads)
        count, size = WORKS[work]
        self.images = [photo(*parse(size))] * count
        self.preprocess = foveal.Preprocessor.from_spec(model)
        batch = self.preprocess.plan(self.images)
        self.out = touched(batch.shape, foveal.types.DTYPES[batch.dtype])
        self.time_call(model, work, threads)

    def time_call(self, model, work, threads):
        self.preprocess(self.images, out=self.out)


class Callers:
    """32 calls of one image each, by one caller and by four at once, who must not be in each other's way."""

    params = (["llava1_5", "qwen2_5_vl"], [1, 4])
    param_names = ("model", "callers")

    def setup(self, model, callers):
        import foveal

        os.environ["FOVEAL_THREADS"] = "2"
        self.image, self.preprocess = photo(768, 1024), foveal.Preprocessor.from_spec(model)
        self.pool = ThreadPoolExecutor(callers)
        self.time_calls(model, callers)

    def teardown(self, model, callers):
        self.pool.shutdown()

    def time_calls(self, model, callers):
        list(self.pool.map(self.preprocess, [self.image] * 32))
