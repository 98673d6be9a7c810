"""Images of a call, opened: the one place that ties headers, plans, identities and lazy pixels together."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

import msgspec

from foveal.errors import FovealError, ImageSizeError, MediaError, OptionError
from foveal.media.costs import PLAIN_BYTES
from foveal.media.digest import framed_digest
from foveal.media.limits import Limits
from foveal.media.pixels import Pixels
from foveal.media.policy import DEFAULT, DecodePolicy
from foveal.media.sources import Kind, Source, open_source
from foveal.media.urls import FetchSettings, url_scheme
from foveal.plan.make import primary_dtype
from foveal.plan.plan import Plan
from foveal.plan.views import Sample
from foveal.run.schedule import run_all, thread_count
from foveal.spec import Spec
from foveal.timings import stage
from foveal.types import PRIMARY_DTYPES

if TYPE_CHECKING:
    from foveal.media.fetch import Fetcher

__all__ = ["Basis", "Decoded", "Item", "by_sample", "decoded", "fetched", "fetched_async", "identity", "open_items"]

Result = TypeVar("Result")

CLIENT_ID_BYTES = 256
"""Of a client's id in UTF-8, at most."""

RECIPES_KEPT = 256

DECODED_BYTES_KEPT = 256 << 20
"""Of images that are decoded to see whether they can be. Those that do not fit are decoded a second time."""

_DIGEST = re.compile("[0-9a-f]{64}")


class Basis(NamedTuple):
    """What, beside an image, decides what the encoder gets for it.

    Attributes
    ----------
    spec : Spec
        With every number filled in, overrides of the call included.
    policy : DecodePolicy
    dtype : str, optional
        Of the primary tensor; the spec's own if not given.
    """

    spec: Spec
    policy: DecodePolicy = DEFAULT
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """An image of a call: its place, what was read from its header, and its plan.

    Attributes
    ----------
    index : int
    source : Source
    plan : Plan
    sample : {"one_image", "many_images"}
        Whether the image's sample has others.
    basis : Basis, optional
        What `identity` needs.
    """

    index: int
    source: Source
    plan: Plan
    sample: Sample = "one_image"
    basis: Basis | None = None
    _kept: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def pixels(self) -> Pixels:
        """Decode; an error names the image."""
        return _named(self.index, self.source.decode)

    @property
    def digest(self) -> str:
        """Digest of the image as it was given, made when it is first asked for; an error names the image."""
        if "digest" not in self._kept:
            self._kept["digest"] = _named(self.index, self.source.digest)
        return self._kept["digest"]

    @property
    def identity(self) -> str:
        """Identity of what the encoder gets, made when it is first asked for; see the function of that name."""
        if "identity" not in self._kept:
            with stage("get_mm_hashes"):
                self._kept["identity"] = self.identify()
        return self._kept["identity"]

    def checked_identity(self) -> str:
        """Return the identity; what is not encoded is hashed again, and must not have changed.

        Raises
        ------
        MediaError
        """
        if self.source.kind != "encoded" and "digest" in self._kept:
            with stage("get_mm_hashes"):
                changed = self._kept["digest"] != self.source.digest()
            if changed:
                raise MediaError(f"image {self.index}: it was changed after it had been hashed")
        return self.identity

    def identify(self, client_id: str | None = None, salt: bytes = b"") -> str:
        """Return the identity together with a client's id; see the function `identity`."""
        if self.basis is None:
            raise OptionError("an identity needs a spec, which open_items was not given")
        return identity(self.digest, self.source.kind, self.basis, self.sample, client_id, salt)


class Decoded(NamedTuple):
    """An image of a call that can be decoded, and its pixels where they were kept."""

    item: Item
    held: Pixels | None

    def pixels(self) -> Pixels:
        """Return the pixels."""
        return self.item.pixels() if self.held is None else self.held


