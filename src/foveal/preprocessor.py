"""One call for people: images in, the model's tensors out."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, SupportsIndex, overload

import numpy.typing as npt

from foveal.errors import FovealError, OptionError
from foveal.image_cache import ImageCache
from foveal.intermediate import Intermediate, make_intermediate
from foveal.media.limits import Limits, checked_limits
from foveal.media.policy import DecodePolicy, decode_policy
from foveal.media.urls import FetchSettings
from foveal.plan.batch import make_batch_plan
from foveal.plan.make import make_plan, primary_dtype
from foveal.plan.plan import BatchPlan, Normalization, Plan
from foveal.plan.tensors import batch_tensors
from foveal.plan.views import Sample, normalization
from foveal.request import Item, by_sample, decoded, fetched, fetched_async, open_items
from foveal.spec import Checkpoint, Spec, load, match, plain_layer, read_checkpoint, resolve
from foveal.timings import stage, timed
from foveal.tokens import Encode
from foveal.types import PRIMARY_DTYPES, dtype_name

if TYPE_CHECKING:
    from foveal.media.fetch import Fetcher

__all__ = ["Features", "Preprocessor"]

PLANS_KEPT = 4096
OVERRIDES_KEPT = 64

_MADE_WITH = ("fetch", "limits", "policy", "reference")


class _Definition(NamedTuple):
    """What a preprocessor was made of: the arguments of its constructor."""

    raw: Mapping[str, Any]
    checkpoint: Checkpoint | None
    reference: str
    overrides: tuple[Mapping[str, Any], ...]
    policy: DecodePolicy
    limits: Limits
    call: Mapping[str, Any] | None
    fetch: FetchSettings | None


class Features(dict[str, npt.NDArray[Any]]):
    """Tensors of a call by their HuggingFace name, the primary tensor first.

    Attributes
    ----------
    batch : BatchPlan
        What was computed; ``plans`` has one entry for each image.
    errors : dict of FovealError
        Of the images that were left out, by index, where the call was told to return them.
    """

    def __init__(
        self,
        tensors: Mapping[str, npt.NDArray[Any]],
        batch: BatchPlan,
        errors: Mapping[int, FovealError] | None = None,
    ) -> None:
        super().__init__(tensors)
        self.batch = batch
        self.errors = dict(sorted(errors.items())) if errors else {}

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each image, in the order of the images."""
        return self.batch.plans


