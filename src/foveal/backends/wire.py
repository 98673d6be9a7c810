"""A serialized request whose large payloads are written in place.

A message that protobuf builds is copied at each level and again when it is serialized. Here protobuf serializes what is
small; the bytes of the whole request are allocated once, and whoever computes a payload writes it where it will be sent
from. What makes that legal is the encoding itself: fields may stand in any order, a message field that occurs several
times is merged, and of a string field that does, the last counts.

Source: protobuf.dev, Encoding, "Last One Wins".
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.errors import RequestError
from foveal.run.memory import or_release

__all__ = ["Level", "Payload", "copied", "little_endian", "nested", "serialize"]

ALIGNMENT = 64
"""Of payloads in memory: kernels store to it 1.2 to 1.4 times as fast."""

REQUEST_ID = 1
"""Number of the field ``request_id`` in the GenerateRequest of every backend. Earlier ones of it are the padding."""

_LEAST_PAD = 2
_PADS = ALIGNMENT + 2 * _LEAST_PAD - 1
"""Bytes of padding before and behind a payload together: the first is as long as the alignment needs."""

_MOST = (1 << 31) - 1
"""Bytes of a message: protobuf's own limit."""

_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype, _new_bytes.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_ssize_t]
_address_of = ctypes.pythonapi.PyBytes_AsString
_address_of.restype, _address_of.argtypes = ctypes.c_void_p, [ctypes.py_object]


class Level(NamedTuple):
    """A message around a payload.

    Attributes
    ----------
    field : int
        Its number in the message around it.
    before : bytes
        Its other fields, serialized.
    """

    field: int
    before: bytes = b""


class Payload(NamedTuple):
    """A field of bytes that is written in place.

    Attributes
    ----------
    levels : sequence of Level
        The messages around it, the outermost first.
    field : int
        Its number in the innermost of them.
    size : int
        In bytes.
    fill : callable
        Writes it into a uint8 array (size,) that starts at a multiple of 64 bytes.
    beside : sequence of Payload
        Others that follow it in the message around its innermost one, where their own levels begin. They start
        anywhere, and have none beside them.
    """

    levels: Sequence[Level]
    field: int
    size: int
    fill: Callable[[npt.NDArray[np.uint8]], None]
    beside: "Sequence[Payload]" = ()

    def header(self) -> bytes:
        """Return all that stands before the payload, from the outermost tag to its own length."""
        header, behind = _field(self.field, self.size), self.size
        for depth, level in enumerate(reversed(self.levels)):
            if depth == 1:
                behind += self.behind
            content = level.before + header
            header = _field(level.field, len(content) + behind) + content
        return header

    @property
    def behind(self) -> int:
        """Bytes of those beside it, with all around them."""
        return sum(len(other.header()) + other.size for other in self.beside)


def nested(levels: Sequence[Level]) -> bytes:
    """Return messages one within the other, as one field."""
    content = b""
    for level in reversed(levels):
        inner = level.before + content
        content = _field(level.field, len(inner)) + inner
    return content


def serialize(small: bytes, payloads: Iterable[Payload], request_id: str) -> bytes:
    """Return a serialized request.

    Parameters
    ----------
    small : bytes
        All fields without a payload, serialized; ``request_id`` is not among them.
    payloads : iterable of Payload
        Filled in this order.
    request_id : str

    Raises
    ------
    RequestError
        If the request is larger than a message can be, or than memory.
    """
    parts = [(payload.header(), payload) for payload in payloads]
    name = request_id.encode()
    last = _field(REQUEST_ID, len(name)) + name
    sizes = (len(header) + payload.size + payload.behind + _PADS for header, payload in parts)
    size = len(small) + sum(sizes) + len(last)
    if size > _MOST:
        raise RequestError(f"the request has {size} bytes, more than the {_MOST} of a message")
    try:
        data: bytes = or_release(lambda: _new_bytes(None, size))
    except MemoryError:
        raise RequestError(f"the request needs {size} bytes, which cannot be had") from None
    writer = _Writer(data)
    writer.put(small)
    for header, payload in parts:
        before = _LEAST_PAD + -(writer.address + _LEAST_PAD + len(header)) % ALIGNMENT
        writer.put(_pad(before) + header)
        payload.fill(writer.reserve(payload.size))
        for other in payload.beside:
            writer.put(other.header())
            other.fill(writer.reserve(other.size))
        writer.put(_pad(_PADS - before))
    writer.put(last)
    return data


class _Memory:
    """A piece of a bytes object that nobody else has seen yet, for NumPy to write into; it keeps the object alive."""

    def __init__(self, data: bytes, address: int, size: int) -> None:
        self.data = data
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False)}


class _Writer:
    """Fills a bytes object from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.address: int = _address_of(data)

    def put(self, part: bytes) -> None:
        ctypes.memmove(self.address, part, len(part))
        self.address += len(part)

    def reserve(self, size: int) -> npt.NDArray[np.uint8]:
        array = np.asarray(_Memory(self._data, self.address, size))
        self.address += size
        return array


def copied(array: npt.NDArray[Any]) -> Callable[[npt.NDArray[np.uint8]], None]:
    """Return what fills a payload with an array's values, of any strides and byte order, as little-endian bytes."""

    def fill(out: npt.NDArray[np.uint8]) -> None:
        out.view(array.dtype.newbyteorder("<")).reshape(array.shape)[...] = array

    return fill


def little_endian(array: npt.NDArray[Any]) -> bytes:
    """Return an array's values as little-endian bytes in C order."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, length: int) -> bytes:
    """Return tag and length of a field of bytes."""
    return _varint(number << 3 | 2) + _varint(length)


def _pad(size: int) -> bytes:
    """Return a field of so many bytes in all that a later one replaces."""
    return _field(REQUEST_ID, size - _LEAST_PAD) + b" " * (size - _LEAST_PAD)
