"""A prompt and its images, ready for whichever backend is chosen: expanded, planned, hashed, and not decoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foveal.errors import MediaTooLarge, OptionError
from foveal.image_cache import ImageCache, Key
from foveal.plan.plan import BatchPlan, Normalization, Plan
from foveal.request import Item
from foveal.spec import Spec
from foveal.timings import stage
from foveal.tokens import Encode, ExpandedIds, expand_ids, token_id

__all__ = ["Intermediate", "make_intermediate"]


@dataclass(frozen=True, slots=True, eq=False)
class Intermediate:
    """A prompt and its images, before a backend is known.

    Attributes
    ----------
    spec : Spec
    normalization : Normalization
    published : Normalization
        That of the checkpoint, which workers that normalize themselves use: without the caller's overrides.
    input_ids : ndarray of int
        The prompt as it was given: one placeholder for each image.
    expanded : ExpandedIds
        The prompt as engines read it, with the ranges of each image.
    feature_id : int, optional
        The id of the token that features of the encoder replace; None where features stand in no prompt.
    items : tuple of Item
        The images, in the order of their placeholders.
    cache : ImageCache, optional
        Where images that were prepared before are looked for, and others are kept.
    """

    spec: Spec
    normalization: Normalization
    published: Normalization
    input_ids: npt.NDArray[Any]
    expanded: ExpandedIds
    feature_id: int | None
    items: tuple[Item, ...]
    cache: ImageCache | None = None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each image."""
        return tuple(item.plan for item in self.items)

    @property
    def identities(self) -> tuple[str, ...]:
        """What each image is to the encoder, 64 hexadecimal digits; equal only where the encoder's input is equal.

        The dtype on the wire is not part of it: a worker gets one alone.
        """
        return tuple(item.identity for item in self.items)

    def checked_identities(self) -> tuple[str, ...]:
        """Return the identities; Pillow images and arrays are hashed again, as their owner may have changed them.

        Raises
        ------
        MediaError
            If one was changed after it had been hashed.
        """
        return tuple(item.checked_identity() for item in self.items)

    def write(
        self,
        batch: BatchPlan,
        dtype: str,
        out: npt.NDArray[Any],
        threads: int | None = None,
        items: Sequence[Item] | None = None,
    ) -> None:
        """Decode images, but for those that the cache has, and write their primary tensor.

        Parameters
        ----------
        batch : BatchPlan
            Of the images.
        dtype : str
            One of `foveal.types.PRIMARY_DTYPES`.
        out : ndarray
            Of the batch's shape and the dtype.
        threads : int, optional
        items : sequence of Item, optional
            The images, all if not given.

        Raises
        ------
        MediaError
            If an image cannot be decoded.
        """
        from foveal.run.execute import run_batch  # imports Numba, which is not needed before

        items = self.items if items is None else items
        load, decodes = [item.pixels for item in items], [item.source.decodes for item in items]
        if self.cache is None:
            with stage("apply_hf_processor"):
                run_batch(batch, self.normalization, load, dtype, out, threads, decodes=decodes)
            return
        identities = [item.checked_identity() for item in items]
        with stage("get_cache_missing_items"):
            keys = [Key(*of_image, dtype) for of_image in zip(identities, batch.plans, strict=True)]
            found = [self.cache.get(key) for key in keys]
        with stage("apply_hf_processor"):
            missing = [long and part is None for long, part in zip(decodes, found, strict=True)]
            run_batch(batch, self.normalization, load, dtype, out, threads, found, missing)
        missed = [place for place, part in enumerate(found) if part is None]
        for place in missed:
            items[place].checked_identity()  # or others would get what this one became
        with stage("merge_mm_kwargs"):
            flat = out.reshape(-1)
            for key, offset in ((keys[place], batch.offsets[place]) for place in missed):
                self.cache.put(key, flat[offset : offset + key.plan.elements])


def make_intermediate(
    spec: Spec,
    normalization: Normalization,
    published: Normalization,
    input_ids: npt.ArrayLike,
    items: Sequence[Item],
    encode: Encode | None = None,
    max_images: int | None = None,
    cache: ImageCache | None = None,
) -> Intermediate:
    """Expand a prompt for images that were opened, and hash those that are encoded.

    Parameters
    ----------
    spec : Spec
    normalization, published : Normalization
    input_ids : array_like of int
    items : sequence of Item
        In the order of their placeholders.
    encode : callable, optional
        The model's tokenizer; see `foveal.tokens.expand_ids`.
    max_images : int, optional
        In the place of the spec's limit.
    cache : ImageCache, optional

    Raises
    ------
    MediaTooLarge
        If there are more images than the spec's limit.
    OptionError
        If the spec does not say what stands in a prompt.
    PlaceholderError
        If the placeholders do not fit the images, or an id is not known.
    """
    tokens, most = spec.tokens, spec.limits.images if max_images is None else max_images
    if tokens is None:
        raise OptionError(f"{spec.name} does not say what an image becomes in a prompt")
    if most is not None and len(items) > most:
        raise MediaTooLarge(f"there are {len(items)} images, more than the limit of {most} ({spec.name})")
    if cache is not None and not isinstance(cache, ImageCache):
        raise OptionError("cache must be an ImageCache")
    with stage("apply_prompt_updates"):
        expanded = expand_ids(tokens, input_ids, [item.plan for item in items], encode)
        feature = None if tokens.feature is None else token_id(tokens, tokens.feature, encode)
    for item in items:
        item.hash()
    ids = np.array(input_ids, expanded.ids.dtype)  # a copy: a caller may use his array again
    return Intermediate(spec, normalization, published, ids, expanded, feature, tuple(items), cache)
