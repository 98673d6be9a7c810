"""Prepared images, kept for the next request that has the same one."""

import os
import threading
import weakref
from collections import OrderedDict
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from foveal.errors import OptionError
from foveal.plan.plan import Plan
from foveal.run.buffers import aligned_empty

__all__ = ["CacheStats", "ImageCache", "Key"]

Part = npt.NDArray[Any]


class Key(NamedTuple):
    """What an image's part of the primary tensor follows from.

    Attributes
    ----------
    identity : str
        Of the content together with spec, policy and sample: ``Item.identity``.
    plan : Plan
        As it stands in the batch: where images are padded to the largest, the others decide about it, too.
    dtype : str
        Of the part.
    """

    identity: str
    plan: Plan
    dtype: str


class CacheStats(msgspec.Struct, frozen=True):
    """What a cache has done so far, and what it holds.

    Attributes
    ----------
    hits, misses : int
        Images that were found, and that were not.
    evictions : int
        Images that made room for others.
    images, bytes : int
        What is held now.
    max_bytes : int
        What may be held.
    """

    hits: int
    misses: int
    evictions: int
    images: int
    bytes: int
    max_bytes: int


class ImageCache:
    """Prepared images, those that were used last, within a number of bytes.

    Given to `Preprocessor.process`, it spares images that were seen before their decoding and all work on pixels: their
    part of the primary tensor is copied into the request. It may be shared by threads, preprocessors and models.

    Parameters
    ----------
    max_bytes : int
        Of the parts together; a key and a plan beside each are not counted. An image that is larger is not kept.

    Raises
    ------
    OptionError
        If it is no whole number, or negative.

    Notes
    -----
    An image is found by its content, not by its name: it is hashed in any case. Requests that miss the same image at
    the same time each compute it, and the last one is kept. Who can measure how long a request takes learns whether the
    image was sent before: use one cache for each tenant where that matters. After a fork the child's cache is empty.
    """

    def __init__(self, max_bytes: int) -> None:
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int | np.integer) or max_bytes < 0:
            raise OptionError("max_bytes must be a whole number of at least 0")
        self.max_bytes = int(max_bytes)
        self._hits = self._misses = self._evictions = self._bytes = 0
        self._parts: OrderedDict[Key, Part] = OrderedDict()
        self._lock = threading.Lock()
        _caches.add(self)

    def __repr__(self) -> str:
        return f"<ImageCache, {self._bytes} of {self.max_bytes} bytes>"

    def get(self, key: Key) -> Part | None:
        """Return the part of an image, which is read-only and stays as it is; None where it is not there."""
        with self._lock:
            found = self._parts.get(key)
            if found is None:
                self._misses += 1
            else:
                self._hits += 1
                self._parts.move_to_end(key)
            return found

    def put(self, key: Key, part: Part) -> None:
        """Keep a copy of a part, if it is not larger than the cache."""
        if part.nbytes > self.max_bytes:
            return
        try:
            copy = aligned_empty(part.shape, part.dtype)
        except MemoryError:  # a request does not fail because nothing can be kept
            return
        np.copyto(copy, part)
        copy.flags.writeable = False
        with self._lock:
            before = self._parts.pop(key, None)
            self._bytes += copy.nbytes - (0 if before is None else before.nbytes)
            self._parts[key] = copy
            while self._bytes > self.max_bytes:
                self._bytes -= self._parts.popitem(last=False)[1].nbytes
                self._evictions += 1

    def clear(self) -> None:
        """Drop all images; the counts of hits, misses and evictions go on."""
        with self._lock:
            self._parts.clear()
            self._bytes = 0

    def stats(self) -> CacheStats:
        """Return what it has done so far, and what it holds."""
        with self._lock:
            counts = self._hits, self._misses, self._evictions
            return CacheStats(*counts, len(self._parts), self._bytes, self.max_bytes)


_caches: "weakref.WeakSet[ImageCache]" = weakref.WeakSet()


def _forget_all() -> None:
    """After a fork the threads that held locks are gone: start anew, with nothing that they may have left half done."""
    for cache in _caches:
        cache._lock = threading.Lock()
        cache.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