def identity(
    digest: str,
    kind: Kind,
    basis: Basis,
    sample: Sample = "one_image",
    client_id: str | None = None,
    salt: bytes = b"",
) -> str:
    """Return the identity of what the encoder gets for an image: 64 hexadecimal digits.

    Two images share it only if they have the same content, kind, spec, policy and dtype, and, where the spec's views
    depend on it, are alike in having others in their sample. All of it is framed, so that nothing that is chosen for
    one part can pass for another. Ids in the metadata of a file are content, as all else in it.

    Parameters
    ----------
    digest : str
        Of the image as it was given, 64 hexadecimal digits: ``Source.digest()``, as `foveal.media.digest` makes it.
    kind : {"encoded", "pillow", "array"}
        ``Source.kind``.
    basis : Basis
    sample : {"one_image", "many_images"}
    client_id : str, optional
        Of at most 256 bytes in UTF-8. It narrows the identity down, and never stands in the place of the content.
    salt : bytes
        Known to nobody who sends images: tenants with different salts share no identity. A client's id needs one.

    Raises
    ------
    OptionError
        If an argument is none of these, or the client's id is too long, or has no salt.
    """
    _check_identity(digest, kind, basis, sample, salt)
    recipe, by_sample = _recipe(basis)
    fields = [digest.encode(), kind.encode(), recipe, sample.encode() if by_sample else b"", salt]
    if client_id is not None:
        fields.append(_client(client_id, salt))
    return framed_digest("identity 1", fields)


@lru_cache(RECIPES_KEPT)
def _recipe(basis: Basis) -> tuple[bytes, bool]:
    """Return a digest of what is common to the images of many calls, and whether views depend on the sample."""
    spec, policy, dtype = basis
    fields = [msgspec.json.encode(spec), policy.identity, (dtype or primary_dtype(spec)).encode()]
    by_sample = any(view.when in ("one_image", "many_images") for view in spec.image.views)
    return framed_digest("recipe 1", fields).encode(), by_sample


def _check_identity(digest: object, kind: object, basis: object, sample: object, salt: object) -> None:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise OptionError("digest must be 64 hexadecimal digits in lower case, as Source.digest() gives them")
    if kind not in get_args(Kind):
        raise OptionError(f"kind must be {' or '.join(map(repr, get_args(Kind)))}, as Source.kind")
    if not isinstance(basis, Basis) or not isinstance(basis.spec, Spec) or not isinstance(basis.policy, DecodePolicy):
        raise OptionError("basis must be a Basis of a Spec, as Preprocessor.spec, and a DecodePolicy")
    if basis.dtype is not None and basis.dtype not in PRIMARY_DTYPES:
        raise OptionError(f"dtype must be one of {', '.join(PRIMARY_DTYPES)}, by its name")
    if sample not in get_args(Sample):
        raise OptionError(f"sample must be {' or '.join(map(repr, get_args(Sample)))}")
    if not isinstance(salt, bytes):
        raise OptionError("salt must be bytes")


def _client(client_id: str, salt: bytes) -> bytes:
    if not isinstance(client_id, str):
        raise OptionError("client_id must be a str")
    data = client_id.encode(errors="surrogatepass")
    if len(data) > CLIENT_ID_BYTES:
        raise OptionError(f"client_id has {len(data)} bytes, more than the limit of {CLIENT_ID_BYTES}")
    if not salt:
        raise OptionError("client_id needs a salt that clients do not know")
    return data


