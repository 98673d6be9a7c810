"""Requests as chat clients write them: the images of OpenAI messages, and a checkpoint's tokenizer."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from foveal.errors import OptionError, RequestError
from foveal.media.urls import url_scheme
from foveal.spec.values import one_line, show

__all__ = ["Tokenizer", "image_urls", "tokenizer"]

TEXT = ("text", "refusal", "input_text", "output_text")
IMAGES = ("image_url", "input_image")
OTHER_MEDIA = ("video", "video_url", "input_video", "audio", "audio_url", "input_audio")
DETAILS = (None, "auto", "low", "high")
SCHEMES = ("data", "http", "https", "file")

TOKENIZERS_KEPT = 8


def image_urls(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the images of a chat, in order.

    Parameters
    ----------
    messages : list of dict
        OpenAI's ``messages``, or the content parts of one message. An image is a part of type ``image_url`` or
        ``input_image``; its URL stands beside the type, as text, or in an object. ``detail`` says nothing to the models
        that are served here.

    Returns
    -------
    list of str
        ``data:``, ``http:``, ``https:`` and ``file:`` URLs.

    Raises
    ------
    RequestError
        If these are no messages, if a part is neither text nor an image, or if an image has no URL. A path is none:
        whoever writes a chat must not choose a file of the server.
    """
    if not isinstance(messages, list | tuple):
        raise RequestError(f"expected a list of messages or of content parts, not {show(messages)}")
    found = (_image_url(part, place) for part, place in _parts(messages))
    return [url for url in found if url is not None]


class Tokenizer:
    """A checkpoint's tokenizer, made by the function `tokenizer`.

    Parameters
    ----------
    inner : tokenizers.Tokenizer
        One that neither truncates nor pads.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, special tokens in it recognized and none added, however long it is.

        Raises
        ------
        RequestError
            If the text cannot be tokenized, as it is no valid Unicode.
        """
        try:
            ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        except Exception:  # the library has no type of its own, and its text may quote the prompt
            raise RequestError("the text cannot be tokenized") from None
        return ids


def tokenizer(directory: str | os.PathLike[str]) -> Tokenizer:
    """Return the tokenizer of a checkpoint, kept until its file changes.

    Parameters
    ----------
    directory : path
        That holds ``tokenizer.json``.

    Raises
    ------
    OptionError
        If there is no such file, it is no tokenizer, or the package tokenizers is not installed.
    """
    try:
        path = os.path.join(os.fspath(directory), "tokenizer.json")
        status = os.stat(path)
    except (OSError, TypeError, ValueError):
        raise OptionError("the checkpoint has no tokenizer.json") from None
    if not stat.S_ISREG(status.st_mode):
        raise OptionError("tokenizer.json is not a regular file")
    return _loaded(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(TOKENIZERS_KEPT)
def _loaded(path: str, stamp: tuple[int, ...]) -> Tokenizer:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        if error.name != "tokenizers":
            raise
        raise OptionError("tokenizing needs the package tokenizers: pip install 'foveal[grpc]'") from None
    try:
        inner = tokenizers.Tokenizer.from_file(path)
    except Exception as error:
        raise OptionError(f"tokenizer.json cannot be read: {one_line(str(error), 200)}") from None
    inner.no_truncation()
    inner.no_padding()
    return Tokenizer(inner)


def _parts(messages: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """Return each content part, and where it stands."""
    if not any(isinstance(message, Mapping) and "role" in message for message in messages):
        yield from _numbered(messages, "")
        return
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or "role" not in message:
            raise RequestError(f"message {index} has no role")
        content = message.get("content")
        if isinstance(content, list | tuple):
            yield from _numbered(content, f"message {index}, ")
        elif not isinstance(content, str | None):
            raise RequestError(f"message {index}: the content must be text or a list of parts, not {show(content)}")


def _numbered(parts: Sequence[Any], before: str) -> Iterator[tuple[Any, str]]:
    return ((part, f"{before}part {index}") for index, part in enumerate(parts))


def _image_url(part: Any, place: str) -> str | None:
    """Return the URL of an image, None for text."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str):
        raise RequestError(f"{place}: expected an object with a type")
    if kind in TEXT:
        return None
    if kind in OTHER_MEDIA:
        raise RequestError(f"{place} is of type {kind!r}: only images are taken")
    if kind not in IMAGES:
        raise RequestError(f"{place} is of unknown type {show(kind)}")
    value = part.get("image_url")
    image = value if isinstance(value, Mapping) else {"url": value}
    for detail in (part.get("detail"), image.get("detail")):
        if detail not in DETAILS:
            raise RequestError(f"{place}: detail must be auto, low or high, not {show(detail)}")
    url = image.get("url")
    if not isinstance(url, str) or url_scheme(url) not in SCHEMES:
        raise RequestError(f"{place}: the image has no data, http, https or file URL")
    return url
