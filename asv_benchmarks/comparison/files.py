"""A JPEG's bytes to ``pixel_values``, by both of Foveal's decoders, and as users of transformers read images."""

import io
from dataclasses import replace
from functools import partial

from benchmarks.common import parse, photo, touched
from PIL import Image

from comparison.measure import Options, in_turns
from comparison.peers import CLASSES, classes_of, differing, peer_of_spec, with_classes
from comparison.report import Line

MODELS = ["qwen2_5_vl", "llava1_5", "llama4"]
SIZES = ["640x480", "1920x1080", "4000x3000"]
PILLOW, FAST = "Pillow's decoder", "fast-jpeg"
BY_TORCHVISION = "torchvision class, torchvision.io"
MUST = {("torchvision class", PILLOW): 1.8, ("torchvision class", FAST): 2.2, ("PIL class", PILLOW): 3.0}


def files(options: Options) -> list[Line]:
    """Time JPEG to ``pixel_values`` by either decoder, against transformers' classes with the decoders they are fed by.

    Users open a file with Pillow; torchvision.io decodes to the same pixels.
    """
    names, sizes = with_classes(options.families or MODELS), [size for size in options.sizes if size in SIZES]
    return [line for name in names for size in sizes for line in _file(name, size, options)]


def _file(name: str, size: str, options: Options) -> list[Line]:
    file, ours, theirs, pairs = io.BytesIO(), {}, {}, []
    photo(*parse(size)).save(file, "JPEG", quality=88)
    for kind in classes_of(name):
        usual = _usual(name, kind, file.getvalue())
        decoders = {(kind, decoder): call for decoder, call in _decoders(name, kind, file.getvalue()).items()}
        pairs += [(mine, against) for against in usual or [kind] for mine in decoders]
        theirs |= usual
        ours |= decoders
    wrong = {pair: differing(ours[pair[0]](), theirs[pair[1]]()) for pair in pairs if pair[1] in theirs}
    times, note = in_turns(ours | theirs, options), f"{len(file.getvalue()) / 1e6:.1f} MB"
    lines = []
    for mine, against in pairs:
        line = Line("files", f"{name} {size}, {mine[1]}", times[mine], against, times.get(against))
        must = MUST.get((against, mine[1]))
        lines.append(replace(line, must=must, differing=wrong.get((mine, against)), note=note))
    return lines


def _usual(name, kind, data):
    """Return what a class makes of a file, for each way of decoding for it; nothing if it is not installed."""
    call = peer_of_spec(name, kind)
    if call is None:
        return {}
    opened = {kind: lambda: call(Image.open(io.BytesIO(data)).convert("RGB"))}
    if kind == "PIL class":
        return opened
    import torch
    from torchvision.io import decode_jpeg

    return opened | {BY_TORCHVISION: lambda: call(decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8)))}


def _decoders(name, kind, data):
    """Return Foveal's call for each decoder that is there, with the values of a class."""
    import foveal
    from foveal.media import fast_jpeg

    preprocess = foveal.Preprocessor.from_spec(name, reference=CLASSES[kind])
    primary, fastest = preprocess.spec.primary.name, fast_jpeg.is_available
    first = preprocess(data, threads=1)[primary]
    decoders = {PILLOW: lambda: False} | ({FAST: fastest} if fastest() else {})

    def call(decoder, out):
        fast_jpeg.is_available = decoders[decoder]
        try:
            return preprocess(data, out=out, threads=1)[primary]
        finally:
            fast_jpeg.is_available = fastest

    return {decoder: partial(call, decoder, touched(first.shape, first.dtype)) for decoder in decoders}