def open_items(
    samples: Sequence[Sequence[object]],
    make_plan: Callable[[int, int, Sample], Plan],
    input_data_format: str | None = None,
    value_range: Sequence[float] | None = None,
    *,
    limits: Limits | None = None,
    policy: DecodePolicy = DEFAULT,
    spec: Spec | None = None,
    dtype: str | None = None,
    failed: dict[int, FovealError] | None = None,
) -> list[Item]:
    """Open images and plan them; nothing is decoded.

    Parameters
    ----------
    samples : sequence of sequences of images
        From `by_sample`.
    make_plan : callable
        Plan for a height, a width and whether the image's sample has others.
    input_data_format, value_range
        As for `foveal.media.sources.open_source`.
    limits : Limits, optional
        Of each image, and of all together; `Limits.for_batches` if not given.
    policy : DecodePolicy, optional
    spec : Spec, optional
        Needed for the items' identities: the one that ``make_plan`` plans with.
    dtype : str, optional
        Of the primary tensor, for the identities too; the spec's own if not given.
    failed : dict, optional
        Takes the error of an image, by its index, instead of raising it; the image is left out. What is wrong with the
        call, or all images together, is raised all the same.

    Raises
    ------
    MediaError
        If an image cannot be opened; its text starts with the image's index.
    MediaTooLarge
        If an image is above a limit, or all of them together.
    ImageSizeError
        If the model refuses an image's size.
    """
    limits = Limits.for_batches() if limits is None else limits
    limits.check_images(sum(map(len, samples)))
    options: dict[str, Any] = {"input_data_format": input_data_format, "value_range": value_range}
    open_image = partial(open_source, limits=limits, policy=policy, **options)
    basis = None if spec is None else Basis(spec, policy, dtype)
    items: list[Item] = []
    encoded = decoded = 0
    index = -1
    for sample in samples:
        kind: Sample = "one_image" if len(sample) == 1 else "many_images"
        for image in sample:
            index += 1
            if failed and index in failed:
                continue
            try:
                source = _named(index, partial(open_image, image))
                plan = _named(index, partial(make_plan, *source.size, kind))
            except MediaError as error:
                if failed is None:
                    raise
                failed[index] = error
                continue
            encoded += source.file.size if source.file else 0
            if encoded > limits.encoded_bytes:
                _named(index, partial(limits.check_encoded, encoded))
            decoded += source.bytes_a_pixel * source.size.height * source.size.width
            if decoded > limits.decoded_bytes:
                _named(index, partial(limits.check_decoded, decoded))
            items.append(Item(index, source, plan, kind, basis))
    return items


def fetched(
    samples: Sequence[Sequence[object]],
    limits: Limits,
    failed: dict[int, FovealError] | None = None,
    settings: FetchSettings | None = None,
) -> list[list[object]]:
    """Return the images with every ``http``, ``https`` and ``file`` URL replaced by the bytes that are there.

    All are fetched together, unless there are too many images; paths, ``data:`` URLs and all other images are left as
    they are, and looked at only when they are opened. A caller's event loop waits; `fetched_async` does not make it.

    Parameters
    ----------
    samples, limits, failed
        As for `open_items`. A URL whose error is in ``failed`` stays, and is refused when it is opened.
    settings : FetchSettings, optional
        Where they may come from; `FetchSettings.default` if not given.

    Raises
    ------
    MediaError
        If a URL cannot be had; its text starts with the image's index.
    MediaTooLarge
        If there are too many images, or the bodies together are above the limit.
    """
    urls = _remote(samples, limits)
    if not urls:
        return [list(sample) for sample in samples]
    from foveal.media.fetch import load_urls  # imports asyncio, which images at hand do not need

    with stage("fetch"):
        answers = load_urls(list(urls.values()), limits.input_bytes, settings, limits.encoded_bytes)
    return _with_answers(samples, dict(zip(urls, answers, strict=True)), failed)


async def fetched_async(
    samples: Sequence[Sequence[object]],
    limits: Limits,
    fetcher: "Fetcher | None" = None,
    settings: FetchSettings | None = None,
) -> list[list[object]]:
    """Return what `fetched` returns, while the event loop goes on.

    Parameters
    ----------
    samples, limits, settings
        As for `fetched`.
    fetcher : Fetcher, optional
        Whose own settings and connections are used; one of this call if not given.
    """
    urls = _remote(samples, limits)
    if not urls:
        return [list(sample) for sample in samples]
    from foveal.media.fetch import Fetcher

    async with nullcontext(fetcher) if fetcher else Fetcher(settings) as used:
        with stage("fetch"):
            answers = await used.load_all(list(urls.values()), limits.input_bytes, limits.encoded_bytes)
    return _with_answers(samples, dict(zip(urls, answers, strict=True)), None)


