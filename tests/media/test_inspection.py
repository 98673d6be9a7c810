import base64
import io
import time

import hostile
import msgspec
import numpy as np
import pytest
from PIL import Image, ImageFile, features
from reading import encoded, exif, noise, picture

from foveal import Inspection, inspect
from foveal.errors import MediaError, OptionError
from foveal.media import inspection
from foveal.media.policy import DecodePolicy
from foveal.media.sources import open_source
from foveal.types import Size

DEEP = Image.fromarray(np.arange(900, dtype=np.uint16).reshape(20, 45) * 70)

CASES = {
    "JPEG grey": (encoded(picture("L", 20, 30), "JPEG"), "L", 8, False),
    "JPEG CMYK": (encoded(picture("CMYK", 20, 30), "JPEG"), "CMYK", 8, False),
    "PNG 1": (encoded(picture("1", 20, 30), "PNG"), "1", 1, False),
    "PNG palette": (encoded(picture("P", 20, 30), "PNG"), "P", 4, False),
    "PNG palette, transparent": (encoded(picture("P", 20, 30), "PNG", transparency=3), "P", 4, True),
    "PNG colour key": (encoded(picture("RGB", 20, 30), "PNG", transparency=(1, 2, 3)), "RGB", 8, True),
    "PNG grey and alpha": (encoded(picture("LA", 20, 30), "PNG"), "LA", 8, True),
    "PNG alpha": (encoded(picture("RGBA", 20, 30), "PNG"), "RGBA", 8, True),
    "PNG 16": (encoded(DEEP, "PNG"), "I;16", 16, False),
    "WEBP alpha": (encoded(picture("RGBA", 20, 30), "WEBP"), "RGBA", 8, True),
    "WEBP": (encoded(picture("RGB", 20, 30), "WEBP"), "RGB", 8, False),
    "GIF": (encoded(picture("P", 20, 30), "GIF"), "P", 8, False),
    "GIF transparent": (encoded(picture("P", 20, 30), "GIF", transparency=2), "P", 8, True),
    "TIFF 1": (encoded(picture("1", 20, 30), "TIFF"), "1", 1, False),
    "TIFF 16": (encoded(DEEP, "TIFF"), "I;16", 16, False),
    "TIFF float": (encoded(picture("F", 20, 30), "TIFF"), "F", 32, False),
    "TIFF alpha": (encoded(picture("RGBA", 20, 30), "TIFF"), "RGBA", 8, True),
    "BMP": (encoded(picture("RGB", 20, 30), "BMP"), "RGB", 8, False),
    "PPM": (encoded(picture("RGB", 20, 30), "PPM"), "RGB", 8, False),
    "PPM 16": (encoded(DEEP, "PPM"), "I", 16, False),
    "PPM 10": (b"P5 30 20 1023 " + bytes(1200), "I", 10, False),
    "JPEG2000": (encoded(picture("RGBA", 20, 30), "JPEG2000"), "RGBA", 8, True),
    "JPEG2000 16": (encoded(DEEP, "JPEG2000"), "I;16", 16, False),
    "QOI": (encoded(picture("RGBA", 20, 30), "QOI"), "RGBA", 8, True),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_header_says(name):
    data, mode, bits, alpha = CASES[name]
    found = inspect(data)
    image = Image.open(io.BytesIO(data))
    assert found.format == name.split()[0]
    assert (found.height, found.width) == found.stored == (image.height, image.width)
    assert (found.mode, found.bits, found.has_alpha) == (mode, bits, alpha)
    assert (found.orientation, found.frames, found.bytes) == (1, 1, len(data))
    assert found.mode == image.mode


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")
def test_avif():
    found = inspect(encoded(picture("RGBA", 20, 30), "AVIF"))
    assert (found.format, found.mode, found.bits, found.has_alpha) == ("AVIF", "RGBA", 8, True)


@pytest.mark.parametrize(("flags", "bits"), [(0x0C, 8), (0x4C, 10), (0x6C, 12)])
def test_bits_of_av1(flags, bits):
    assert inspection._STORED_BITS["AVIF"](None, io.BytesIO(b"xxxxav1C\x81\0" + bytes([flags]))) == bits


def test_every_source_of_a_file_says_the_same(tmp_path):
    data = encoded(picture("RGB", 20, 30), "JPEG", exif=exif(6))
    path = tmp_path / "image.jpg"
    path.write_bytes(data)
    url = "data:image/jpeg;base64," + base64.b64encode(data).decode()
    with path.open("rb") as file:
        items = (data, bytearray(data), memoryview(data), path, str(path), file, io.BytesIO(data), url)
        found = [inspect(item) for item in items]
    assert len(set(found)) == 1
    assert found[0] == Inspection(
        format="JPEG",
        height=30,
        width=20,
        stored=Size(20, 30),
        mode="RGB",
        bits=8,
        orientation=6,
        frames=1,
        has_alpha=False,
        bytes=len(data),
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_and_the_policy(orientation):
    data = encoded(picture("RGB", 20, 30), "JPEG", exif=exif(orientation))
    found = inspect(data)
    assert (found.orientation, found.stored) == (orientation, (20, 30))
    assert (found.height, found.width) == open_source(data).size == ((30, 20) if orientation > 4 else (20, 30))
    as_stored = inspect(data, policy=DecodePolicy(orientation="ignore"))
    assert (as_stored.orientation, as_stored.height, as_stored.width) == (1, 20, 30)
    assert inspect(data, policy="huggingface") == as_stored


def test_pillow_images():
    found = inspect(picture("LA", 20, 30))
    assert found == Inspection(
        format=None,
        height=20,
        width=30,
        stored=Size(20, 30),
        mode="LA",
        bits=8,
        orientation=1,
        frames=1,
        has_alpha=True,
        bytes=None,
    )
    turned = Image.open(io.BytesIO(encoded(picture("RGB", 20, 30), "JPEG", exif=exif(6))))
    assert (inspect(turned).format, inspect(turned).height, inspect(turned).orientation) == ("JPEG", 20, 1)
    assert [inspect(picture(mode)).bits for mode in ("1", "I;16B", "I", "F", "P", "CMYK")] == [1, 16, 32, 32, 8, 8]
    modes = ("L", "LA", "P", "PA", "RGB", "RGBA", "LAB", "CMYK", "YCbCr")
    assert [mode for mode in modes if inspect(Image.new(mode, (3, 2))).has_alpha] == ["LA", "PA", "RGBA"]


@pytest.mark.parametrize(("format", "frames"), [("GIF", None), ("TIFF", None), ("PNG", 3), ("WEBP", 3), ("MPO", 3)])
def test_pillow_images_are_not_moved(format, frames):
    pictures = [Image.fromarray(noise(8, 9, seed=seed)) for seed in range(3)]
    image = Image.open(io.BytesIO(encoded(pictures[0], format, save_all=True, append_images=pictures[1:])))
    image.seek(1)
    assert inspect(image).frames == frames
    assert image.tell() == 1
    assert image.n_frames == 3
    assert inspect(image).frames == 3


def test_arrays():
    for channels, mode in ((1, "L"), (3, "RGB"), (4, "RGBA")):
        found = inspect(np.zeros((5, 6, channels), np.uint8))
        assert (found.height, found.width, found.mode, found.bits) == (5, 6, mode, 8)
        assert (found.has_alpha, found.format, found.frames, found.bytes) == (channels == 4, None, 1, None)
    assert inspect(np.zeros((5, 6))).bits == 64
    assert inspect(np.zeros((3, 5, 6), np.float32), input_data_format="channels_first").width == 6
    with pytest.raises(MediaError, match="channels"):
        inspect(np.zeros((5, 6, 2), np.uint8))


def test_inspecting_decodes_nothing(monkeypatch):
    items = [data for data, *_ in CASES.values()]
    items += [Image.open(io.BytesIO(item)) for item in items]

    def fail(self):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    for item in items:
        assert inspect(item).height == 20


def test_a_beginning_is_enough():
    for name in ("JPEG grey", "PNG alpha", "GIF", "BMP", "QOI"):
        data = CASES[name][0]
        start = len(data) - 80
        assert inspect(data[:start]).height == 20


@pytest.mark.parametrize("item", [None, 7, [], "missing.png", "https://example.com/a.png", b"", b"GIF89a", object()])
def test_what_cannot_be_inspected(item):
    with pytest.raises(MediaError):
        inspect(item)


def test_wrong_options():
    with pytest.raises(OptionError, match="policy must be one of"):
        inspect(b"", policy="best")
    with pytest.raises(OptionError, match="input_data_format"):
        inspect(np.zeros((5, 6)), input_data_format="wide")


def test_an_inspection_is_a_value_that_can_be_sent():
    found = inspect(CASES["JPEG grey"][0])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Inspection) == found


def test_it_takes_far_less_than_a_millisecond():
    frames = [Image.fromarray(noise(200, 300, seed=seed)) for seed in range(8)]
    animation = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    large = hostile.zeros_png(10_000, 10_000)
    for data in (encoded(frames[0], "JPEG"), encoded(frames[0], "WEBP"), encoded(frames[0], "TIFF"), animation, large):
        best = min(timed(data) for _ in range(30))
        assert best < 0.001


def timed(data):
    start = time.perf_counter()
    inspect(data)
    return time.perf_counter() - start
