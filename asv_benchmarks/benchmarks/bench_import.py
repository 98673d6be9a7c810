"""What a fresh process pays: import, the first call with cached kernels, and compiling them."""

import os
import resource
import subprocess
import sys
import tempfile
import time

from .common import MODELS

FIRST_CALL = """
import sys
from PIL import Image
import foveal
foveal.Preprocessor.from_spec(sys.argv[1])(Image.new("RGB", (640, 480), (90, 120, 30)), threads=1)
"""


def timeraw_import():
    return "import foveal"


def _first_call(model, cache):
    environment = os.environ | {"FOVEAL_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", FIRST_CALL, model], env=environment, check=True)


def _children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class FirstCall:
    """Whole processes: interpreter, import and one call."""

    params = MODELS
    param_names = ("model",)
    timeout = 300

    def setup(self, model):
        self.directory = tempfile.TemporaryDirectory()

    def teardown(self, model):
        self.directory.cleanup()

    def track_first_call_seconds(self, model):
        _first_call(model, self.directory.name)
        walls = []
        for _ in range(5):
            start = time.perf_counter()
            _first_call(model, self.directory.name)
            walls.append(time.perf_counter() - start)
        return min(walls)

    track_first_call_seconds.unit = "s"

    def track_compile_seconds(self, model):
        start = _children_cpu()
        _first_call(model, self.directory.name)
        return _children_cpu() - start

    track_compile_seconds.unit = "CPU s"
