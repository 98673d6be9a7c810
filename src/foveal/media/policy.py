"""What is done with an image beyond decoding it: orientation, transparency, depth, frames, damage, formats.

A policy changes an image's size, its pixels, and so its identity. It is one frozen value that is fixed before a backend
is chosen. The presets are named for the stacks that they reproduce; where a stack does what no policy can say, that is
written beside its preset.
"""

from functools import cache
from typing import Annotated, Any, Literal, Self, get_type_hints

import msgspec

from foveal.errors import OptionError
from foveal.media.fields import field_value
from foveal.media.header import FORMATS
from foveal.media.pixels import Backdrop

__all__ = ["DEFAULT", "PRESETS", "DecodePolicy", "decode_policy"]

Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]


class DecodePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an image becomes RGB bytes.

    ``orientation``, ``frame``, ``truncated`` and ``formats`` are of encoded images (bytes, paths, URLs). Pillow images
    and arrays are taken as they are; what they hold of transparency and depth is treated alike.

    Attributes
    ----------
    orientation : {"apply", "ignore"}
        Whether an image is turned as its metadata ask. Malformed metadata ask for what Pillow makes of them, or for
        nothing where it raises. TIFF is always turned: Pillow does that when it loads one.
    transparency : {"composite", "drop", "chessboard"}
        Whether transparent pixels are composited on ``background``, keep the colours that are stored beneath, or are
        composited on a chessboard of two greys.
    background : tuple of int
        Red, green, blue.
    square : int
        Side of a field of the chessboard in pixels.
    light, dark : int
        Its greys. The field in the top left corner is light.
    stage : {"before_resize", "after_resize"}
        When transparent pixels are composited. After a resize for which colours were weighted by their alpha, as Pillow
        resizes RGBA; the chessboard's squares are then pixels of the resized picture.
    rounding : {"nearest", "down"}
        What becomes of the fraction when a transparent pixel is composited. ``down`` is a float32 blend that is cut
        off, which is one level darker for about half of all values.
    color_key : {"apply", "ignore"}
        Whether the one colour that a truecolour PNG can declare transparent (its tRNS chunk) is.
    depth : {"clip", "high_byte", "nearest"}
        What becomes of grey images of 16 bits: values above 255 are 255, as Pillow converts them; the upper 8 bits; or
        255/65535 of the value, rounded. Of colours Pillow decodes the upper 8 bits; of floating-point images there is
        only ``clip``.
    frame : int
        Of an animation, or of a file of several pages or pictures, from 0. Of a HEIF, 0 is its primary picture.
    truncated : {"refuse", "accept"}
        Whether an image whose file ends early is an error, or has grey (JPEG) or black rows where none were read, as
        with ``PIL.ImageFile.LOAD_TRUNCATED_IMAGES``. A process that sets that flag accepts them in any case.
    formats : tuple of str
        Those that are read, of `foveal.media.header.FORMATS`.

    Raises
    ------
    OptionError
        If a value is none of these.

    Examples
    --------
    What Kimi-K3's own processor does with a transparent image, as its configuration says:

    >>> kimi_k3 = DecodePolicy(transparency="chessboard", square=8, dark=180, stage="after_resize", rounding="down")
    >>> decode_policy("vllm").replace(background=(0, 0, 0)).background
    (0, 0, 0)
    """

    orientation: Literal["apply", "ignore"] = "apply"
    transparency: Literal["composite", "drop", "chessboard"] = "composite"
    background: tuple[Byte, Byte, Byte] = (255, 255, 255)
    square: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 16
    light: Byte = 255
    dark: Byte = 200
    stage: Literal["before_resize", "after_resize"] = "before_resize"
    rounding: Literal["nearest", "down"] = "nearest"
    color_key: Literal["apply", "ignore"] = "apply"
    depth: Literal["clip", "high_byte", "nearest"] = "clip"
    frame: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0
    truncated: Literal["refuse", "accept"] = "refuse"
    formats: tuple[str, ...] = FORMATS

    def __post_init__(self) -> None:
        """Check every value; lists become tuples, and formats are named once each, in one order."""
        for name, kind in _kinds().items():
            value = field_value(f"DecodePolicy.{name}", getattr(self, name), kind)
            msgspec.structs.force_setattr(self, name, value)
        msgspec.structs.force_setattr(self, "formats", _known(self.formats))

    def replace(self, **changes: Any) -> Self:
        """Return the policy with some values changed.

        Raises
        ------
        OptionError
            If there is no such value, or it cannot be so.
        """
        for name in changes:
            if name not in self.__struct_fields__:
                raise OptionError(f"DecodePolicy has no {name[:40]!r}; it has {', '.join(self.__struct_fields__)}")
        return msgspec.structs.replace(self, **changes)

    @property
    def backdrop(self) -> Backdrop:
        """What transparent pixels are composited on, as the kernels are told."""
        later, cut = self.stage == "after_resize", self.rounding == "down"
        if self.transparency == "chessboard":
            light, dark = ((grey, grey, grey) for grey in (self.light, self.dark))
            return Backdrop(light, dark, self.square, later, cut)
        return Backdrop(self.background, self.background, 1, later, cut)

    @property
    def identity(self) -> bytes:
        """What of the policy can change an image's size or pixels, as JSON of one form: for content identities.

        ``formats`` is left out: it only decides what is refused.
        """
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name != "formats"}
        return msgspec.json.encode(values, order="deterministic")


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(DecodePolicy, include_extras=True)


def _known(formats: tuple[str, ...]) -> tuple[str, ...]:
    for name in formats:
        if name not in FORMATS:
            raise OptionError(f"DecodePolicy.formats: {name[:40]!r} is not one of {', '.join(FORMATS)}")
    if not formats:
        raise OptionError("DecodePolicy.formats names none, so that no encoded image could be read")
    return tuple(name for name in FORMATS if name in formats)


def _without(*formats: str) -> tuple[str, ...]:
    return tuple(name for name in FORMATS if name not in formats)


DEFAULT = DecodePolicy()
"""The library's own: encoded images upright, transparent pixels on white."""

