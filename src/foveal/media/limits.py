"""What an image, and the images of a request together, may cost: checked from headers, before anything is decoded."""

import os
import re
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from foveal.errors import ImageSizeError, MediaTooLarge, OptionError
from foveal.types import Size

__all__ = ["Limits", "checked_limits"]

_WHOLE = re.compile(r"[0-9]{1,18}")
"""A number in the environment: all that fit a file offset."""

_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")

_FOR_BATCHES = {"images": 1 << 16, "encoded_bytes": 1 << 40, "decoded_bytes": 1 << 40, "aspect_ratio": 1 << 20}
"""Of a call over images of one's own: about 23,000 photographs of 12 megapixels, half an hour of decoding on one core.
More than that in one call, whose tensors lie in one array, is a mistake."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an image, and the images of a request together, may cost.

    Every limit is checked from what headers say. ``PIL.Image.MAX_IMAGE_PIXELS`` is not asked, though Pillow itself
    refuses some formats above twice its value.

    `Limits.default` is for requests that anyone may send; `Limits.for_batches`, the default of `Preprocessor`, for
    images of one's own, many in a call. Environment variables change either: ``FOVEAL_MAX_PIXELS=50000000``, and so on
    for each of the attributes; what a caller names, ``Limits.for_batches(images=4)``, is above both. ``Limits(...)``
    itself asks no variable, and what it is not given is as in a request.

    Attributes
    ----------
    input_bytes : int
        Of an encoded image: a file, a body, a ``data:`` URL after base64. 128 MiB.
    pixels : int
        Height times width of an image of any kind: 178,956,970, which is where Pillow and vLLM refuse.
    encoded_bytes : int
        Of all encoded images of a request, before they are decoded, and of all bodies that its URLs lead to: 512 MiB,
        and 1 TiB for batches.
    decoded_bytes : int
        Of all images of a request, at four bytes a pixel: 715,827,880, as vLLM; one image at the limit of ``pixels``.
        Where decoders take more, that counts: 16 bytes a pixel of WebP, 12 of AVIF, 24 of JPEG 2000, 8 of HEIF; and
        256, for the time, where Pillow decodes in Python (QOI, run-length BMP, PPM whose largest value is not 255 or
        65535). For batches 1 TiB: they are decoded one after the other on each thread, not held at once.
    images : int
        Of a request: 256, and 65,536 for batches. A model's own limit may be lower.
    aspect_ratio : int or float
        Longer edge by shorter edge: 4,096, and 1,048,576 for batches. Models have rules of their own; this one bounds
        what a strip of one pixel becomes where a model scales the shorter edge.
    frames : int
        Of an animation whose header says how many it has, which is so of PNG, WebP, AVIF and HEIF, and where any format
        is asked for another frame than the first by a policy's ``frame``, the number of that frame: 4,096. Of a GIF, a
        TIFF or a multi-picture JPEG the first frame is read whatever their number, which their headers do not say.

    Raises
    ------
    OptionError
        If a value is not a number of at least 1.
    """

    input_bytes: int = 128 << 20
    pixels: int = 178_956_970
    encoded_bytes: int = 512 << 20
    decoded_bytes: int = 715_827_880
    images: int = 256
    aspect_ratio: int | float = 4096
    frames: int = 4096

    def __post_init__(self) -> None:
        """Refuse what is not a number, or would refuse every image."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            kinds: tuple[type, ...] = (int, float) if name == "aspect_ratio" else (int,)
            if type(value) not in kinds or not value >= 1:
                raise OptionError(f"Limits.{name} must be {_kind(name)} of at least 1")

    @classmethod
    def default(cls, environment: Mapping[str, str] | None = None, **fields: int | float) -> Self:
        """Return the limits of a request that anyone may send, with what the environment overrides.

        Parameters
        ----------
        environment : mapping, optional
            ``os.environ`` by default.
        **fields
            Limits that neither the default nor the environment decides.

        Raises
        ------
        OptionError
            If a variable or field is not a number of at least 1, or there is no such field.
        """
        return cls._layered({}, environment, fields)

    @classmethod
    def for_batches(cls, environment: Mapping[str, str] | None = None, **fields: int | float) -> Self:
        """Return the limits of a call over images of one's own, with what the environment overrides.

        Bytes, pixels and frames of an image are limited as in a request. For parameters and errors see
        `Limits.default`.
        """
        return cls._layered(_FOR_BATCHES, environment, fields)

    @classmethod
    def _layered(
        cls, base: Mapping[str, Any], environment: Mapping[str, str] | None, fields: Mapping[str, Any]
    ) -> Self:
        for name in fields:
            if name not in cls.__struct_fields__:
                raise OptionError(f"Limits has no {name[:40]!r}; it has {', '.join(cls.__struct_fields__)}")
        return cls(**{**base, **_overrides(os.environ if environment is None else environment), **fields})

    def check_bytes(self, count: int) -> None:
        """Refuse an encoded image of too many bytes.

        Raises
        ------
        MediaTooLarge
        """
        if count > self.input_bytes:
            raise MediaTooLarge(f"the encoded image has {count} bytes, {self._above('input_bytes')}")

    def check_pixels(self, height: int, width: int) -> None:
        """Refuse an image of too many pixels.

        Raises
        ------
        MediaTooLarge
        """
        if height * width > self.pixels:
            size = f"{height}x{width}, height x width"
            raise MediaTooLarge(f"the image has {height * width} pixels ({size}), {self._above('pixels')}")

    def check_size(self, size: Size) -> None:
        """Refuse an image of too many pixels, or too long a strip.

        Raises
        ------
        MediaTooLarge
        ImageSizeError
        """
        height, width = size
        if height * width > self.pixels:
            self.check_pixels(height, width)
        if height > width * self.aspect_ratio or width > height * self.aspect_ratio:
            ratio = max(height, width) / min(height, width)
            raise ImageSizeError(
                f"{size} (height x width): aspect ratio {ratio:.6g} exceeds {self.aspect_ratio} (Limits.aspect_ratio)"
            )

    def check_frames(self, count: int) -> None:
        """Refuse an animation of too many frames.

        Raises
        ------
        MediaTooLarge
        """
        if count > self.frames:
            raise MediaTooLarge(f"the image has {count} frames, {self._above('frames')}")

    def check_images(self, count: int) -> None:
        """Refuse a request of too many images.

        Raises
        ------
        MediaTooLarge
        """
        if count > self.images:
            raise MediaTooLarge(f"there are {count} images, {self._above('images')}")

    def check_encoded(self, count: int) -> None:
        """Refuse encoded images of too many bytes together, all images up to one of them.

        Raises
        ------
        MediaTooLarge
        """
        if count > self.encoded_bytes:
            raise MediaTooLarge(
                f"it and the images before it have {count} encoded bytes, {self._above('encoded_bytes')}"
            )

    def check_decoded(self, count: int) -> None:
        """Refuse images that would take too many bytes together, all images up to one of them.

        Raises
        ------
        MediaTooLarge
        """
        if count > self.decoded_bytes:
            raise MediaTooLarge(
                f"it and the images before it take {count} bytes when decoded, {self._above('decoded_bytes')}"
            )

    def _above(self, name: str) -> str:
        return f"more than the limit of {getattr(self, name)} (Limits.{name})"


_VARIABLES = {
    "input_bytes": "FOVEAL_MAX_INPUT_BYTES",
    "pixels": "FOVEAL_MAX_PIXELS",
    "encoded_bytes": "FOVEAL_MAX_ENCODED_BYTES",
    "decoded_bytes": "FOVEAL_MAX_DECODED_BYTES",
    "images": "FOVEAL_MAX_IMAGES",
    "aspect_ratio": "FOVEAL_MAX_ASPECT_RATIO",
    "frames": "FOVEAL_MAX_FRAMES",
}


def _overrides(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the limits that the environment names; an empty variable is none."""
    found = ((name, variable, environment.get(variable)) for name, variable in _VARIABLES.items())
    return {name: _number(name, variable, text.strip()) for name, variable, text in found if text}


def _number(name: str, variable: str, text: str) -> int | float:
    form = _DECIMAL if name == "aspect_ratio" else _WHOLE
    if not form.fullmatch(text) or float(text) < 1:
        shown = "".join(character if character.isprintable() else "?" for character in text[:40])
        raise OptionError(f"{variable} is {shown!r}: it must be {_kind(name)} of at least 1, in digits")
    return float(text) if "." in text else int(text)


def _kind(name: str) -> str:
    return "a number" if name == "aspect_ratio" else "a whole number"


def checked_limits(limits: object) -> Limits:
    """Return limits that a caller gave.

    Raises
    ------
    OptionError
        If they are something else.
    """
    if not isinstance(limits, Limits):
        raise OptionError(
            f"limits must be a foveal.Limits, as Limits.for_batches(images=4), not a {type(limits).__name__[:40]}"
        )
    return limits
