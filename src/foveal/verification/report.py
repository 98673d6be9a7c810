"""What a certificate says, as plain values; ``docs/verify.md`` describes its JSON."""

from typing import Any, Literal

import msgspec

__all__ = ["SCHEMA", "ImageReport", "Outcome", "Report", "TensorReport"]

SCHEMA = 1
"""Changes when a field changes its meaning or goes; new fields may come at any time."""

Outcome = Literal["equal", "both_refuse", "different", "unreadable"]


class TensorReport(msgspec.Struct, frozen=True):
    """One tensor of a call, by its name.

    Attributes
    ----------
    name : str
    dtype, reference_dtype : str or None
        Of Foveal's tensor and of the reference's; None where one of them has no such tensor.
    shape, reference_shape : tuple of int or None
    differing : int or None
        Values whose bits differ; None where the shapes do.
    greatest : float or None
        Greatest absolute difference of two values; None where the shapes differ or the difference is not finite.
    levels : float or None
        The same in levels: one is what a step of one byte in that channel becomes by normalization. Of the tensor that
        holds the pixels alone.
    """

    name: str
    dtype: str | None
    reference_dtype: str | None
    shape: tuple[int, ...] | None
    reference_shape: tuple[int, ...] | None
    differing: int | None
    greatest: float | None
    levels: float | None

    @property
    def alike(self) -> bool:
        """Whether both sides have the tensor, in one shape and dtype."""
        return self.shape is not None and (self.shape, self.dtype) == (self.reference_shape, self.reference_dtype)

    @property
    def equal(self) -> bool:
        """Whether both sides have the same bits."""
        return self.alike and self.differing == 0


class ImageReport(msgspec.Struct, frozen=True):
    """What came of one image, or of several in one call.

    Attributes
    ----------
    image : str
        Path, or description of a picture drawn for the purpose.
    height, width : int or None
        None for several images, and for one that cannot be read.
    mode : str or None
        Pillow's mode.
    outcome : str
        ``equal``, ``both_refuse``, ``different`` or ``unreadable``.
    grids_equal : bool or None
        Whether all small tensors beside the pixels are equal; None where the model has none.
    tensors_alike : bool or None
        Whether names, shapes and dtypes are equal; None where a side refuses.
    tokens, reference_tokens : int or None
        Feature tokens in the prompt; None where there are none, or where the reference has no way to count them.
    tokens_equal : bool or None
    values : int
        Number of values compared.
    differing : int or None
        How many of them differ; None where shapes do.
    levels : float or None
        Greatest difference of two pixel values, in levels; None where shapes differ or it is not finite.
    refusal, reference_refusal : str or None
        The errors.
    tensors : tuple of TensorReport
    """

    image: str
    height: int | None
    width: int | None
    mode: str | None
    outcome: Outcome
    grids_equal: bool | None = None
    tensors_alike: bool | None = None
    tokens: int | None = None
    reference_tokens: int | None = None
    tokens_equal: bool | None = None
    values: int = 0
    differing: int | None = None
    levels: float | None = None
    refusal: str | None = None
    reference_refusal: str | None = None
    tensors: tuple[TensorReport, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """The parity certificate of one model on this machine.

    Attributes
    ----------
    schema : int
    equal : bool
        Whether no image, and not the batch either, is different, and all could be read.
    model : str
        As it was named.
    spec : str
    checkpoint : str or None
        The directory.
    overrides : dict
    reference : str
        ``torchvision``, ``pillow`` or ``pillow<13``.
    compared_with : str
        The class of the reference, and the processor around it.
    decode : str
        What both sides were given.
    level : str
        Instruction level of the kernels.
    versions : dict
    notes : tuple of str
        What a reader must know, in words.
    images : tuple of ImageReport
    batch : ImageReport or None
        Some of the images in one call; None where fewer than two can be compared.
    """

    equal: bool
    model: str
    spec: str
    checkpoint: str | None
    overrides: dict[str, Any]
    reference: str
    compared_with: str
    decode: str
    level: str
    versions: dict[str, str | None]
    notes: tuple[str, ...]
    images: tuple[ImageReport, ...]
    batch: ImageReport | None = None
    schema: int = SCHEMA

    def with_outcome(self, outcome: Outcome) -> tuple[ImageReport, ...]:
        """Return the images, and the batch, of which came this."""
        everything = self.images if self.batch is None else (*self.images, self.batch)
        return tuple(report for report in everything if report.outcome == outcome)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them."""
        tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {"schema": tree.pop("schema"), **tree}
