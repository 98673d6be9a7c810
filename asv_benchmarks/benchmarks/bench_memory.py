"""Peak memory of every family, on one thread, of a picture that is there; `peak_memory.py` says what it is made of."""

from .common import FAMILIES, parse, photo, touched


class Families:
    """The reference holds the picture and the output, and calls nothing."""

    params = (FAMILIES, ["4000x3000"])
    param_names = ("model", "size")

    def setup(self, model, size):
        import foveal

        self.image = photo(*parse(size))
        self.preprocess = foveal.Preprocessor.from_spec(model)
        self.preprocess(self.image.crop((0, 0, 640, 480)), threads=1)
        batch = self.preprocess.plan([self.image])
        self.out = touched(batch.shape, foveal.types.DTYPES[batch.dtype])

    def peakmem_call(self, model, size):
        self.preprocess(self.image, out=self.out, threads=1)

    def peakmem_reference(self, model, size):
        pass


class Outputs:
    """Why there is no pool of outputs: new ones where the allocator is tuned take as long as one that is used again."""

    params = (["reused", "fresh", "fresh, tuned"], ["float32", "bfloat16"])
    param_names = ("output", "dtype")

    def setup(self, output, dtype):
        import foveal

        if output == "fresh, tuned" and not foveal.tune_allocator():
            raise NotImplementedError("the C library is not glibc")
        self.image, self.preprocess = photo(1080, 1920), foveal.Preprocessor.from_spec("qwen2_5_vl")
        shape = self.preprocess.plan(1080, 1920).shape
        self.out = touched(shape, foveal.types.DTYPES[dtype]) if output == "reused" else None
        self.time_call(output, dtype)

    def time_call(self, output, dtype):
        self.preprocess(self.image, dtype, self.out, threads=1)
