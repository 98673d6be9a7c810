"""The main job: image in, a model's tensors out."""

import io
from functools import partial

from .common import FAMILIES, MODELS, SIZES, parse, photo, touched


class _Call:
    def prepare(self, model, size, dtype=None):
        import foveal

        self.preprocess = foveal.Preprocessor.from_spec(model)
        self.image = photo(*parse(size))
        first = self.preprocess(self.image, dtype=dtype, threads=1)["pixel_values"]
        self.dtype = dtype
        self.out = touched(first.shape, first.dtype)


class Preprocess(_Call):
    """From a decoded Pillow image, one thread."""

    params = (MODELS, SIZES, ["float32", "bfloat16", "uint8"])
    param_names = ("model", "size", "dtype")

    def setup(self, model, size, dtype):
        self.prepare(model, size, dtype)
        self.time_reused_buffer(model, size, dtype)

    def time_reused_buffer(self, model, size, dtype):
        self.preprocess(self.image, dtype=self.dtype, out=self.out, threads=1)

    def time_fresh_buffers(self, model, size, dtype):
        self.preprocess(self.image, dtype=self.dtype, threads=1)


class Family:
    """Every family, from a decoded Pillow image, one thread; and its small tensors alone."""

    params = (FAMILIES, ["1024x768"])
    param_names = ("model", "size")

    def setup(self, model, size):
        import foveal
        from foveal.plan.tensors import batch_tensors

        self.preprocess, self.image = foveal.Preprocessor.from_spec(model), photo(*parse(size))
        batch = self.preprocess.plan([self.image])
        self.out = touched(batch.shape, foveal.types.DTYPES[batch.dtype])
        self.small_tensors = partial(batch_tensors, self.preprocess.spec, batch)
        self.time_reused_buffer(model, size)

    def time_reused_buffer(self, model, size):
        self.preprocess(self.image, out=self.out, threads=1)

    def time_small_tensors(self, model, size):
        self.small_tensors()


class FromFile(_Call):
    """From the bytes of a JPEG file, decoding included."""

    params = (MODELS, ["640x480", "1920x1080"])
    param_names = ("model", "size")

    def setup(self, model, size):
        self.prepare(model, size)
        file = io.BytesIO()
        self.image.save(file, "JPEG", quality=90)
        self.file = file.getvalue()
        self.time_reused_buffer(model, size)

    def time_reused_buffer(self, model, size):
        self.preprocess(self.file, out=self.out, threads=1)


class Memory(_Call):
    """Peak memory of a call; the reference holds the image and the output, and calls nothing."""

    params = (MODELS, ["1920x1080", "4000x3000"])
    param_names = ("model", "size")

    def setup(self, model, size):
        import foveal

        self.image = photo(*parse(size))
        self.preprocess = foveal.Preprocessor.from_spec(model)
        self.preprocess(self.image.crop((0, 0, 640, 480)), threads=1)
        plan = self.preprocess.plan(*parse(size))
        self.out = touched(plan.shape, foveal.types.DTYPES[plan.dtype])

    def peakmem_call(self, model, size):
        self.preprocess(self.image, out=self.out, threads=1)

    def peakmem_reference(self, model, size):
        pass


class Output:
    """What comes out: a change of these numbers is a change of behaviour."""

    params = (MODELS, SIZES)
    param_names = ("model", "size")

    def setup(self, model, size):
        import foveal

        self.plan = foveal.Preprocessor.from_spec(model).plan(*parse(size))

    def track_features(self, model, size):
        return self.plan.features

    track_features.unit = "tokens"

    def track_elements(self, model, size):
        return self.plan.elements

    track_elements.unit = "values"