def _remote(samples: Sequence[Sequence[object]], limits: Limits) -> dict[int, str]:
    """Return the URLs that are to be fetched, by the index of their image; refuse too many images."""
    limits.check_images(sum(map(len, samples)))
    images = enumerate(image for sample in samples for image in sample)
    return {place: image for place, image in images if isinstance(image, str) and _is_remote(image)}


def _with_answers(
    samples: Sequence[Sequence[object]],
    answers: Mapping[int, bytes | MediaError],
    failed: dict[int, FovealError] | None,
) -> list[list[object]]:
    """Return the images with answers in the place of their URLs."""
    images = [image for sample in samples for image in sample]
    for place, answer in answers.items():
        if not isinstance(answer, MediaError):
            images[place] = answer
        elif failed is None:
            _named(place, partial(_raise, answer))
        else:
            failed[place] = type(answer)(f"image {place}: {answer}")
    rest = iter(images)
    return [list(islice(rest, len(sample))) for sample in samples]


def _is_remote(text: str) -> bool:
    return url_scheme(text) in ("http", "https", "file")


def _raise(error: MediaError) -> None:
    raise error


def decoded(items: Sequence[Item], failed: dict[int, FovealError], threads: int | None = None) -> list[Decoded]:
    """Decode images now, and leave out those that cannot be.

    Pixels are kept of the first images, as many as take 256 MiB; the others are decoded again where they are needed.

    Parameters
    ----------
    items : sequence of Item
    failed : dict
        Takes the error of an image by its index.
    threads : int, optional
        Threads to use at most; all that are available by default.
    """

    def attempt(item: Item, kept: bool) -> Decoded | None:
        try:
            pixels = item.pixels()
        except MediaError as error:
            failed[item.index] = error
            return None
        return Decoded(item, pixels if kept else None)

    sizes = (PLAIN_BYTES * item.source.size.height * item.source.size.width for item in items)
    kept = [total <= DECODED_BYTES_KEPT for total in accumulate(sizes)]
    found = run_all([partial(attempt, *pair) for pair in zip(items, kept, strict=True)], thread_count(threads))
    return [one for one in found if one is not None]


def by_sample(images: object, flat_list: Literal["samples", "one_sample"]) -> list[list[object]]:
    """Return the images of a call by sample.

    Parameters
    ----------
    images : image, or a list of images, or a list of such lists, one for each sample
    flat_list : {"samples", "one_sample"}
        What a list that is not nested means to the model.

    Raises
    ------
    MediaError
        If there is no image, or images stand beside lists.

    Notes
    -----
    Source: transformers 5.24.0, image_utils.py, make_flat_list_of_images and make_nested_list_of_images.
    """
    if not isinstance(images, list | tuple):
        return [[images]]
    nested = [isinstance(entry, list | tuple) for entry in images]
    if any(nested) and not all(nested):
        raise MediaError("images are a mix of images and lists; pass a list of images, or a list of lists")
    if any(nested):
        samples = [list(sample) for sample in images]
    else:
        samples = [list(images)] if flat_list == "one_sample" else [[image] for image in images]
    if not any(samples):
        raise MediaError("there is no image")
    return samples


def _named(index: int, action: Callable[[], Result]) -> Result:
    """Run a step of one image; its error says which image it was."""
    try:
        return action()
    except ImageSizeError as error:
        raise ImageSizeError(f"image {index} is {error}") from error
    except FovealError as error:
        raise type(error)(f"image {index}: {error}") from error
