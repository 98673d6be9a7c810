"""What each serving stack makes of an encoded image before it resizes, restated with Pillow alone; and the images."""

import contextlib
import io
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps, TiffImagePlugin, features
from reading import encoded, exif, noise, picture, reference_rgb

LEVELS = noise(7, 11, None) // 64 * 64


def opened(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def huggingface(data):
    """A Pillow image given to a processor: transformers 5.24.0, image_transforms.py, convert_to_rgb."""
    return reference_rgb(opened(data))


def huggingface_path(data):
    """transformers 5.24.0, image_utils.py, load_image_as_tensor: upright but for WebP, the stored colours."""
    image = opened(data)
    image = image if image.format == "WEBP" else ImageOps.exif_transpose(image)
    return np.asarray(image.convert("RGBA" if image.mode == "P" else "RGB").convert("RGB"))


def vllm(data):
    """vllm 0.33.0, multimodal/media/image.py, load_bytes, and multimodal/image.py."""
    image = Image.open(io.BytesIO(data))
    with contextlib.suppress(Exception):
        image = ImageOps.exif_transpose(image)
    image.load()
    if image.mode not in ("RGBA", "LA", "PA") and "transparency" not in image.info:
        return np.asarray(image.convert("RGB"))
    image = image.convert("RGBA")
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(image, mask=image.split()[3])
    return np.asarray(white)


def sglang(data):
    """sglang 0.5.23, multimodal/processors/base_processor.py, _load_single_item."""
    image = opened(data)
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        del image.info["transparency"]  # which Pillow drops, and warns of
    return np.asarray(image.convert("RGB"))


def smg(data):
    """smg 1.13.0 before a vLLM worker, as its wire shows: integer arithmetic, and no colour key of truecolour."""
    image = ImageOps.exif_transpose(opened(data))
    if image.mode == "I;16":
        grey = (np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535
        return np.repeat(grey[..., None], 3, axis=2).astype(np.uint8)
    if image.mode == "RGB":
        return np.asarray(image)
    rgba = np.asarray(image.convert("RGBA")).astype(np.uint32)
    color, alpha = rgba[..., :3], rgba[..., 3:]
    return ((color * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


STACKS = {
    "huggingface": huggingface,
    "huggingface-path": huggingface_path,
    "vllm": vllm,
    "sglang": sglang,
    "smg": smg,
}


# ---- images of every kind, by name; each makes the file for an orientation


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def deep_png(kind, channels, extra=b"", orientation=1):
    """A PNG of 16 bits a channel, which Pillow writes for grey alone."""
    height, width = 7, 11
    lines = noise(height, width, 2 * channels).reshape(height, -1)
    data = b"".join(b"\0" + line.tobytes() for line in lines)
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = [chunk(b"IHDR", head), chunk(b"eXIf", exif(orientation)[6:]), extra, chunk(b"IDAT", zlib.compress(data))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")


def levels(mode):
    """A picture of few values, so that many pixels have the one that is made transparent."""
    grey = Image.fromarray(LEVELS)
    return grey if mode == "L" else Image.merge("RGB", [grey, grey, Image.new("L", grey.size, 9)])


def tagged(image, format, **options):
    return lambda orientation: encoded(image, format, exif=exif(orientation), **options)


def tiff(image, **options):
    def make(orientation):
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[0x0112] = orientation
        return encoded(image, "TIFF", tiffinfo=tags, **options)

    return make


def untagged(image, format, **options):
    return lambda orientation: encoded(image, format, **options)


CASES = {
    **{f"png {mode}": tagged(picture(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")},
    "png 1, key": tagged(picture("1"), "PNG", transparency=0),
    "png L, key": tagged(levels("L"), "PNG", transparency=64),
    "png RGB, key": tagged(levels("RGB"), "PNG", transparency=(64, 64, 9)),
    "png P, one key": tagged(picture("P"), "PNG", transparency=3),
    "png P, alphas": tagged(picture("P"), "PNG", transparency=bytes(range(0, 256, 16))),
    "png RGB 16": lambda orientation: deep_png(2, 3, orientation=orientation),
    "png LA 16": lambda orientation: deep_png(4, 2, orientation=orientation),
    "png RGBA 16": lambda orientation: deep_png(6, 4, orientation=orientation),
    "png animated": tagged(picture("RGBA"), "PNG", save_all=True, append_images=[Image.new("RGBA", (11, 7))]),
    **{f"jpeg {mode}": tagged(picture(mode), "JPEG") for mode in ("L", "RGB", "CMYK")},
    "jpeg progressive": tagged(picture("RGB"), "JPEG", progressive=True, subsampling=0),
    "webp RGB": untagged(picture("RGB"), "WEBP"),
    "webp RGBA": untagged(picture("RGBA"), "WEBP", lossless=True, exact=True),
    "webp turned": tagged(picture("RGB"), "WEBP"),
    "gif": untagged(picture("P"), "GIF"),
    "gif, key": untagged(picture("P"), "GIF", transparency=3),
    "gif animated": untagged(picture("P"), "GIF", save_all=True, append_images=[Image.new("P", (11, 7), 5)]),
    **{f"tiff {mode}": tiff(picture(mode)) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16")},
    **{f"tiff {mode}": tiff(picture(mode)) for mode in ("I;16B", "I", "F", "LAB")},
    **{f"bmp {mode}": untagged(picture(mode), "BMP") for mode in ("1", "L", "P", "RGB", "RGBA")},
    **{f"jpeg2000 {mode}": untagged(picture(mode, 40, 33), "JPEG2000") for mode in ("L", "LA", "RGB", "RGBA")},
    **{f"ppm {mode}": untagged(picture(mode), "PPM") for mode in ("1", "L", "RGB", "I;16")},
    **{f"qoi {mode}": untagged(picture(mode), "QOI") for mode in ("RGB", "RGBA")},
}
if features.check("avif"):
    CASES |= {f"avif {mode}": tagged(picture(mode), "AVIF") for mode in ("RGB", "RGBA")}

REFUSED = {
    "huggingface-path": ("tiff", "bmp", "jpeg2000", "ppm", "qoi", "avif"),
    "smg": ("jpeg2000", "avif"),
}
"""Formats that a stack does not read."""

ELSEWHERE = {
    "huggingface-path": (
        *("png I;16", "png RGB 16", "png LA 16", "png RGBA 16"),
        *("gif, key", "gif animated", "webp turned"),
    ),
    "smg": ("tiff I;16B", "tiff I", "tiff F", "tiff LAB", "tiff CMYK", "ppm I;16"),
}
"""Cases in which a stack does what no policy says, or that were not observed."""
