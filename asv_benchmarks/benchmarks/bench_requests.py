"""A prompt and a JPEG to a serialized request, by backend; what is decoded, resized and written included."""

import io

from .common import parse, photo

FILES = ["640x480", "1920x1080"]
BACKENDS = ["vllm", "sglang", "trtllm", "tokenspeed"]
PLACEHOLDER = 151655


def jpeg(size):
    file = io.BytesIO()
    photo(*parse(size)).save(file, "JPEG", quality=90)
    return file.getvalue()


class Process:
    """Header, plan, identity and prompt: all that is done before a worker is known."""

    params = (FILES,)
    param_names = ("size",)

    def setup(self, size):
        import foveal

        self.preprocess, self.data = foveal.Preprocessor.from_spec("qwen2_5_vl"), jpeg(size)
        self.time_process(size)

    def time_process(self, size):
        self.preprocess.process([1, PLACEHOLDER], [self.data])


class Assemble:
    """The request of a worker whose encoder computes in bfloat16, on one thread; the message is a new one each time."""

    params = (FILES, BACKENDS)
    param_names = ("size", "backend")

    def setup(self, size, backend):
        import foveal

        self.ready = foveal.Preprocessor.from_spec("qwen2_5_vl").process([1, PLACEHOLDER], [jpeg(size)])
        self.assemble, self.info = foveal.assemble, foveal.ServerInfo(encoder_dtype="bfloat16")
        self.time_assemble(size, backend)

    def time_assemble(self, size, backend):
        self.assemble(self.ready, backend, self.info, threads=1)

    def peakmem_assemble(self, size, backend):
        self.assemble(self.ready, backend, self.info, threads=1)
