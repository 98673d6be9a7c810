"""Requests to a worker over gRPC, and its answers as they come; within an event loop and without one.

A request's bytes are handed over once. What fails before that is the connection alone, which is tried again; what fails
later is an error, as nobody can know how far the worker came.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from foveal.backends import BACKENDS, Backend, Request, ServerInfo, assemble
from foveal.backends.messages import messages, named_backend
from foveal.errors import FovealError, OptionError, RequestError, WorkerError
from foveal.grpc.answers import Event, Exchange, Finished, Known, Status, Tokens, introduction
from foveal.intermediate import Intermediate
from foveal.run.schedule import available_threads
from foveal.spec.values import one_line

try:
    import grpc
except ModuleNotFoundError as error:
    if error.name != "grpc":
        raise
    raise OptionError("a client needs more packages: pip install 'foveal[grpc]'") from None

__all__ = ["AsyncClient", "Client", "Finished", "Tokens"]

Transport = Literal["auto", "inline", "shm"]
TRANSPORTS = ("auto", "inline", "shm")

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""For each question that is asked while connecting. SGLang generates a token for the first, and gives it 20 s."""

_PAUSE_SECONDS = 0.02
"""After a connection that broke at once."""

_OPTIONS = {
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
    "grpc.enable_retries": 0,
    "grpc.keepalive_time_ms": 300_000,  # servers that were not told otherwise hang up on clients that ask more often
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.max_reconnect_backoff_ms": 5_000,
}


_Given = Request | Callable[[], Request]
"""A request, or what assembles it."""


class _Choices(NamedTuple):
    """What a caller says about a request that is not assembled yet."""

    sampling: Mapping[str, Any] | None = None
    request_id: str | None = None
    stream: bool = True
    transport: Transport = "auto"
    threads: int | None = None


class _Connection:
    """What both clients are told, and what they know of their worker."""

    def __init__(
        self,
        target: str,
        backend: str | None = None,
        *,
        credentials: Any = None,
        options: Sequence[tuple[str, Any]] = (),
        timeout: float | None = None,
        connect_timeout: float = CONNECT_SECONDS,
    ) -> None:
        if not isinstance(target, str) or not target:
            raise OptionError("target must be a text, as 'host:port'")
        if credentials is not None and not isinstance(credentials, grpc.ChannelCredentials):
            raise OptionError("credentials must be grpc.ChannelCredentials, as grpc.ssl_channel_credentials makes them")
        self.target = target
        self._shown = one_line(target, 80)
        self._wanted = None if backend is None else named_backend(backend)
        self._credentials = credentials
        self._options = list((_OPTIONS | dict(options)).items())
        self._timeout = _seconds("timeout", timeout)
        self._connect_timeout = _seconds("connect_timeout", connect_timeout) or CONNECT_SECONDS
        self._channel: Any = None
        self._worker: Known | None = None
        self._shares_memory = True

    @property
    def backend(self) -> Backend:
        """The worker's engine."""
        return self._known().backend

    @property
    def info(self) -> ServerInfo:
        """What the worker said of itself, as far as it changes what is sent to it."""
        return self._known().info

    @property
    def server(self) -> Any:
        """What the worker answered to ``GetServerInfo``; None if it has no such method."""
        return self._known().server

    @property
    def model(self) -> Any:
        """What the worker answered to ``GetModelInfo``; None if it has no such method."""
        return self._known().model

    def _known(self) -> Known:
        if self._worker is None:
            raise OptionError("the client is not connected: use it in a with statement, or call connect")
        return self._worker

    def _new_channel(self, module: Any) -> Any:
        """Return a channel of grpc, or of grpc.aio."""
        if self._credentials is None:
            return module.insecure_channel(self.target, self._options)
        return module.secure_channel(self.target, self._credentials, self._options)

    @contextmanager
    def _open(self, channel: Any) -> Iterator[None]:
        """Turn what a closed channel raises into an error that says so."""
        closed = WorkerError(f"{self._shown}: the client was closed")
        if channel is not self._channel:
            raise closed
        try:
            yield
        except (grpc.RpcError, grpc.aio.UsageError, ValueError, asyncio.CancelledError) as error:
            if channel is self._channel or _is_of_this_task(error):
                raise
            raise closed from None

    @contextmanager
    def _learning(self, exchange: Exchange) -> Iterator[None]:
        """Do without shared memory after a request with it failed: the worker may be of another user."""
        try:
            yield
        except FovealError as error:
            if exchange.is_shared and (isinstance(error, WorkerError) or "shared memory" in str(error)):
                self._shares_memory = False
            raise

    def _unreachable(self) -> WorkerError:
        others = "or not with a certificate that is trusted" if self._credentials else "or only with TLS"
        return WorkerError(
            f"{self._shown}: no connection within {self._connect_timeout:g} s (connect_timeout): nobody listens there, "
            f"{others}"
        )


