"""Pillow's openers of raster formats: silent, within bounds, and none that runs a program.

They are called directly: ``Image.open`` warns of many pixels and of malformed multi-picture files, and tries openers
that are not wanted here.
"""

import importlib
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import IO, Any

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    QoiImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from foveal.errors import MediaTooLarge, UnsupportedFormat
from foveal.media.orientation import oriented_size, xmp_orientation
from foveal.types import Size

__all__ = ["FORMATS", "BoundedFile", "candidates", "opener"]

_HEADER_BYTES = 16 << 20
_PIECE = 1 << 16
_READ_COST = 512
"""What an opener may read in pieces below that size, as JPEG has them, and what each counts beside its bytes. Pillow
spends six seconds on 10 MB of empty segments, and copies all EXIF before a piece for each that is added; within the
bounds 0.05 s and 0.5 s at worst."""

_TEXT_BYTES = 8 << 20

_ORIENTATION = 0x0112
_HEVC_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs"}


def _with_names(method: Callable[..., Any], **names: object) -> Any:
    """Return a method of Pillow's that finds other things under some of its module's names.

    Pillow warns of what is wrong with metadata, and a warning is printed, or an exception where the process says so.
    ``warnings.catch_warnings`` is no help: it changes the filters of the process, under the feet of other threads.
    """
    function: Any = method
    other = FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    other.__kwdefaults__ = function.__kwdefaults__
    return other


_SILENT = SimpleNamespace(warn=lambda *_arguments, **_options: None)
"""In place of the module ``warnings``."""


def _check_bomb(size: tuple[int, int], **_options: object) -> None:
    """Do as Pillow does with its own limit, but for the warning above half of it."""
    if Image.MAX_IMAGE_PIXELS is not None and size[0] * size[1] > 2 * Image.MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError


_IMAGE = SimpleNamespace(**{**vars(Image), "_decompression_bomb_check": _check_bomb})
"""In place of the module ``PIL.Image``."""


class _Jpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG that does not look for a resolution in its EXIF block, since Pillow warns where that is malformed."""

    def getexif(self) -> Image.Exif:
        return Image.Exif()


class _PngStream(PngImagePlugin.PngStream):
    """PNG chunks without warnings, and with less text than Pillow's 64 MiB, which take 0.3 s to inflate."""

    chunk_acTL = _with_names(PngImagePlugin.PngStream.chunk_acTL, warnings=_SILENT)  # noqa: N815

    def check_text_memory(self, chunklen: int) -> None:
        self.text_memory += chunklen
        if self.text_memory > _TEXT_BYTES:
            raise MediaTooLarge(f"the PNG header has more than {_TEXT_BYTES} bytes of text")


class _Png(PngImagePlugin.PngImageFile):
    _open = _with_names(PngImagePlugin.PngImageFile._open, PngStream=_PngStream)


class _Gif(GifImagePlugin.GifImageFile):
    _seek = _with_names(GifImagePlugin.GifImageFile._seek, Image=_IMAGE)


class _GifHeader(GifImagePlugin.GifImageFile):
    """A GIF that allocates no picture when it is opened: Pillow does, for what follows a first frame of any size."""

    _seek = _with_names(
        GifImagePlugin.GifImageFile._seek,
        Image=SimpleNamespace(**{**vars(_IMAGE), "core": SimpleNamespace(fill=lambda *_arguments: None)}),
    )


class _TiffDirectory(TiffImagePlugin.ImageFileDirectory_v2):
    load = _with_names(TiffImagePlugin.ImageFileDirectory_v2.load, warnings=_SILENT)
    _setitem = _with_names(TiffImagePlugin.ImageFileDirectory_v2._setitem, warnings=_SILENT)


