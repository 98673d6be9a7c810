"""Files that cost more than they should, and files with something wrong in their metadata; all made by code."""

import io
import struct
import zlib

from PIL import Image
from reading import encoded, noise

PNG_START = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, data: bytes = b"") -> bytes:
    """Return a PNG chunk."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def zeros_png(height: int, width: int) -> bytes:
    """Return a valid grey PNG of zeros of any size, made without the memory or the time that its pixels would take.

    A block that deflate can start at is repeated; the check sum of n zeros is known.
    """
    total = height * (width + 1)
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = 1 << 20
    piece = compress.compress(bytes(block)) + compress.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    rest = last.compress(bytes(total % block)) + last.flush()
    stream = b"\x78\xda" + piece * (total // block) + rest + struct.pack(">HH", total % 65521, 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return PNG_START + chunk(b"IHDR", header) + chunk(b"IDAT", stream) + chunk(b"IEND")


def png_with(*chunks: bytes, height: int = 40, width: int = 60) -> bytes:
    """Return a PNG with chunks before its pixels."""
    data = encoded(Image.fromarray(noise(height, width)), "PNG")
    return data[:33] + b"".join(chunks) + data[33:]


def segment(marker: int, data: bytes = b"") -> bytes:
    """Return a JPEG segment."""
    return bytes((255, marker)) + struct.pack(">H", len(data) + 2) + data


def jpeg_with(*segments: bytes, height: int = 40, width: int = 60) -> bytes:
    """Return a JPEG with segments behind its start."""
    data = encoded(Image.fromarray(noise(height, width)), "JPEG")
    return data[:2] + b"".join(segments) + data[2:]


def gif(*frames: bytes, height: int = 40, width: int = 60) -> bytes:
    """Return a GIF of a grey palette whose frames, or extensions, are given."""
    palette = bytes(value for grey in range(256) for value in (grey,) * 3)
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + palette + b"".join(frames) + b";"


def gif_frame(top: int = 0, left: int = 0, height: int = 40, width: int = 60, blocks: int = 1) -> bytes:
    """Return a frame without pixels, in some blocks."""
    head = b"," + struct.pack("<HHHHB", left, top, width, height, 0) + b"\x08"
    return head + (b"\xff" + bytes(255)) * (blocks - 1) + b"\x01\x00" + b"\x00"


def gif_control(disposal: int = 0) -> bytes:
    """Return what stands before a frame and says how it is removed."""
    return b"!\xf9\x04" + bytes((disposal << 2, 0, 0, 0)) + b"\x00"


def tiff(height: int, width: int, *entries: tuple[int, int, int, int], pixels: bytes | None = None) -> bytes:
    """Return a grey TIFF with entries (tag, type, count, value) beside those that it needs."""
    data = bytes(height * width) if pixels is None else pixels
    own = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (277, 3, 1, 1)]
    own += [(273, 4, 1, 8), (278, 4, 1, height), (279, 4, 1, len(data))]
    directory = b"".join(struct.pack("<HHII", *entry) for entry in sorted([*own, *entries]))
    head = b"II*\x00" + struct.pack("<I", 8 + len(data))
    return head + data + struct.pack("<H", len(own) + len(entries)) + directory + bytes(4)


def truncations(data: bytes, parts: int = 100) -> list[bytes]:
    """Return the beginnings of a file, one for each part of it."""
    return [data[: len(data) * part // parts] for part in range(parts)]


def open_count(data: bytes) -> int:
    """Return how many frames Pillow counts."""
    with Image.open(io.BytesIO(data)) as image:
        return getattr(image, "n_frames", 1)