class Client(_Connection):
    """Sends requests to a worker, and blocks.

    Threads may share it. ::

        with Client("localhost:50051") as client:
            for event in client.generate(intermediate, sampling={"max_tokens": 64}):
                print(event)

    gRPC does not survive a fork: a forked process needs a client of its own, and its parent must not have connected one
    before. Processes that are spawned are not affected.

    Parameters
    ----------
    target : str
        ``host:port``, or another name that gRPC knows.
    backend : {"vllm", "sglang", "trtllm", "tokenspeed"}, optional
        Found out if not given; if the worker is another one, that is an error.
    credentials : grpc.ChannelCredentials, optional
        For TLS, from `grpc.ssl_channel_credentials`. Without them nothing is encrypted.
    options : sequence of (str, object)
        Channel arguments of gRPC, in the place of the client's own: messages of any size, nothing is sent twice, and
        every 5 minutes the worker is asked whether it is still there.
    timeout : float, optional
        Seconds for each request, from the assembly to the last token; without end if not given.
    connect_timeout : float
        Seconds in which there must be a connection, before every request too. It is tried again and again.

    Attributes
    ----------
    target : str
    """

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> Self:
        """Connect, and ask the worker what it is.

        Raises
        ------
        WorkerError
            If it cannot be reached, or is none that is known.
        """
        if self._worker is None:
            channel = self._channel = self._new_channel(grpc)
            try:
                with self._open(channel):
                    if not _answers(channel, BACKENDS[0], self._connect_timeout):
                        raise self._unreachable()
                    self._worker = self._introduced(channel)
            except BaseException:
                self.close()
                raise
        return self

    def refresh(self) -> ServerInfo:
        """Ask the worker again what it is, as after it was started anew, and return `info`.

        Raises
        ------
        WorkerError
            If it cannot be reached, or is none that is known.
        OptionError
            If the client is not connected.
        """
        self._known()
        channel = self._channel
        with self._open(channel):
            if not _answers(channel, BACKENDS[0], self._connect_timeout):
                raise self._unreachable()
            self._worker, self._shares_memory = self._introduced(channel), True
        return self._worker.info

    def close(self) -> None:
        """Close the connection; what other threads wait for ends with an error."""
        channel, self._channel, self._worker = self._channel, None, None
        if channel is not None:
            channel.close()

    def generate(
        self,
        request: Intermediate | Request,
        *,
        sampling: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        stream: bool = True,
        transport: Transport = "auto",
        threads: int | None = None,
        timeout: float | None = None,
    ) -> Generator[Event, None, None]:
        """Send a request, and yield what comes.

        Whoever does not take all of it closes the generator, or lets go of it: then the request is cancelled.

        Parameters
        ----------
        request : Intermediate or Request
            From `Preprocessor.process`, assembled now; or from `foveal.backends.assemble`, whose shared memory is
            removed when the worker has read it, or the request has failed.
        sampling, request_id, stream, threads : optional
            As for `foveal.backends.assemble`. Not for a request that is assembled already.
        transport : {"auto", "inline", "shm"}
            By default shared memory where the worker says that it shares this host's, there is enough of it, and no
            request with it has failed.
        timeout : float, optional
            Seconds, in the place of the client's own. The assembly is not interrupted.

        Yields
        ------
        Tokens or Finished
            `Finished` once for each output.

        Raises
        ------
        RequestError
            If the request cannot be assembled, or the worker refuses it.
        WorkerError
            If the worker is gone, fails, or takes too long; the text says whether tokens had arrived.
        MediaError, ImageSizeError
            If an image cannot be decoded, or is of a size that the backend cannot take.
        OptionError
            If an argument is wrong, or the client is not connected.
        """
        worker, seconds = self._known(), _seconds("timeout", timeout) or self._timeout
        choices = _Choices(sampling, request_id, stream, transport, threads)
        given = _checked(worker, request, choices, self._shares_memory)
        return self._generate(self._channel, worker.backend, given, seconds)

    def _generate(
        self, channel: Any, backend: Backend, given: _Given, seconds: float | None
    ) -> Generator[Event, None, None]:
        exchange = Exchange(self._shown, backend, seconds)
        with (
            self._learning(exchange),
            ExitStack() as segments,
            ExitStack() as calls,
            _errors(exchange),
            self._open(channel),
        ):
            message = exchange.take(given if isinstance(given, Request) else given(), segments)
            self._make_ready(channel, backend, exchange)
            answers = channel.unary_stream(exchange.method)(message, timeout=exchange.begin())
            calls.callback(answers.cancel)
            del message
            for answer in answers:
                segments.close()
                yield from exchange.events(answer)
            exchange.end()

    def _make_ready(self, channel: Any, backend: Backend, exchange: Exchange) -> None:
        left = exchange.left()
        if left is not None and left < self._connect_timeout:
            if not _answers(channel, backend, left):
                raise exchange.too_late()
        elif not _answers(channel, backend, self._connect_timeout):
            raise self._unreachable()

    def _introduced(self, channel: Any) -> Known:
        steps = introduction(self._shown, self._wanted)
        method = next(steps)
        while True:
            try:
                answer: bytes | Status = channel.unary_unary(method)(b"", timeout=ANSWER_SECONDS)
            except grpc.RpcError as error:
                answer = Status.of(error)
            try:
                method = steps.send(answer)
            except StopIteration as end:
                worker: Known = end.value
                return worker


