"""What a worker's answers mean: what it is, tokens, ends and errors. Knows no connection."""

import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, Self

from foveal.backends import BACKENDS, Backend, Request, ServerInfo
from foveal.backends.messages import messages
from foveal.errors import FovealError, RequestError, WorkerError, WorkerTimeout
from foveal.spec.values import one_line

__all__ = ["Event", "Exchange", "Finished", "Known", "Status", "Tokens", "introduction"]

MESSAGE_BYTES = (1 << 31) - 1
"""Of a message at most: protobuf's own limit."""

_REFUSED = ("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE")
_MEANING = {
    "CANCELLED": "the worker cancelled the request",
    "DEADLINE_EXCEEDED": "the worker gave up, as it took too long",
    "INTERNAL": "the worker failed",
    "PERMISSION_DENIED": "the worker does not allow it",
    "RESOURCE_EXHAUSTED": "the worker has no room for the request",
    "UNAUTHENTICATED": "the worker wants other credentials",
    "UNAVAILABLE": "the worker is gone, or takes no requests",
    "UNIMPLEMENTED": "the worker has no such method",
    "UNKNOWN": "the worker failed",
}
_UNUSABLE = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNAUTHENTICATED", "PERMISSION_DENIED")
"""What the answer may be whichever service was asked for."""

_ADDRESS = re.compile(
    r"\b(?:ipv[46]|unix|unix-abstract|vsock):\S*[^\s:;,.]"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\](?::\d+)?"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){2,7}:?[0-9a-fA-F:]*|(?<![\w:])[0-9a-fA-F]{1,4}::[0-9a-fA-F:]*"
    r"|(?<![\w/])(?:/[\w.+-]+){2,}"
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that have arrived.

    Attributes
    ----------
    ids : tuple of int
        At least one.
    index : int
        Which of the outputs they belong to, where several were asked for (``n``).
    """

    ids: tuple[int, ...]
    index: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an output.

    Attributes
    ----------
    ids : tuple of int
        All its tokens, those that have arrived before included.
    reason : str
        ``stop``, ``length``, ``abort``, or what else the backend has.
    prompt_tokens, completion_tokens, cached_tokens : int
        As the worker counts them: tokens of the prompt, of the output, and of the prompt those that it had computed
        before.
    matched_stop : int or str, optional
        The token's id or the text that ended it.
    index : int
        Which of the outputs it is.
    """

    ids: tuple[int, ...]
    reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    matched_stop: int | str | None = None
    index: int = 0


Event = Tokens | Finished


class Known(NamedTuple):
    """What is known of a worker.

    Attributes
    ----------
    backend : str
    info : ServerInfo
    server, model : GetServerInfoResponse, GetModelInfoResponse, optional
        None where the worker has no such method.
    """

    backend: Backend
    info: ServerInfo
    server: Any
    model: Any


class Status(NamedTuple):
    """How a call ended."""

    code: str
    details: str

    @classmethod
    def of(cls, error: Any) -> Self:
        """Return what an error of grpc says; its text without addresses, which grpc's own texts have."""
        return cls(error.code().name, one_line(_ADDRESS.sub("the address", error.details() or "")))

    def error(self, target: str) -> WorkerError:
        """Return what it means where the caller is not to blame."""
        meaning = _MEANING.get(self.code, f"the worker answered {self.code}")
        kind = WorkerTimeout if self.code == "DEADLINE_EXCEEDED" else WorkerError
        return kind(f"{target}: {meaning}: {self.details}" if self.details else f"{target}: {meaning}")


