"""How many times as fast as what users would take instead: ratios of minima, measured in turns in one process.

They fall when Foveal became slower or a peer faster. One thread on each side. Peers that are not installed are skipped.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from .common import MODELS, parse, photo, touched

# asv imports this package alone; what ratios.py measures with lies beside it.
sys.path.append(str(Path(__file__).parent.parent))
from comparison.measure import Options, in_turns
from comparison.peers import FAMILIES, differing, peer, rust_peer

TURNS = Options(families=[], sizes=[], budget=0.5, rounds=5)


def ratio(ours, theirs):
    """Return the peer's least time over Foveal's."""
    times = in_turns({"ours": ours, "theirs": theirs}, TURNS)
    return times["theirs"].minimum / times["ours"].minimum


def pillow_resize(image, height, width):
    return partial(image.resize, (width, height), Image.Resampling.BICUBIC)


def torchvision_resize(image, height, width):
    import torch
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2.functional import pil_to_tensor, resize

    torch.set_num_threads(1)
    tensor = pil_to_tensor(image)
    return partial(resize, tensor, [height, width], InterpolationMode.BICUBIC, antialias=True)


def opencv_resize(interpolation, image, height, width):
    import cv2

    cv2.setNumThreads(1)
    return partial(cv2.resize, np.asarray(image), (width, height), interpolation=getattr(cv2, interpolation))


RESIZERS = {
    "pillow": pillow_resize,
    "torchvision": torchvision_resize,
    "opencv area": partial(opencv_resize, "INTER_AREA"),
    "opencv cubic": partial(opencv_resize, "INTER_CUBIC"),
}
"""OpenCV's values are others: its cubic skips pixels where an image shrinks, and of its filters only area does not."""


class Resize:
    """Decoded image to uint8, bicubic with antialiasing; Foveal gives the bits of Pillow or of torchvision."""

    params = (list(RESIZERS), ["4000x3000->1024x768", "1920x1080->1280x704", "640x480->336x336"])
    param_names = ("peer", "resize")

    def setup(self, peer, resize):
        import foveal.run

        source, goal = resize.split("->")
        image, (height, width) = photo(*parse(source)), parse(goal)
        try:
            self.theirs = RESIZERS[peer](image, height, width)
        except ImportError:
            raise NotImplementedError(f"{peer} is not installed") from None
        reference = "torchvision" if peer == "torchvision" else "pillow"
        out = touched((3, height, width), np.uint8)
        size = (height, width)
        self.ours = partial(foveal.run.resize, image, size, filter="bicubic", reference=reference, out=out, threads=1)

    def track_ratio(self, peer, resize):
        return ratio(self.ours, self.theirs)

    track_ratio.unit = "times as fast"


PEERS = {
    "transformers torchvision": peer,
    "transformers pillow": partial(peer, pil=True),
    "hf-processors-rs torchvision": rust_peer,
    "hf-processors-rs pillow<13": partial(rust_peer, pil=True),
}
"""Named by whose they are and by Foveal's reference: hf-processors-rs resizes in the order of Pillow before 13."""


class Model:
    """Decoded image to ``pixel_values`` of the same bits; where they differ, the benchmark fails."""

    params = (list(PEERS), MODELS, ["640x480", "1920x1080"])
    param_names = ("peer", "model", "size")

    def setup(self, peer, model, size):
        import foveal

        image, theirs = photo(*parse(size)), PEERS[peer](FAMILIES[model])
        if theirs is None:
            raise NotImplementedError(f"{peer} is not installed or has no such model")
        preprocess = foveal.Preprocessor.from_spec(model, reference=peer.split()[-1])
        first = preprocess(image, threads=1)["pixel_values"]
        wrong = differing(first, theirs(image))
        assert wrong == 0, f"{wrong} of {first.size} values differ"
        self.theirs = partial(theirs, image)
        self.ours = partial(preprocess, image, out=touched(first.shape, first.dtype), threads=1)

    def track_ratio(self, peer, model, size):
        return ratio(self.ours, self.theirs)

    track_ratio.unit = "times as fast"