class _Tiff(TiffImagePlugin.TiffImageFile):
    """A TIFF whose EXIF block holds the orientation alone, by which Pillow turns the pixels while it loads them.

    Of the other directories Pillow warns while it loads, and it fails where one of them is malformed. Where only XMP
    names the orientation, Pillow's size is not that of the turned image before it is loaded; here it is.
    """

    _open = _with_names(TiffImagePlugin.TiffImageFile._open, ImageFileDirectory_v2=_TiffDirectory)
    load_prepare = _with_names(TiffImagePlugin.TiffImageFile.load_prepare, Image=_IMAGE)

    def getexif(self) -> Image.Exif:
        exif = Image.Exif()
        orientation = self.tag_v2.get(_ORIENTATION, self._xmp_orientation())
        if orientation is not None:
            exif[_ORIENTATION] = orientation
        return exif

    def _setup(self) -> None:
        super()._setup()
        if _ORIENTATION not in self.tag_v2:
            self._size = oriented_size(Size(*self._size), self._xmp_orientation() or 1)

    def _xmp_orientation(self) -> int | None:
        xmp = self.info.get("xmp")
        return xmp_orientation(xmp) if isinstance(xmp, str | bytes) else None


class _Ppm(PpmImagePlugin.PpmImageFile):
    """A PPM that is not text: on comments in it Pillow spends ten seconds a megabyte."""

    def _open(self) -> None:
        super()._open()
        if any(tile[0] == "ppm_plain" for tile in self.tile):
            raise UnsupportedFormat("plain PPM, which is text, is not read")


_OPENERS: dict[str, type[ImageFile.ImageFile]] = {
    "JPEG": _Jpeg,
    "PNG": _Png,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "GIF": _Gif,
    "TIFF": _Tiff,
    "BMP": BmpImagePlugin.BmpImageFile,
    "AVIF": AvifImagePlugin.AvifImageFile,
    "JPEG2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "PPM": _Ppm,
    "QOI": QoiImagePlugin.QoiImageFile,
}
"""Raster formats that Pillow opens from the header and decodes in its own process.

Left out: openers that run programs (EPS, WMF), and ICO, which decodes when it is opened.
"""

_HEADER_OPENERS: dict[str, type[ImageFile.ImageFile]] = {**_OPENERS, "GIF": _GifHeader}

FORMATS = (*_OPENERS, "HEIF")
"""Names of the encoded formats that are read; HEIF, which is HEIC too, where pillow-heif is installed."""


def candidates(prefix: bytes) -> Iterator[str]:
    """Yield the formats that the first bytes may be of.

    Raises
    ------
    UnsupportedFormat
        Where the Pillow that is installed was built without one.
    """
    if _is_hevc(prefix):
        yield "HEIF"
        return
    for name in _OPENERS:
        accepts = Image.OPEN[name][1]
        answer = accepts is None or accepts(prefix[:16])
        if isinstance(answer, str):
            raise UnsupportedFormat(f"the installed Pillow cannot read {name}")
        if answer:
            yield name


def _is_hevc(prefix: bytes) -> bool:
    """Whether the brands of an ISO base media file name HEIC or one of its kin."""
    if prefix[4:8] != b"ftyp":
        return False
    brands = prefix[8 : int.from_bytes(prefix[:4], "big")]
    return any(brands[start : start + 4] in _HEVC_BRANDS for start in range(0, len(brands), 4))


def opener(name: str, for_header: bool) -> type[ImageFile.ImageFile]:
    """Return the class that opens a format, to look at the header alone or to decode it.

    Raises
    ------
    UnsupportedFormat
        Where it is in a package that is not installed.
    """
    if name != "HEIF":
        return (_HEADER_OPENERS if for_header else _OPENERS)[name]
    try:
        plugin: Any = importlib.import_module("pillow_heif")
    except ImportError as error:
        raise UnsupportedFormat("HEIC and HEIF need another package: pip install pillow-heif") from error
    found: type[ImageFile.ImageFile] = plugin.HeifImageFile
    return found


class BoundedFile:
    """A file that refuses to be read without end; nothing of it is read twice."""

    __slots__ = ("_left", "_read", "seek", "tell")

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self._read = file.seek, file.tell, file.read
        self._left = _HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read, as a file does.

        Raises
        ------
        MediaTooLarge
        """
        if size < _PIECE:
            self._left -= size + _READ_COST
            if self._left < 0:
                raise MediaTooLarge(
                    f"the header has more than {_HEADER_BYTES} bytes in small parts, each counting {_READ_COST} more"
                )
        return self._read(size)
