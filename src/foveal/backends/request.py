"""What a request is, what a caller may say about it, and how its large tensors get into it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foveal.backends.messages import Backend, messages
from foveal.backends.server import ServerInfo
from foveal.backends.shm import Segment, sweep
from foveal.backends.wire import Level, Payload, nested, serialize
from foveal.errors import RequestError

__all__ = ["Fill", "Options", "Placed", "Request", "finish", "token_ids"]


class Options(NamedTuple):
    """What a caller said about a request.

    Attributes
    ----------
    request_id : str
    sampling : mapping, optional
    stream : bool
    shm : bool
        Whether large tensors lie in shared memory.
    threads : int, optional
    info : ServerInfo
    """

    request_id: str
    sampling: Mapping[str, Any] | None
    stream: bool
    shm: bool
    threads: int | None
    info: ServerInfo


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request as it goes on the wire.

    Attributes
    ----------
    backend : str
    request_id : str
    serialized : bytes
        A GenerateRequest of the backend.
    segments : tuple of Segment
        Shared memory that the request names; whoever does not send it must call `discard`.
    """

    backend: Backend
    request_id: str
    serialized: bytes
    segments: tuple[Segment, ...] = ()

    def message(self) -> Any:
        """Return the request as smg-grpc-proto's GenerateRequest: a copy."""
        return messages(self.backend).pb2.GenerateRequest.FromString(self.serialized)

    def discard(self) -> None:
        """Remove the shared memory that no receiver has removed; may be called any number of times."""
        for segment in self.segments:
            segment.discard()


class Fill(NamedTuple):
    """What is written in place: bytes in all, and what writes them into a uint8 array of that size."""

    size: int
    write: Any


class Placed(NamedTuple):
    """A tensor that is written where it is sent from.

    Attributes
    ----------
    content : Fill
    messages : sequence of (int, message)
        The messages around it, with their numbers in the one around them, the outermost first. The last one is its
        TensorData, which lacks nothing but the content.
    field : int
        Number of the content in there, where it is not in shared memory.
    beside : sequence of Placed
        Others that follow it in the message around its TensorData; never in shared memory.
    """

    content: Fill
    messages: Sequence[tuple[int, Any]]
    field: int
    beside: "Sequence[Placed]" = ()

    def levels(self) -> list[Level]:
        """Return the messages around it, serialized."""
        return [Level(number, message.SerializeToString()) for number, message in self.messages]

    def payload(self) -> Payload:
        """Return what is written into the request."""
        beside = [other.payload() for other in self.beside]
        return Payload(self.levels(), self.field, self.content.size, self.content.write, beside)


def finish(backend: Backend, request: Any, placed: Sequence[Placed], options: Options) -> Request:
    """Return a request with its large tensors, computed now.

    Parameters
    ----------
    backend : str
    request : GenerateRequest
        All that is small.
    placed : sequence of Placed
    options : Options

    Raises
    ------
    MediaError
        If an image cannot be decoded.
    RequestError
        If memory, or shared memory, is too small.
    """
    small = request.SerializeToString()
    if options.shm:
        return _in_shared_memory(backend, small, placed, options.request_id)
    payloads = [each.payload() for each in placed]
    return Request(backend, options.request_id, serialize(small, payloads, options.request_id))


def _in_shared_memory(backend: Backend, small: bytes, placed: Sequence[Placed], request_id: str) -> Request:
    """Return a request that names a segment for each tensor; none is left where it fails."""
    _swept()
    segments: list[Segment] = []
    try:
        for each in placed:
            segments.append(Segment.create(each.content.size))
            each.content.write(segments[-1].array())
            segments[-1].close()
            each.messages[-1][1].shm.CopyFrom(segments[-1].handle())
            small += nested(each.levels())
        return Request(backend, request_id, serialize(small, [], request_id), tuple(segments))
    except BaseException:
        for segment in segments:
            segment.discard()
        raise


@lru_cache
def _swept() -> int:
    """Remove, once in a process, what others left in shared memory that were killed."""
    return sweep()


def token_ids(ids: npt.NDArray[Any]) -> list[int]:
    """Return token ids as messages take them.

    Raises
    ------
    RequestError
        If an id is not one of 32 bits.
    """
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= np.iinfo(np.uint32).max:
        raise RequestError("input_ids holds an id below 0 or above 32 bits")
    numbers: list[int] = ids.tolist()
    return numbers