PRESETS: dict[str, DecodePolicy] = {
    # A Pillow image, or a file opened as one, given to an image processor.
    # Source: transformers 5.24.0, image_transforms.py, convert_to_rgb.
    "huggingface": DecodePolicy(orientation="ignore"),
    # A path given to an image processor of the torchvision backend. What it does and no policy can say: 16-bit PNG is
    # left at 0..65535 and scaled as if it were 0..255; an animated GIF becomes one image for each frame, and a GIF's
    # transparent pixels are what its background is; the orientation of WebP, and one that only XMP states, is ignored;
    # of odd EXIF it reads the first 16 bits where the value stands, whatever its type and count, behind one prefix and
    # the number 42 in the block's byte order, while Pillow reads values by their types and takes other numbers too.
    # Source: transformers 5.24.0, image_utils.py, load_image_as_tensor; torchvision 0.29.1, io/image.py, decode_image.
    "huggingface-path": DecodePolicy(transparency="drop", formats=("JPEG", "PNG", "WEBP", "GIF")),
    # An image in a request. Not said here: it accepts truncated JPEG 2000, and some PNG and GIF with damaged data, as
    # the load that fails while it looks for the orientation is followed by one that does not.
    # Source: vllm 0.33.0, multimodal/image.py and multimodal/media/image.py.
    "vllm": DecodePolicy(formats=_without("HEIF")),
    # An image in a request to any model but GLM-4V, whose background depends on the picture, and Kimi-K3, decoded by
    # Pillow; GPUs decode JPEG to other pixels.
    # Source: sglang 0.5.23, srt/utils/common.py, _load_image; srt/multimodal/processors/base_processor.py,
    # _load_single_item; transformers 5.19.0, which it pins, image_transforms.py, convert_to_rgb.
    "sglang": DecodePolicy(orientation="ignore", transparency="drop"),
    # An image in a request that goes to vLLM; before SGLang it drops alpha, and all else is the same. Not said here:
    # it accepts truncated JPEG (and nothing else that is truncated), decoding it to pixels of its own; of a grey PNG of
    # 16 bits with a tRNS chunk it keeps the upper bits.
    # Source: smg 1.13.0, observed: 31 files of all modes through the gateway, compared byte for byte.
    "smg": DecodePolicy(color_key="ignore", depth="nearest", formats=_without("AVIF", "JPEG2000", "HEIF")),
}
"""By the name of the stack that each reproduces."""


def decode_policy(policy: str | DecodePolicy | None) -> DecodePolicy:
    """Return a policy: one by its preset's name, the default for None.

    Raises
    ------
    OptionError
        If there is no such preset.
    """
    if policy is None:
        return DEFAULT
    if isinstance(policy, DecodePolicy):
        return policy
    found = PRESETS.get(policy) if isinstance(policy, str) else None
    if found is None:
        shown = repr(policy) if isinstance(policy, str) and len(policy) <= 40 else f"a {type(policy).__name__[:40]}"
        raise OptionError(f"policy must be one of {', '.join(PRESETS)}, or a DecodePolicy, not {shown}")
    return found
