"""A worker on the loopback interface: it checks requests, reports them, and answers; it runs no model."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from time import monotonic
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from foveal.backends.messages import Backend, Messages, common, messages
from foveal.backends.shm import namespace_id
from foveal.errors import OptionError, RequestError
from foveal.grpc.checking import in_one_line, problems
from foveal.grpc.decoding import Decoded, decode
from foveal.grpc.tensors import FLOATS, listed
from foveal.spec.values import one_line

try:
    import grpc
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("grpc", "grpc_health", "grpc_reflection", "google"):
        raise
    raise OptionError("a worker needs more packages: pip install 'foveal[grpc]'") from None

__all__ = ["WHAT_IT_IS", "Ended", "Received", "Worker", "answer"]

WHAT_IT_IS = "a loopback worker of Foveal that checks and reports requests and runs no model"
MODEL = "foveal-loopback"

Outcome = Literal["stop", "abort", "cancelled", "refused"]

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # a second worker at the same port is an error, not a share of the requests
]
_GRACE = 1.0
"""Seconds for requests in progress when a worker stops."""

_IDS = {"trtllm": "output_token_ids"}
_STREAM = {"trtllm": "streaming"}


class Received(NamedTuple):
    """A request that a worker got.

    Attributes
    ----------
    request_id : str
    message_bytes : int
        Of the request as it was sent, without shared memory.
    decoded : Decoded, optional
        None if it could not be.
    problems : tuple of str
        Why it was refused; empty if it was not.
    """

    request_id: str
    message_bytes: int
    decoded: Decoded | None
    problems: tuple[str, ...]


class Ended(NamedTuple):
    """How a request ended.

    Attributes
    ----------
    request_id : str
    outcome : {"stop", "abort", "cancelled", "refused"}
        Answered in full; ended by `Abort`; given up by the client, or by the worker that stopped; refused.
    tokens : int
        That were sent.
    """

    request_id: str
    outcome: Outcome
    tokens: int


def answer(decoded: Decoded, tokens: int | None = None) -> list[int]:
    """Return the ids that a worker answers with, which say what it counted.

    They are the tokens of the prompt, the number of items, and the feature tokens of each item; of TensorRT-LLM, whose
    images have none yet, the bytes of each.

    Parameters
    ----------
    decoded : Decoded
    tokens : int, optional
        How many ids; they begin again where there are fewer.
    """
    features = [item.feature_tokens for item in decoded.items] + [len(image) for image in decoded.images]
    counts = [len(decoded.input_ids), len(features), *features]
    return counts if tokens is None else list(islice(cycle(counts), tokens))


class Worker:
    """Serves the gRPC service of an engine, with the standard services of health and reflection. Runs no model.

    Requests are refused, with INVALID_ARGUMENT, if a careful engine would refuse them: see
    `foveal.grpc.problems`. All others are answered with what `answer` returns, in chunks of one token if the
    request asks for a stream. Sampling parameters are not looked at. Messages may have any size. ::

        async with Worker("vllm", on_request=print) as worker:
            print(worker.address)
            await worker.wait()

    Parameters
    ----------
    backend : {"vllm", "sglang", "trtllm", "tokenspeed"}
    host : str
        Whoever reaches it can read, and remove, files in /dev/shm, as with engines, unless ``shm`` is False.
    port : int
        0 for any that is free.
    encoder_dtype : str
        What it says its encoder computes in.
    device_normalize : bool
        Whether it says that it normalizes pixels, and takes nothing but bytes; vLLM's alone.
    shm : bool
        Whether it reads tensors from shared memory, and says so.
    tokens : int, optional
        Length of every answer.
    delay : float
        Seconds before each token.
    on_request : callable, optional
        Called with `Received` when a request was checked.
    on_finish : callable, optional
        Called with `Ended` when it ended.

    Attributes
    ----------
    address : str
        ``127.0.0.1:50051``, once it has started.
    active : int
        Requests in progress.

    Raises
    ------
    OptionError
        If an argument is wrong.
    """

    def __init__(
        self,
        backend: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        encoder_dtype: str = "bfloat16",
        device_normalize: bool = False,
        shm: bool = True,
        tokens: int | None = None,
        delay: float = 0.0,
        on_request: Callable[[Received], object] | None = None,
        on_finish: Callable[[Ended], object] | None = None,
    ) -> None:
        self._messages: Messages = messages(backend)
        self.backend: Backend = self._messages.backend
        _check_options(self.backend, port, encoder_dtype, device_normalize, tokens, delay)
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.encoder_dtype = encoder_dtype
        self.device_normalize = device_normalize
        self.shm = shm and self.backend in ("vllm", "tokenspeed")
        self._tokens, self._delay = tokens, delay
        self._on_request, self._on_finish = on_request, on_finish
        self._running: dict[str, set[asyncio.Event]] = {}
        self._server: Any = None
        self._health: Any = None
        self._started = 0.0

    @property
    def active(self) -> int:
        """Requests in progress."""
        return sum(map(len, self._running.values()))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(None)

    async def start(self) -> None:
        """Listen.

        Raises
        ------
        OptionError
            If the address cannot be listened on.
        """
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (self._messages.service, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        try:
            port = self._server.add_insecure_port(self.address)
        except RuntimeError:
            raise OptionError(
                f"cannot listen on {one_line(self.address, 80)}: it is in use, or no address of this host"
            ) from None
        self.address = f"{self.address.rpartition(':')[0]}:{port}"
        for name in ("", self._messages.service):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._started = monotonic()
        await self._server.start()

    async def stop(self, grace: float | None = _GRACE) -> None:
        """Stop listening, and end requests that are still in progress after some seconds; at once if None."""
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace)

    async def wait(self) -> None:
        """Wait until the worker has stopped."""
        await self._server.wait_for_termination()

    # ---- the service

    def _handlers(self) -> Any:
        methods = {
            "HealthCheck": self._health_check,
            "GetModelInfo": self._model_info,
            "GetServerInfo": self._server_info,
            "Abort": self._abort,
        }
        single = grpc.unary_unary_rpc_method_handler
        found = {name: self._handler(name, method, single) for name, method in methods.items()}
        found["Generate"] = self._handler("Generate", self._generate, grpc.unary_stream_rpc_method_handler)
        return grpc.method_handlers_generic_handler(self._messages.service, found)

    def _handler(self, name: str, method: Any, make: Any) -> Any:
        pb2 = self._messages.pb2
        request, response = getattr(pb2, f"{name}Request"), getattr(pb2, f"{name}Response")
        return make(method, request_deserializer=request.FromString, response_serializer=response.SerializeToString)

    async def _generate(self, request: Any, context: Any) -> None:
        aborted, progress = asyncio.Event(), _Progress()
        events = self._running.setdefault(request.request_id, set())
        events.add(aborted)
        try:
            await self._serve(request, context, aborted, progress)
        finally:
            events.discard(aborted)
            if not events:
                self._running.pop(request.request_id, None)
            if self._on_finish is not None:
                self._on_finish(Ended(request.request_id, progress.outcome, progress.tokens))

    async def _serve(self, request: Any, context: Any, aborted: asyncio.Event, progress: "_Progress") -> None:
        received = await asyncio.to_thread(self._received, request)
        if self._on_request is not None:
            self._on_request(received)
        if received.decoded is None or received.problems:
            progress.outcome = "refused"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, in_one_line(received.problems))
            return
        ids = answer(received.decoded, self._tokens)
        prompt_tokens = len(received.decoded.input_ids)
        stream = getattr(request, _STREAM.get(self.backend, "stream"))
        while progress.tokens < len(ids) and not await self._is_aborted(aborted):
            progress.tokens += 1
            if stream:
                await context.write(self._chunk(request.request_id, ids, progress.tokens, prompt_tokens))
        ended: Outcome = "stop" if progress.tokens == len(ids) else "abort"
        await context.write(self._complete(request.request_id, ids[: progress.tokens], ended, prompt_tokens))
        progress.outcome = ended

    def _received(self, request: Any) -> Received:
        """Decode and check a request; takes as long as its tensors are large."""
        decoded = None
        try:
            decoded = decode(request, shm="unlink" if self.shm else "refuse")
            wrong = problems(decoded, device_normalize=self.device_normalize)
        except RequestError as error:
            wrong = [str(error)]
        return Received(request.request_id, request.ByteSize(), decoded, tuple(wrong))

    async def _is_aborted(self, aborted: asyncio.Event) -> bool:
        """Wait before a token."""
        try:
            async with asyncio.timeout(self._delay):
                return await aborted.wait()
        except TimeoutError:
            return aborted.is_set()

    def _chunk(self, request_id: str, ids: Sequence[int], sent: int, prompt_tokens: int) -> Any:
        chunk = self._messages.pb2.GenerateStreamChunk(
            token_ids=ids[sent - 1 : sent], prompt_tokens=prompt_tokens, completion_tokens=sent
        )
        return self._response(request_id, chunk=chunk)

    def _complete(self, request_id: str, ids: Sequence[int], reason: str, prompt_tokens: int) -> Any:
        complete = self._messages.pb2.GenerateComplete(
            finish_reason=reason, prompt_tokens=prompt_tokens, completion_tokens=len(ids)
        )
        getattr(complete, _IDS.get(self.backend, "output_ids")).extend(ids)
        return self._response(request_id, complete=complete)

    def _response(self, request_id: str, **fields: Any) -> Any:
        named = {} if self.backend == "vllm" else {"request_id": request_id}
        return self._messages.pb2.GenerateResponse(**fields, **named)

    async def _abort(self, request: Any, context: Any) -> Any:
        names = request.request_ids if self.backend == "vllm" else [request.request_id]
        events = [event for name in names for event in self._running.get(name, ())]
        for event in events:
            event.set()
        return self._messages.pb2.AbortResponse(**({} if self.backend == "vllm" else {"success": bool(events)}))

    async def _health_check(self, request: Any, context: Any) -> Any:
        fields = {"status": "OK"} if self.backend == "trtllm" else {"healthy": True, "message": WHAT_IT_IS}
        return self._messages.pb2.HealthCheckResponse(**fields)

    async def _model_info(self, request: Any, context: Any) -> Any:
        return self._messages.pb2.GetModelInfoResponse(**_model_fields(self))

    async def _server_info(self, request: Any, context: Any) -> Any:
        return self._messages.pb2.GetServerInfoResponse(**_server_fields(self, monotonic() - self._started))


@dataclass(slots=True)
class _Progress:
    """How far the answer to a request has come."""

    outcome: Outcome = "cancelled"
    tokens: int = 0


def _model_fields(worker: Worker) -> dict[str, Any]:
    """Return what a worker says of its model."""
    if worker.backend == "trtllm":
        return {"model_id": MODEL}
    fields: dict[str, Any] = {"model_path": MODEL, "served_model_name": MODEL, "supports_vision": True}
    if worker.backend != "tokenspeed":
        return fields | {"is_generation": True}
    dtypes = {"model_dtype": worker.encoder_dtype, "multimodal_encoder_dtype": worker.encoder_dtype}
    return fields | dtypes | {"supports_multimodal": True, "supported_modalities": [common().IMAGE, common().VIDEO]}


def _server_fields(worker: Worker, uptime: float) -> dict[str, Any]:
    """Return what a worker says of itself, where its engine's server says it."""
    if worker.backend == "trtllm":
        sizes = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "world_size")
        return {"version": MODEL, "backend": "none"} | dict.fromkeys(sizes, 1)
    fields: dict[str, Any] = {"active_requests": worker.active, "uptime_seconds": uptime}
    namespace = namespace_id() if worker.shm else ""
    if worker.backend == "sglang":
        return fields | {"server_type": MODEL, "sglang_version": MODEL}
    if worker.backend == "tokenspeed":
        return fields | {"tokenspeed_version": MODEL, "scheduler_info": {"shm_namespace_id": namespace}}
    return fields | {
        "server_type": MODEL,
        "data_parallel_size": 1,
        "shm_namespace_id": namespace,
        "mm_device_do_normalize": worker.device_normalize,
        "model_dtype": f"torch.{worker.encoder_dtype}",
        "multimodal_encoder_dtype": worker.encoder_dtype,
    }


def _check_options(
    backend: Backend, port: int, encoder_dtype: str, device_normalize: bool, tokens: int | None, delay: float
) -> None:
    if not 0 <= port < 1 << 16:
        raise OptionError(f"port is {port}; it must be 0 to 65535")
    if encoder_dtype not in FLOATS:
        raise OptionError(f"encoder_dtype must be {listed(FLOATS)}")
    if device_normalize and backend != "vllm":
        raise OptionError(f"{backend} does not normalize pixels; only vllm can (device_normalize)")
    if tokens is not None and tokens < 1:
        raise OptionError(f"tokens is {tokens}; it must be at least 1")
    if not delay >= 0:
        raise OptionError(f"delay is {delay}; it must not be negative")
