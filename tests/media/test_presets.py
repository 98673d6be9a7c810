"""Every preset beside the stack that it is named for: all modes, kinds of alpha, and orientations."""

import warnings

import numpy as np
import pytest
from reading import encoded, noise, picture, read_rgb
from stacks import CASES, ELSEWHERE, REFUSED, STACKS, chunk, huggingface, huggingface_path, opened

from foveal.errors import CorruptImage, UnsupportedFormat
from foveal.media.policy import DEFAULT, PRESETS, decode_policy
from foveal.media.sources import open_source


def test_there_is_a_stack_for_each_preset():
    assert list(STACKS) == list(PRESETS)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_gives_what_its_stack_gives(preset, name):
    policy = decode_policy(preset)
    orientations = range(1, 10) if name == "jpeg RGB" or "RGBA" in name else (1, 6)
    for orientation in orientations:
        data = CASES[name](orientation)
        if name.split()[0] in REFUSED.get(preset, ()):
            with pytest.raises(UnsupportedFormat, match=r" is not one of the formats that are accepted \(JPEG, PNG, "):
                open_source(data, policy=policy)
            continue
        source = open_source(data, policy=policy)
        got = read_rgb(source.decode())
        assert source.size == got.shape[:2]
        if name not in ELSEWHERE.get(preset, ()):
            np.testing.assert_array_equal(got, STACKS[preset](data))


def test_more_alphas_than_a_palette_has():
    """A palette PNG whose tRNS chunk has 300: read where alpha is dropped, and refused where the stack refuses it."""
    plain = encoded(picture("P"), "PNG")
    place = plain.index(b"IDAT") - 4
    data = plain[:place] + chunk(b"tRNS", bytes(300)) + plain[place:]
    for preset in ("sglang", "huggingface-path"):
        got = read_rgb(open_source(data, policy=decode_policy(preset)).decode())
        np.testing.assert_array_equal(got, STACKS["sglang"](data))
    for preset in ("huggingface", "vllm", "smg"):
        with pytest.raises(ValueError, match="palette index out of range"):
            STACKS[preset](data)
        with pytest.raises(CorruptImage, match=r"^the transparency of mode P cannot be applied$"):
            open_source(data, policy=decode_policy(preset)).decode()


@pytest.mark.parametrize("transparency", [None, 3, bytes(9), bytes(300), (1, 2, 3)])
@pytest.mark.parametrize("mode", ["P", "PA"])
def test_dropping_transparency_leaves_the_callers_image_alone(mode, transparency):
    image = picture(mode)
    expected = np.asarray(picture(mode).convert("RGBA").convert("RGB"))
    if transparency is not None:
        image.info["transparency"] = transparency
    info, data, palette = dict(image.info), image.tobytes(), image.getpalette()
    got = read_rgb(open_source(image, policy=PRESETS["sglang"]).decode())
    np.testing.assert_array_equal(got, expected)
    assert (image.info, image.tobytes(), image.getpalette()) == (info, data, palette)


@pytest.mark.parametrize("name", CASES)
def test_the_default_is_what_vllm_does(name):
    for orientation in (1, 3, 8):
        data = CASES[name](orientation)
        np.testing.assert_array_equal(read_rgb(open_source(data).decode()), STACKS["vllm"](data))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_presets_ask_for(preset):
    """All that sets them apart from the default."""
    fields = {name: getattr(PRESETS[preset], name) for name in PRESETS[preset].__struct_fields__}
    other = {name: value for name, value in fields.items() if value != getattr(DEFAULT, name) and name != "formats"}
    assert (
        other
        == {
            "huggingface": {"orientation": "ignore"},
            "huggingface-path": {"transparency": "drop"},
            "vllm": {},
            "sglang": {"orientation": "ignore", "transparency": "drop"},
            "smg": {"color_key": "ignore", "depth": "nearest"},
        }[preset]
    )


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_the_restated_processor_is_that_of_transformers(name):
    transforms = pytest.importorskip("transformers.image_transforms")
    data = CASES[name](6)
    np.testing.assert_array_equal(transforms.convert_to_rgb(opened(data), return_numpy=True), huggingface(data))


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_the_restated_path_is_that_of_transformers(name, tmp_path):
    """And what its preset says that it cannot reproduce is so."""
    utils = pytest.importorskip("transformers.image_utils")
    pytest.importorskip("torchvision")
    if name.split()[0] in REFUSED["huggingface-path"]:
        return
    for orientation in range(1, 9):
        path = tmp_path / "image"
        path.write_bytes(CASES[name](orientation))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.moveaxis(utils.load_image_as_tensor(str(path)).numpy(), -3, -1)
        if name not in ELSEWHERE["huggingface-path"] or name == "webp turned":
            np.testing.assert_array_equal(found, huggingface_path(path.read_bytes()))
        elif name == "gif animated":
            assert found.shape == (2, 7, 11, 3)
        else:
            assert found.dtype == np.uint16 or name == "gif, key"


@pytest.mark.reference
@pytest.mark.parametrize("alpha", [False, True])
def test_arrays_are_pillow_images_to_transformers(alpha):
    """An array with alpha may differ by one level: transformers composites it in another arithmetic."""
    transforms = pytest.importorskip("transformers.image_transforms")
    array = noise(9, 13, 4 if alpha else 3)
    found = transforms.convert_to_rgb(array, return_numpy=True, input_data_format="channels_last")
    got = read_rgb(open_source(array, policy=PRESETS["huggingface"]).decode())
    assert np.abs(found.astype(int) - got).max() <= alpha
