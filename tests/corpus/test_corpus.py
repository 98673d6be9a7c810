"""Images of all kinds, sizes and orientations through the whole of a call, beside the stack that a preset names."""

import numpy as np
import pytest
from kinds import SIZES, kinds
from stacks import ELSEWHERE, REFUSED, STACKS

from foveal import CorruptImage, Limits, Preprocessor, UnsupportedFormat
from foveal.media.policy import PRESETS

LIMITS = Limits.for_batches()


def preprocessors(preset):
    return [Preprocessor.from_spec(name, policy=preset, limits=LIMITS) for name in ("clip", "qwen2_vl")]


def read_alike(preset, files):
    """Compare a batch of files with a batch of the arrays that the stack makes of them, in bytes."""
    files = {name: data for name, data in files.items() if name.split()[0] not in REFUSED.get(preset, ())}
    exact = [data for name, data in files.items() if name not in ELSEWHERE.get(preset, ())]
    arrays = [np.ascontiguousarray(STACKS[preset](data)) for data in exact]
    for preprocess in preprocessors(preset):
        if max(arrays[0].shape[:2]) > 200 * min(arrays[0].shape[:2]):
            continue
        got, want = preprocess(exact, "uint8"), preprocess(arrays, "uint8")
        assert list(got) == list(want)
        for name, tensor in got.items():
            np.testing.assert_array_equal(tensor, want[name])


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "{}x{}".format(*size))
@pytest.mark.parametrize("preset", PRESETS)
def test_every_kind_in_every_size(preset, size):
    for orientation in (1, 6):
        read_alike(preset, {name: make(orientation) for name, make in kinds(*size).items()})


@pytest.mark.parametrize("orientation", [*range(9), 9, 255, 65535])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_kind_in_every_orientation(preset, orientation):
    read_alike(preset, {name: make(orientation) for name, make in kinds(21, 34).items()})


@pytest.mark.parametrize("preset", PRESETS)
def test_formats_that_a_stack_does_not_read_are_refused(preset):
    for name, make in kinds(21, 34).items():
        if name.split()[0] in REFUSED.get(preset, ()):
            with pytest.raises(UnsupportedFormat, match=r"^image 0: \w+ is not one of the formats"):
                preprocessors(preset)[0]([make(1)])


@pytest.mark.parametrize("name", [name for name in kinds(21, 34) if "animated" not in name])
def test_bytes_behind_the_end_change_the_identity_and_no_pixel(name):
    preprocess = preprocessors(None)[0]
    data = kinds(21, 34)[name](1)
    want = preprocess(data, "uint8")["pixel_values"]
    seen = {identity_of(data)}
    for behind in (b"\0", b"trailing", data, b"\xff\xd9"):
        try:
            got = preprocess(data + behind, "uint8")["pixel_values"]
        except CorruptImage:  # a few decoders count the bytes; Pillow refuses then, too
            continue
        np.testing.assert_array_equal(got, want)
        seen.add(identity_of(data + behind))
    assert len(seen) > 1 or name.startswith(("jpeg2000", "qoi"))


def identity_of(data):
    from foveal.media.sources import open_source

    return open_source(data).digest()