class Exchange:
    """One request to a worker: how far it has come, and what its answers mean.

    Attributes
    ----------
    is_shared : bool
        Whether the request has tensors in shared memory.
    """

    def __init__(self, target: str, backend: Backend, seconds: float | None) -> None:
        self._target, self._messages = target, messages(backend)
        self._seconds = seconds
        self._end = None if seconds is None else monotonic() + seconds
        self._size = 0
        self._sent = False
        self.is_shared = False
        self._ids: dict[int, list[int]] = {}
        self._finished: set[int] = set()

    @property
    def method(self) -> str:
        """Path of the method."""
        return self._messages.method("Generate")

    @property
    def state(self) -> str:
        """How far it has come, for messages."""
        if not self._sent:
            return "nothing had been sent"
        tokens = sum(map(len, self._ids.values()))
        return f"{tokens or 'no'} token{'s' * (tokens > 1)} had arrived"

    def left(self) -> float | None:
        """Return the seconds that are left."""
        return None if self._end is None else max(0.0, self._end - monotonic())

    def too_late(self) -> WorkerError:
        """Return the error where no seconds are left."""
        return WorkerTimeout(f"{self._target}: not complete after {self._seconds:g} s (timeout); {self.state}")

    def take(self, request: Request, segments: ExitStack) -> bytes:
        """Return the message of a request, and have its shared memory removed at the end.

        Raises
        ------
        RequestError
            If it is larger than a message can be.
        """
        self.is_shared = bool(request.segments)
        for segment in request.segments:
            segments.callback(segment.discard)
        self._size = len(request.serialized)
        if self._size > MESSAGE_BYTES:
            raise RequestError(f"the request has {self._size} bytes, more than the {MESSAGE_BYTES} of a message")
        return request.serialized

    def begin(self) -> float | None:
        """Return the seconds that are left for the answer; whatever fails from now on may have been sent."""
        self._sent = True
        return self.left()

    def events(self, answer: bytes) -> Iterator[Event]:
        """Return what an answer says: one thing, or nothing."""
        response = _parsed(self._messages.pb2.GenerateResponse, answer)
        if response is None:
            raise WorkerError(f"{self._target}: the worker answered what is no GenerateResponse; {self.state}")
        kind = response.WhichOneof("response")
        if kind == "chunk" and response.chunk.token_ids:
            yield self._tokens(response.chunk)
        elif kind == "complete":
            yield self._last(response.complete)

    def _tokens(self, chunk: Any) -> Tokens:
        tokens = Tokens(tuple(chunk.token_ids), self._index(chunk))
        self._ids.setdefault(tokens.index, []).extend(tokens.ids)
        return tokens

    def _last(self, complete: Any) -> Finished:
        """Return the end of an output.

        vLLM, SGLang and TokenSpeed say only the last tokens of a stream again, TensorRT-LLM all, and those that stream
        nothing all of it for the first time.
        """
        index = self._index(complete)
        reason = one_line(complete.finish_reason, 40)
        if reason == "error":
            raise WorkerError(f"{self._target}: the worker failed while it generated; {self.state}")
        said = complete.output_token_ids if self._messages.backend == "trtllm" else complete.output_ids
        ids = max(tuple(self._ids.get(index, ())), tuple(said), key=len)
        self._ids[index] = list(ids)
        self._finished.add(index)
        stop = complete.WhichOneof("matched_stop")
        return Finished(
            ids,
            reason="stop" if reason == "stop_word" else reason,
            prompt_tokens=complete.prompt_tokens,
            completion_tokens=max(complete.completion_tokens, len(ids)),
            cached_tokens=complete.cached_tokens,
            matched_stop=None if stop is None else getattr(complete, stop),
            index=index,
        )

    def _index(self, message: Any) -> int:
        index: int = message.sequence_index if self._messages.backend == "trtllm" else message.index
        return index

    def end(self) -> None:
        """Check that all that was begun has ended.

        Raises
        ------
        WorkerError
            If it has not.
        """
        if not self._finished or self._ids.keys() - self._finished:
            raise WorkerError(f"{self._target}: the answer ended before it was complete; {self.state}")

    def error(self, status: Status) -> FovealError:
        """Return what the end of a call means."""
        if status.code in _REFUSED:
            return RequestError(f"the worker refused the request: {status.details or status.code}")
        if status.code == "RESOURCE_EXHAUSTED" and "larger than max" in status.details:
            return RequestError(
                f"the request has {self._size} bytes, more than the worker receives (SGLang and TokenSpeed: 268435456, "
                "unless they are told otherwise)"
            )
        left = self.left()
        if status.code == "DEADLINE_EXCEEDED" and left is not None and left < 0.1:  # clocks differ
            return self.too_late()
        error = status.error(self._target)
        return type(error)(f"{error}; {self.state}")


def introduction(target: str, wanted: Backend | None) -> Generator[str, bytes | Status, Known]:
    """Ask a worker what it is: yield a method that takes an empty message, be sent its answer, and so on.

    Raises
    ------
    WorkerError
        If it is none that is known, or another one than wanted.
    """
    backend = yield from _found(target, wanted)
    server = yield from _asked(target, backend, "GetServerInfo")
    model = yield from _asked(target, backend, "GetModelInfo")
    return Known(backend, ServerInfo.from_messages(backend, server, model), server, model)


def _found(target: str, wanted: Backend | None) -> Generator[str, bytes | Status, Backend]:
    """Return the backend whose service there is."""
    for backend in sorted(BACKENDS, key=lambda name: name != wanted):
        answer = yield messages(backend).method("HealthCheck")
        if isinstance(answer, Status) and answer.code in _UNUSABLE:
            raise answer.error(target)
        if isinstance(answer, Status) and answer.code == "UNIMPLEMENTED":
            continue
        if wanted not in (None, backend):
            raise WorkerError(f"{target}: the worker is {backend}, not {wanted}")
        return backend
    raise WorkerError(f"{target}: there is a server, but none of {', '.join(BACKENDS)}")


def _asked(target: str, backend: Backend, name: str) -> Generator[str, bytes | Status, Any]:
    """Return an answer; None if there is no such method."""
    answer = yield messages(backend).method(name)
    if isinstance(answer, bytes):
        response = _parsed(getattr(messages(backend).pb2, f"{name}Response"), answer)
        if response is None:
            raise WorkerError(f"{target}: the worker answered what is no {name}Response of {backend}")
        return response
    if answer.code == "UNIMPLEMENTED":
        return None
    error = answer.error(target)
    raise type(error)(f"{error} ({name})")


def _parsed(kind: Any, data: bytes) -> Any:
    """Return a message; None where the bytes are none."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError:
        return None