class AsyncClient(_Connection):
    """Sends requests to a worker from an event loop.

    It belongs to the loop in which it is connected. ::

        async with AsyncClient("localhost:50051") as client:
            async with aclosing(client.generate(intermediate, timeout=30)) as events:
                async for event in events:
                    print(event)

    Requests are assembled on threads of the client, as many at once as there are CPUs. What is cancelled while it is
    assembled is discarded as soon as it is done. gRPC copies the bytes of a request once, within the loop, which stands
    still for as long as that takes; in shared memory there are few.

    Parameters
    ----------
    target, backend, credentials, options, timeout, connect_timeout
        As for `Client`; so is what it says of forks.

    Attributes
    ----------
    target : str
    """

    _threads: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> Self:
        """Connect, and ask the worker what it is; see `Client.connect`."""
        if self._worker is None:
            channel = self._channel = self._new_channel(grpc.aio)
            self._threads = ThreadPoolExecutor(available_threads(), "foveal-assemble")
            try:
                with self._open(channel):
                    await self._be_ready(channel)
                    self._worker = await self._introduced(channel)
            except BaseException:
                await self.close()
                raise
        return self

    async def refresh(self) -> ServerInfo:
        """Ask the worker again what it is; see `Client.refresh`."""
        self._known()
        channel = self._channel
        with self._open(channel):
            await self._be_ready(channel)
            self._worker, self._shares_memory = await self._introduced(channel), True
        return self._worker.info

    async def close(self) -> None:
        """Close the connection, and wait for what is being assembled; requests in progress end with an error."""
        channel, self._channel, self._worker = self._channel, None, None
        threads, self._threads = self._threads, None
        if channel is not None:
            await channel.close()
        if threads is not None:
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    def generate(
        self,
        request: Intermediate | Request,
        *,
        sampling: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        stream: bool = True,
        transport: Transport = "auto",
        threads: int | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Send a request, and yield what comes; see `Client.generate` for arguments and errors.

        A request whose task is cancelled, or whose generator is closed, is cancelled at once, in whichever phase it is.
        A generator that is left early is closed by `contextlib.aclosing`, or by the event loop once nothing holds it.
        """
        worker, seconds = self._known(), _seconds("timeout", timeout) or self._timeout
        choices = _Choices(sampling, request_id, stream, transport, threads)
        given = _checked(worker, request, choices, self._shares_memory)
        return self._generate(self._channel, worker.backend, given, seconds)

    async def _generate(
        self, channel: Any, backend: Backend, given: _Given, seconds: float | None
    ) -> AsyncGenerator[Event, None]:
        exchange = Exchange(self._shown, backend, seconds)
        with (
            self._learning(exchange),
            ExitStack() as segments,
            ExitStack() as calls,
            _errors(exchange),
            self._open(channel),
        ):
            async with _within(exchange):
                message = [exchange.take(await self._made(given), segments)]
                await self._be_ready(channel)
            # The call keeps what it was given until it ends; so that is a list, which its serializer empties.
            answers = channel.unary_stream(exchange.method, list.pop)(message, timeout=exchange.begin())
            calls.callback(answers.cancel)
            async with aclosing(aiter(answers)) as stream:
                async for answer in stream:
                    segments.close()
                    for event in exchange.events(answer):
                        yield event
            exchange.end()

    async def _made(self, given: _Given) -> Request:
        if isinstance(given, Request):
            return given
        assert self._threads is not None
        made = self._threads.submit(given)
        try:
            return await asyncio.wrap_future(made)
        except BaseException:
            made.add_done_callback(_discard)
            raise

    async def _be_ready(self, channel: Any) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                await channel.channel_ready()
        except TimeoutError:
            raise self._unreachable() from None

    async def _introduced(self, channel: Any) -> Known:
        steps = introduction(self._shown, self._wanted)
        method = next(steps)
        while True:
            try:
                answer: bytes | Status = await channel.unary_unary(method)(b"", timeout=ANSWER_SECONDS)
            except grpc.RpcError as error:
                answer = Status.of(error)
            try:
                method = steps.send(answer)
            except StopIteration as end:
                worker: Known = end.value
                return worker


def _checked(worker: Known, request: Intermediate | Request, choices: _Choices, shares_memory: bool) -> _Given:
    """Return a request, or what assembles it.

    Raises
    ------
    OptionError
        If an argument is wrong.
    RequestError
        If the request was assembled for another backend.
    """
    if choices.transport not in TRANSPORTS:
        raise OptionError(f"transport must be one of {', '.join(TRANSPORTS)}")
    if isinstance(request, Intermediate):
        return partial(_assembled, worker, request, choices, shares_memory)
    if not isinstance(request, Request):
        raise OptionError("request must be an Intermediate, from Preprocessor.process, or a Request, from assemble")
    if choices != _Choices():
        raise OptionError("a request that is assembled already has its sampling, request_id, stream and transport")
    if request.backend != worker.backend:
        raise RequestError(f"the request was assembled for {request.backend}, and the worker is {worker.backend}")
    return request


def _assembled(worker: Known, intermediate: Intermediate, choices: _Choices, shares_memory: bool) -> Request:
    make = partial(
        assemble,
        intermediate,
        worker.backend,
        worker.info,
        sampling=choices.sampling,
        request_id=choices.request_id,
        stream=choices.stream,
        threads=choices.threads,
    )
    if choices.transport != "auto":
        return make(transport=choices.transport)
    if shares_memory:
        with suppress(RequestError):  # the worker reads none of this host's, or it is full; other reasons come again
            return make(transport="shm")
    return make(transport="inline")


def _discard(made: Future[Request]) -> None:
    """Discard what was assembled for nobody."""
    if not made.cancelled() and made.exception() is None:
        made.result().discard()


def _answers(channel: Any, backend: Backend, seconds: float) -> bool:
    """Return whether somebody answers.

    A blocking channel cannot be asked for its state without threads, which fail when it is closed (grpcio 1.85). So a
    small question is sent, which waits for a connection; any answer will do.
    """
    question = channel.unary_unary(messages(backend).method("GetModelInfo"))
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        try:
            question(b"", timeout=left, wait_for_ready=True)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                sleep(_PAUSE_SECONDS)
                continue
        return True
    return False


def _is_of_this_task(error: BaseException) -> bool:
    """Return whether this task was cancelled, and not a call that it waits for."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def _errors(exchange: Exchange) -> Iterator[None]:
    """Turn the end of a call into an error."""
    try:
        yield
    except grpc.RpcError as error:
        raise exchange.error(Status.of(error)) from None


@asynccontextmanager
async def _within(exchange: Exchange) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(exchange.left()):
            yield
    except TimeoutError:
        raise exchange.too_late() from None


def _seconds(name: str, value: float | None) -> float | None:
    """Return a number of seconds.

    Raises
    ------
    OptionError
        If it is none above 0.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise OptionError(f"{name} must be a number of seconds above 0")
    return float(value)