class Preprocessor:
    """Turns images into what one model's encoder expects.

    Make one with :meth:`from_spec` or :meth:`from_pretrained`. It may be shared by threads and sent to processes.

    Attributes
    ----------
    spec : Spec
        The model's rules with every number filled in.
    name : str
        Name of the spec.
    reference : str
        Whose pixel values are reproduced: torchvision, pillow (13 and later) or pillow<13.
    policy : DecodePolicy
        What is done with orientation, transparency, depth, frames and damage.
    limits : Limits
        What an image, and the images of a call together, may cost.
    fetch : FetchSettings, optional
        Where images of URLs may come from; None asks the environment in each call.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        checkpoint: Checkpoint | None = None,
        reference: str | None = None,
        overrides: Sequence[Mapping[str, Any]] = (),
        policy: DecodePolicy | str | None = None,
        limits: Limits | None = None,
        call: Mapping[str, Any] | None = None,
        fetch: FetchSettings | None = None,
    ) -> None:
        self.spec: Spec = resolve(raw, checkpoint, overrides, reference, call)
        self.policy = decode_policy(policy)
        self.limits = Limits.for_batches() if limits is None else checked_limits(limits)
        if not isinstance(fetch, FetchSettings | None):
            raise OptionError("fetch must be a FetchSettings")
        self.fetch = fetch
        self.name = self.spec.name
        self.reference = self.spec.reference
        self.normalization = normalization(self.spec)
        given = (raw, checkpoint, self.spec.reference, tuple(overrides), self.policy, self.limits, call, fetch)
        self._definition = _Definition(*given)
        self._plan = lru_cache(maxsize=PLANS_KEPT)(partial(make_plan, self.spec))
        self._batch_of_one = lru_cache(maxsize=PLANS_KEPT)(self._made_batch_of_one)
        self._with = lru_cache(maxsize=OVERRIDES_KEPT)(self._derived)

    @classmethod
    def from_spec(
        cls,
        spec: str | PathLike[str],
        reference: str | None = None,
        *,
        policy: DecodePolicy | str | None = None,
        limits: Limits | None = None,
        fetch: FetchSettings | None = None,
        **overrides: Any,
    ) -> Self:
        """Make a preprocessor from a spec's name or file, or a model's id on the Hub, with the published numbers.

        Parameters
        ----------
        spec : str or path
            A name that ``foveal models`` lists, the path of a ``.yaml`` file, or ``organization/model``.
        reference : str, optional
            ``torchvision``, ``pillow`` or ``pillow<13``; the spec's own default if not given.
        policy : DecodePolicy or str, optional
            A policy, or the name of a preset: huggingface, huggingface-path, vllm, sglang or smg.
        limits : Limits, optional
            `Limits.for_batches` if not given.
        fetch : FetchSettings, optional
            `FetchSettings.default` in each call if not given.
        **overrides
            Fields of the model's image processor, as ``min_pixels``, ``size`` or ``do_resize``.

        Raises
        ------
        UnknownModelError
            If no spec has that name.
        SpecError
            If the file is not a valid spec.
        OptionError
            If an override or the reference is unknown or cannot be honoured.
        """
        return cls(load(spec), None, reference, _layers(overrides), policy, limits, None, fetch)

    @classmethod
    def from_pretrained(
        cls,
        directory: str | PathLike[str],
        reference: str | None = None,
        *,
        policy: DecodePolicy | str | None = None,
        limits: Limits | None = None,
        fetch: FetchSettings | None = None,
        **overrides: Any,
    ) -> Self:
        """Make a preprocessor from a checkpoint directory; the checkpoint's numbers win over the published ones.

        Reads ``config.json``, ``preprocessor_config.json`` and ``processor_config.json``.

        Parameters
        ----------
        directory : path
            Or the id of a model, ``organization/model``, that is in the Hub's local cache. Nothing is downloaded.
        reference, policy, limits, fetch, **overrides
            As for :meth:`from_spec`.

        Raises
        ------
        UnknownModelError
            If no spec, or more than one, fits the checkpoint.
        SpecError
            If a file cannot be read, or holds a field that changes pixels and that the spec does not know.
        OptionError
            If an override or the reference is unknown or cannot be honoured.
        """
        checkpoint = read_checkpoint(directory)
        return cls(load(match(checkpoint)), checkpoint, reference, _layers(overrides), policy, limits, None, fetch)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._definition)

    def __repr__(self) -> str:
        return f"<Preprocessor {self.name}, {self.reference}, {self.dtype}>"

    @property
    def dtype(self) -> str:
        """Default dtype of the primary tensor."""
        return primary_dtype(self.spec)

    @overload
    def plan(self, images: SupportsIndex, width: SupportsIndex, /, **overrides: Any) -> Plan: ...
    @overload
    def plan(
        self,
        images: object,
        /,
        *,
        input_data_format: str | None = None,
        value_range: Sequence[float] | None = None,
        **overrides: Any,
    ) -> BatchPlan: ...
    def plan(
        self,
        images: Any,
        width: SupportsIndex | None = None,
        /,
        *,
        input_data_format: str | None = None,
        value_range: Sequence[float] | None = None,
        **overrides: Any,
    ) -> Plan | BatchPlan:
        """Plan one image from its height and width, or images from their headers. No pixel is decoded.

        Parameters
        ----------
        images : int or images
            The height, with ``width`` as the second argument; or what a call takes.
        input_data_format, value_range, **overrides
            As for a call.

        Returns
        -------
        Plan or BatchPlan

        Raises
        ------
        ImageSizeError
            If the model's rule refuses the size.
        MediaError
            If an image cannot be opened; the text starts with its index.
        OptionError
            If an override is unknown or cannot be honoured.
        """
        if overrides:
            other: Any = self._changed(None, overrides)
            planned: Plan | BatchPlan = other.plan(
                images, width, input_data_format=input_data_format, value_range=value_range
            )
            return planned
        if width is None:
            samples = fetched(by_sample(images, self.spec.image.batch.flat_list), self.limits, None, self.fetch)
            return self._batch(samples, self._opened(samples, input_data_format, value_range))
        try:
            return self._plan(index(images), index(width))
        except TypeError:
            raise OptionError("plan takes a height and a width as whole numbers, or images") from None

    def __call__(
        self,
        images: object,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        *,
        threads: int | None = None,
        input_data_format: str | None = None,
        value_range: Sequence[float] | None = None,
        on_error: Literal["raise", "return"] = "raise",
        **overrides: Any,
    ) -> Features:
        """Preprocess images.

        Parameters
        ----------
        images : image, list of images, or list of lists
            A list of lists has one list for each sample, which some models read as a whole. An image is a path, a
            ``data:``, ``http:``, ``https:`` or ``file:`` URL, encoded bytes, a binary file, a ``PIL.Image.Image`` or a
            uint8 array (height, width) or (height, width, 1, 3 or 4).
        dtype : str or dtype, optional
            Of the primary tensor: float32, bfloat16, float16 or uint8 (bytes before normalization); the model's by
            default.
        out : ndarray, optional
            C-contiguous array that the primary tensor is written into. Best aligned to 64 bytes: `aligned_empty`.
        threads : int, optional
            Threads to use at most; all that are available by default.
        input_data_format : str, optional
            ``channels_first`` for arrays (channels, height, width).
        value_range : pair, optional
            Range of the values of floating-point arrays, (0, 1) or (0, 255).
        on_error : {"raise", "return"}
            What becomes of an image that cannot be read or that the model refuses: the call fails, or the image is
            left out and its error is in ``errors`` of the result, by the image's index. The first error is raised where
            no image is left; what is wrong with the call, or with all images together, is raised all the same.
        **overrides
            Fields of the model's image processor for this call only.

        Returns
        -------
        Features
            Arrays by HuggingFace's names, with HuggingFace's shapes and dtypes.

        Raises
        ------
        MediaError
            If an image cannot be read; the text starts with its index.
        ImageSizeError
            If the model's rule refuses an image's size.
        OptionError
            If an override or option is unknown or cannot be honoured.
        OutputError
            If ``out`` does not fit.
        """
        if overrides:
            options: dict[str, Any] = {"input_data_format": input_data_format, "value_range": value_range}
            return self._changed(None, overrides)(images, dtype, out, threads=threads, on_error=on_error, **options)
        if on_error not in ("raise", "return"):
            raise OptionError("on_error must be 'raise' or 'return'")
        failed: dict[int, FovealError] | None = {} if on_error == "return" else None
        name = _primary_dtype(dtype, self.dtype)
        grouped = by_sample(images, self.spec.image.batch.flat_list)
        with timed("preprocess", sum(map(len, grouped))):
            samples = fetched(grouped, self.limits, failed, self.fetch)
            from foveal.run.execute import run_batch  # imports Numba, which plans do not need

            with stage("apply_hf_processor"):
                items = self._opened(samples, input_data_format, value_range, dtype=name, failed=failed)
                load, decodes = [item.pixels for item in items], [item.source.decodes for item in items]
                if failed is not None:
                    with stage("decode"):
                        left = decoded(items, failed, threads)
                    items, load = [one.item for one in left], [one.pixels for one in left]
                    decodes = [one.item.source.decodes and one.held is None for one in left]
                batch = self._batch(samples, items, failed)
                primary = run_batch(batch, self.normalization, load, name, out, threads, decodes=decodes)
                with stage("small_tensors"):
                    others = batch_tensors(self.spec, batch)
        return Features({batch.primary: primary, **others}, batch, failed or {})

    def process(
        self,
        input_ids: npt.ArrayLike,
        images: object = (),
        *,
        policy: DecodePolicy | str | None = None,
        encode: Encode | None = None,
        max_images: int | None = None,
        cache: ImageCache | None = None,
        **overrides: Any,
    ) -> Intermediate:
        """Prepare a prompt and its images for a backend that is chosen later. No pixel is decoded.

        URLs are fetched, headers are read, images are planned and hashed, and the prompt is expanded.
        `foveal.assemble` makes the request of it.

        Parameters
        ----------
        input_ids : array_like of int
            The prompt, with one placeholder for each image.
        images : image, list of images, or chat content
            In the order of their placeholders. Chat content is the ``messages`` of OpenAI's chat API, or the content
            parts of one of them.
        policy : DecodePolicy or str, optional
            In the place of the preprocessor's own.
        encode : callable, optional
            The model's tokenizer, from text to ids: special tokens in the text recognized and none added. Needed only
            where the spec lacks ids.
        max_images : int, optional
            Of the prompt, in the place of the number that engines take of the model by default.
        cache : ImageCache, optional
            Where `foveal.assemble` looks for images that were prepared before, and keeps others. None by default.
        **overrides
            Fields of the model's image processor for this request only.

        Returns
        -------
        Intermediate

        Raises
        ------
        MediaError
            If an image cannot be had; the text starts with its index.
        MediaTooLarge
            If there are more images than the model takes, or they are above a limit.
        ImageSizeError
            If the model's rule refuses an image's size.
        PlaceholderError
            If the placeholders do not fit the images.
        RequestError
            If chat content holds what is no image and no text.
        OptionError
            If an override or the policy is unknown, or the model's spec does not say what an image becomes in a prompt.
        """
        chosen = self._changed(policy, overrides)
        grouped = chosen._prompt_images(images)
        with timed("process", sum(map(len, grouped))):
            samples = fetched(grouped, chosen.limits, None, chosen.fetch)
            return chosen._intermediate(input_ids, samples, encode, max_images, cache)

    async def process_async(
        self,
        input_ids: npt.ArrayLike,
        images: object = (),
        *,
        policy: DecodePolicy | str | None = None,
        encode: Encode | None = None,
        max_images: int | None = None,
        fetcher: "Fetcher | None" = None,
        cache: ImageCache | None = None,
        **overrides: Any,
    ) -> Intermediate:
        """Do what `process` does, while the event loop goes on: waiting in it, computing on a thread.

        Parameters
        ----------
        input_ids, images, policy, encode, max_images, cache, **overrides
            As for `process`, which see for errors too.
        fetcher : foveal.media.fetch.Fetcher, optional
            Whose settings and connections are used for URLs; one of this call if not given.
        """
        chosen = self._changed(policy, overrides)
        grouped = chosen._prompt_images(images)
        with timed("process", sum(map(len, grouped))):
            samples = await fetched_async(grouped, chosen.limits, fetcher, chosen.fetch)
            from asyncio import to_thread

            return await to_thread(chosen._intermediate, input_ids, samples, encode, max_images, cache)

    def warmup(self, dtype: npt.DTypeLike | None = None, progress: Callable[[str], object] | None = None) -> None:
        """Compile all kernels that calls of this preprocessor can need, or load them from the cache.

        Parameters
        ----------
        dtype : str or dtype, optional
            Of the primary tensor; the model's by default.
        progress : callable, optional
            Called with the name of what is compiled next.

        Raises
        ------
        OptionError
            If the dtype is not one that the kernels write.
        """
        from foveal.run.warmup import warmup_steps

        sizes: list[tuple[int, int, Sample]] = [
            (480, 640, "one_image"),
            (640, 480, "one_image"),
            (480, 640, "many_images"),
        ]
        plans, name = [self._plan(*size) for size in sizes], _primary_dtype(dtype, self.dtype)
        for step in warmup_steps(plans, self.normalization, name, self.policy.backdrop):
            if progress:
                progress(step)

    def _opened(
        self,
        samples: Sequence[Sequence[object]],
        input_data_format: str | None = None,
        value_range: Sequence[float] | None = None,
        **options: Any,
    ) -> list[Item]:
        common: dict[str, Any] = {"limits": self.limits, "policy": self.policy, "spec": self.spec}
        with stage("plan"):
            return open_items(samples, self._plan, input_data_format, value_range, **common, **options)

    def _prompt_images(self, images: object) -> list[list[object]]:
        """Return the images of one prompt by sample, as the reference takes a list."""
        if isinstance(images, list | tuple):
            if any(isinstance(entry, Mapping) for entry in images):
                from foveal.chat import image_urls

                images = list(image_urls(images))
            if any(isinstance(entry, list | tuple) for entry in images):
                raise OptionError("a prompt has a list of images, not lists of them")
            if not images:
                return []
        return by_sample(images, self.spec.image.batch.flat_list)

    def _intermediate(
        self,
        input_ids: npt.ArrayLike,
        samples: Sequence[Sequence[object]],
        encode: Encode | None,
        max_images: int | None,
        cache: ImageCache | None,
    ) -> Intermediate:
        with stage("apply_hf_processor"):
            items = self._opened(samples)
        numbers = self.normalization, self._published
        return make_intermediate(self.spec, *numbers, input_ids, items, encode, max_images, cache)

    @cached_property
    def _published(self) -> Normalization:
        """The normalization of the checkpoint, without overrides."""
        made = self._definition
        if not made.overrides and not made.call:
            return self.normalization
        return normalization(resolve(made.raw, made.checkpoint, (), made.reference))

    def _batch(
        self,
        samples: Sequence[Sequence[object]],
        items: Sequence[Item],
        failed: Mapping[int, FovealError] | None = None,
    ) -> BatchPlan:
        """Return the plan of the images that are there; the first error where there is none."""
        if failed and not items:
            raise failed[min(failed)]
        if len(items) == 1 and len(samples) == 1 and not failed:
            return self._batch_of_one(items[0].plan.height, items[0].plan.width)
        starts = accumulate(map(len, samples), initial=0)
        counts = tuple(len(sample) for sample in samples)
        if failed:
            counts = tuple(
                sum(start <= item.index < start + count for item in items)
                for start, count in zip(starts, counts, strict=False)
            )
        return make_batch_plan(self.spec, tuple(item.plan for item in items), counts, [item.index for item in items])

    def _made_batch_of_one(self, height: int, width: int) -> BatchPlan:
        return make_batch_plan(self.spec, [self._plan(height, width, "one_image")])

    def _changed(self, policy: DecodePolicy | str | None, overrides: Mapping[str, Any]) -> "Preprocessor":
        """Return a preprocessor with another policy and with fields of one call; itself where nothing changes."""
        for name in _MADE_WITH:
            if name in overrides:
                raise OptionError(f"{name!r} belongs to the preprocessor, not to a call: from_spec(..., {name}=)")
        if policy is None and not overrides:
            return self
        chosen = self.policy if policy is None else decode_policy(policy)
        return self._with(json.dumps(plain_layer(overrides), sort_keys=True), chosen)

    def _derived(self, key: str, policy: DecodePolicy) -> "Preprocessor":
        call = json.loads(key) or self._definition.call
        return Preprocessor(*self._definition._replace(policy=policy, call=call))


def _layers(overrides: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return (plain_layer(overrides),) if overrides else ()


def _primary_dtype(dtype: npt.DTypeLike | None, default: str) -> str:
    try:
        name = default if dtype is None else dtype_name(dtype)
    except TypeError:
        name = "unknown"
    if name not in PRIMARY_DTYPES:
        raise OptionError(f"dtype is {name[:40]!r}: it must be one of {', '.join(PRIMARY_DTYPES)}")
    return name
