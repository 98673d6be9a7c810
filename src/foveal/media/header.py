"""What the header of an encoded image says, read without decoding a pixel."""

from typing import IO, NamedTuple

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

from foveal.errors import MediaError
from foveal.media.orientation import oriented_size, read_orientation
from foveal.types import Size

__all__ = ["FORMATS", "Header", "open_image", "read_header"]


class _Jpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG that does not look for a resolution in its EXIF block, since Pillow warns where that is malformed."""

    def getexif(self) -> Image.Exif:
        return Image.Exif()


_OPENERS: dict[str, type[ImageFile.ImageFile]] = {
    "JPEG": _Jpeg,
    "PNG": PngImagePlugin.PngImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "AVIF": AvifImagePlugin.AvifImageFile,
    "JPEG2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "PPM": PpmImagePlugin.PpmImageFile,
    "QOI": QoiImagePlugin.QoiImageFile,
}
"""Raster formats that Pillow opens from the header and decodes in its own process.

Left out: openers that run programs (EPS, WMF), and ICO, which decodes when it is opened.
"""

FORMATS = tuple(_OPENERS)
"""Names of the encoded formats that are read."""


class Header(NamedTuple):
    """What is known before decoding.

    Attributes
    ----------
    format : str
    stored : Size
        As Pillow decodes it.
    orientation : int
        1 to 8, still to be applied.
    """

    format: str
    stored: Size
    orientation: int

    @property
    def size(self) -> Size:
        """Size after the orientation is applied."""
        return oriented_size(self.stored, self.orientation)


def read_header(file: IO[bytes]) -> Header:
    """Read format, size and orientation.

    Raises
    ------
    MediaError
        Where the format is not read, the header is corrupt, or the image has too many pixels.
    """
    image = open_image(file)
    return Header(str(image.format), Size(image.height, image.width), read_orientation(image, file))


def open_image(file: IO[bytes]) -> ImageFile.ImageFile:
    """Open an encoded image lazily.

    Pillow's format classes are called directly, because ``Image.open`` warns about many pixels and about malformed
    multi-picture files, and a warning is an exception wherever the process says so.

    Raises
    ------
    MediaError
    """
    prefix = file.read(16)
    if not prefix:
        raise MediaError("the file is empty")
    broken = None
    for name, opener in _OPENERS.items():
        accepts = Image.OPEN[name][1]
        answer = accepts is None or accepts(prefix)
        if isinstance(answer, str):
            raise MediaError(f"the installed Pillow cannot read {name}")
        if not answer:
            continue
        file.seek(0)
        try:
            image = opener(file, "")
        except MemoryError:
            raise
        except Exception as error:
            broken = broken or (name, error)
            continue
        _check_pixels(image)
        return image
    if broken is not None:
        raise MediaError(f"the {broken[0]} header is truncated or corrupt") from broken[1]
    raise MediaError(f"not an image of a format that is read ({', '.join(FORMATS)})")


def _check_pixels(image: Image.Image) -> None:
    """Refuse what Pillow refuses: more than twice ``PIL.Image.MAX_IMAGE_PIXELS``. Below that, Pillow only warns."""
    size = Size(image.height, image.width)
    pixels = size.height * size.width
    if not pixels:
        raise MediaError(f"the image has no pixels ({size}, height x width)")
    if Image.MAX_IMAGE_PIXELS is not None and pixels > (limit := 2 * Image.MAX_IMAGE_PIXELS):
        raise MediaError(f"the image has {pixels} pixels ({size}, height x width), more than the limit of {limit}")
