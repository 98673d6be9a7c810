import asyncio
import gc
import io
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import pytest
from PIL import Image

import foveal
from foveal.backends import BACKENDS, Request, ServerInfo, assemble
from foveal.backends.messages import messages
from foveal.backends.shm import Segment, namespace_id
from foveal.errors import MediaError, OptionError, RequestError, WorkerError
from foveal.grpc import AsyncClient, Client, Finished, Tokens
from foveal.grpc.worker import Worker
from foveal.media.sources import Source

LONG = 180
"""Seconds until a test that hangs fails."""

CERTIFICATE = Path(__file__).parent.parent / "media" / "picture_test.pem"
PAD = 151655
CLOSED = "the client was closed"
CLIENTS = [AsyncClient, Client]
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
SHARING = ServerInfo(encoder_dtype="bfloat16", shm_namespace=namespace_id())


def png(height, width):
    file = io.BytesIO()
    random = np.random.default_rng(height)
    Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


PICTURES = [png(60, 80), png(90, 50)]


@pytest.fixture(scope="module")
def qwen():
    return foveal.Preprocessor.from_spec("qwen2_5_vl")


@pytest.fixture
def ready(qwen):
    """A prompt with two images."""
    return qwen.process([1, PAD, 2, PAD, 3], PICTURES)


@pytest.fixture
def text(qwen):
    return qwen.process([1, 2, 3])


@pytest.fixture
def slow(monkeypatch):
    """Decoding says when it has begun, and waits until it may go on."""
    begun, go, decode = threading.Event(), threading.Event(), Source.decode

    def wait(source):
        begun.set()
        assert go.wait(LONG)
        return decode(source)

    monkeypatch.setattr(Source, "decode", wait)
    yield begun, go
    go.set()


def run(coroutine):
    """Run a test, which leaves no task behind."""

    async def main():
        async with asyncio.timeout(LONG):
            await coroutine
            await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(main())


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def working(backend="vllm", **options):
    """A loopback worker, and what it has reported."""
    received, finished = [], []
    async with Worker(backend, on_request=received.append, on_finish=finished.append, **options) as worker:
        yield worker, received, finished


class Answered(NamedTuple):
    """A status that a server answers with."""

    code: grpc.StatusCode
    details: str = ""


class Server:
    """Serves methods of one backend in bytes, as a test wants them. Others are not implemented.

    ``generate`` is an async generator function of the request's bytes and the context.
    """

    def __init__(self, generate=None, backend="vllm", *, credentials=None, options=UNLIMITED, **answers):
        self.generate, self.requests = generate, []
        self.server = grpc.aio.server(options=options)
        singles = {"HealthCheck": b"", **answers}
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self.single(answer))
            for name, answer in singles.items()
            if answer != ""
        }
        handlers["Generate"] = grpc.unary_stream_rpc_method_handler(self.stream)
        service = grpc.method_handlers_generic_handler(messages(backend).service, handlers)
        self.server.add_generic_rpc_handlers((service,))
        if credentials is None:
            port = self.server.add_insecure_port("127.0.0.1:0")
        else:
            port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"

    async def __aenter__(self):
        await self.server.start()
        return self

    async def __aexit__(self, *error):
        await self.server.stop(None)

    def single(self, answer):
        async def method(request, context):
            if isinstance(answer, Answered):
                await context.abort(*answer)
            return answer

        return method

    async def stream(self, request, context):
        self.requests.append(len(request))
        async for response in self.generate(request, context):
            yield response


def chunk(*ids, backend="vllm", index=0, **counts):
    pb2 = messages(backend).pb2
    name = "sequence_index" if backend == "trtllm" else "index"
    made = pb2.GenerateStreamChunk(token_ids=ids, **counts, **{name: index})
    return pb2.GenerateResponse(chunk=made).SerializeToString()


def complete(*ids, backend="vllm", index=0, reason="stop", **fields):
    pb2 = messages(backend).pb2
    names = ("output_token_ids", "sequence_index") if backend == "trtllm" else ("output_ids", "index")
    made = pb2.GenerateComplete(finish_reason=reason, **fields, **dict(zip(names, (ids, index), strict=True)))
    return pb2.GenerateResponse(complete=made).SerializeToString()


def answering(*responses):
    """What answers with responses, and then with a status if that is the last."""

    async def generate(request, context):
        for response in responses:
            if isinstance(response, Answered):
                await context.abort(*response)
            yield response

    return generate


async def waiting(request, context):
    await asyncio.sleep(LONG)
    yield b""


async def events_of(kind, target, request, *, make=None, **options):
    """What a client yields; the blocking one in a thread of its own."""
    if kind is AsyncClient:
        async with AsyncClient(target, **(make or {})) as client:
            return [event async for event in client.generate(request, **options)]

    def block():
        with Client(target, **(make or {})) as client:
            return list(client.generate(request, **options))

    return await asyncio.to_thread(block)


async def failed(kind, error, match, target, request, **options):
    """The text of the error that a client raises: a short line, without addresses that its caller did not name."""
    with pytest.raises(error, match=match) as caught:
        await events_of(kind, target, request, **options)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 500
    assert "127.0.0.1" not in message.replace(target, "")
    return message


def segments():
    return {path.name for path in Path("/dev/shm").glob(f"foveal-*-{os.getpid()}-*")}


def mapped():
    return "/dev/shm/foveal-" in Path("/proc/self/maps").read_text()


def threads():
    """Threads, but for those that all share: asyncio's, those of the kernels, and the one of grpc.aio."""
    shared = re.compile(r"asyncio_|foveal_|.*\(_poll_wrapper\)")
    return {thread for thread in threading.enumerate() if not shared.match(thread.name)}


@asynccontextmanager
async def nothing_left():
    """Neither task nor thread nor shared memory may stay."""

    def there():
        return len(asyncio.all_tasks()), threads(), segments(), mapped()

    gc.collect()
    before = there()
    yield
    while there() != before:
        gc.collect()  # errors hold what their frames held
        await asyncio.sleep(0.005)


@contextmanager
def little_memory():
    """Files, those of shared memory too, may have 1000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def ids_of(events):
    return [number for event in events if isinstance(event, Tokens) for number in event.ids]


# ---- what arrives


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_come_in_order_and_an_end(backend, kind, ready):
    async def main():
        async with working(backend, tokens=30) as (worker, received, finished), nothing_left():
            events = await events_of(kind, worker.address, ready, sampling={"max_tokens": 30}, request_id="r")
            assert [each.problems for each in received] == [()]
            assert [each.outcome for each in finished] == ["stop"]
            decoded = received[0].decoded
            images = [item.feature_tokens for item in decoded.items] or [len(image) for image in decoded.images]
            expected = [len(decoded.input_ids), len(images), *images] * 10
            assert received[0].request_id == "r"
            assert events[:-1] == [Tokens((number,)) for number in expected[:30]]
            assert events[-1] == Finished(tuple(expected[:30]), "stop", len(decoded.input_ids), 30, 0)

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_without_a_stream_the_end_has_all(backend, kind, text):
    async def main():
        async with working(backend, tokens=9) as (worker, _, _):
            (event,) = await events_of(kind, worker.address, text, stream=False)
            assert event == Finished((3, 0, 3, 0, 3, 0, 3, 0, 3), "stop", 3, 9, 0)

    run(main())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [1, 8, 64])
def test_many_at_once(count, backend, qwen):
    """Each gets its own answer, which begins with the length of its prompt."""
    prompts = [qwen.process([1] * number + [PAD], PICTURES[0]) for number in range(count)]
    lengths = [len(each.input_ids if backend == "trtllm" else each.expanded.ids) for each in prompts]

    async def last(client, prompt):
        return [event async for event in client.generate(prompt)][-1]

    async def main():
        async with working(backend) as (worker, received, _), nothing_left(), AsyncClient(worker.address) as client:
            ends = await asyncio.gather(*(last(client, prompt) for prompt in prompts))
            assert [end.ids[0] for end in ends] == [end.prompt_tokens for end in ends] == lengths
            assert len({each.request_id for each in received}) == count

    run(main())


def test_threads_share_a_client(qwen):
    prompts = [qwen.process([1] * number + [PAD], PICTURES[0]) for number in range(16)]

    def all_of(target):
        with Client(target) as client, ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda prompt: list(client.generate(prompt))[-1].ids[0], prompts))

    async def main():
        async with working("sglang") as (worker, _, _), nothing_left():
            assert await asyncio.to_thread(all_of, worker.address) == [len(each.expanded.ids) for each in prompts]

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("backend", "responses"),
    [
        ("vllm", [chunk(5), chunk(6, 7), chunk(), chunk(8), complete(8, completion_tokens=1)]),
        ("sglang", [chunk(5, 6), chunk(7, 8), complete(7, 8, completion_tokens=4)]),
        ("tokenspeed", [chunk(), chunk(5, 6, 7, 8), complete(completion_tokens=4)]),
        ("trtllm", [chunk(5), chunk(6, 7, 8), complete(5, 6, 7, 8, reason="stop_word", completion_tokens=4)]),
        ("trtllm", [chunk(5, 6), complete(5, 6, 7, 8)]),
        ("vllm", [complete(5, 6, 7, 8, completion_tokens=4)]),
    ],
)
def test_the_end_is_the_same_however_backends_say_it(backend, responses, kind, text):
    pb2 = messages(backend).pb2

    def of_backend(data):
        """Made for vLLM above."""
        response = messages("vllm").pb2.GenerateResponse.FromString(data)
        if response.HasField("chunk"):
            return chunk(*response.chunk.token_ids, backend=backend)
        end = response.complete
        counts = {"prompt_tokens": 11, "cached_tokens": 3, "completion_tokens": end.completion_tokens}
        stop = {"matched_token_id": 8}
        return complete(*end.output_ids, backend=backend, reason=end.finish_reason, **counts, **stop)

    responses = [of_backend(data) for data in responses]
    chunks = [pb2.GenerateResponse.FromString(data).chunk.token_ids for data in responses[:-1]]

    async def main():
        async with Server(answering(*responses), backend) as server:
            events = await events_of(kind, server.address, text)
            assert events[:-1] == [Tokens(tuple(ids)) for ids in chunks if ids]
            assert events[-1] == Finished((5, 6, 7, 8), "stop", 11, 4, 3, matched_stop=8)

    run(main())


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_outputs(backend, text):
    responses = [
        *(chunk(1, backend=backend), chunk(2, backend=backend, index=1), chunk(3, backend=backend)),
        complete(3, backend=backend, reason="length"),
        chunk(4, 5, backend=backend, index=1),
        complete(4, 5, backend=backend, index=1, matched_stop_str="end"),
    ]

    async def main():
        async with Server(answering(*responses), backend) as server:
            *_, first, more, second = await events_of(AsyncClient, server.address, text)
            assert first == Finished((1, 3), "length", 0, 2, 0)
            assert more == Tokens((4, 5), 1)
            assert second == Finished((2, 4, 5), "stop", 0, 3, 0, "end", 1)

    run(main())


# ---- what a worker is


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_worker_says_what_it_is(backend, kind):
    def said(client):
        return client.backend, client.info, client.server, client.model

    async def main():
        async with working(backend, encoder_dtype="float16") as (worker, _, _), nothing_left():
            for wanted in (None, backend):
                if kind is AsyncClient:
                    async with AsyncClient(worker.address, wanted) as client:
                        name, info, server, model = said(client)
                else:
                    with await asyncio.to_thread(Client(worker.address, wanted).connect) as client:
                        name, info, server, model = said(client)
                assert name == backend
                assert info == ServerInfo.from_messages(backend, server, model)
                assert isinstance(server, messages(backend).pb2.GetServerInfoResponse)
                assert isinstance(model, messages(backend).pb2.GetModelInfoResponse)
                assert info.encoder_dtype == ("float16" if backend in ("vllm", "tokenspeed") else "float32")
                assert info.shm_namespace == (namespace_id() if backend in ("vllm", "tokenspeed") else "")

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_worker_that_says_little(kind, text):
    async def main():
        async with Server(answering(complete(1))) as server:
            assert (await events_of(kind, server.address, text))[-1].ids == (1,)
            async with AsyncClient(server.address) as client:
                assert (client.backend, client.info) == ("vllm", ServerInfo())
                assert (client.server, client.model) == (None, None)

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_worker_of_another_backend(kind, text):
    async def main():
        async with working("sglang") as (worker, _, _), nothing_left():
            match = "the worker is sglang, not vllm"
            await failed(kind, WorkerError, match, worker.address, text, make={"backend": "vllm"})

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_server_that_is_no_worker(kind, text):
    async def main():
        async with Server(HealthCheck="") as server, nothing_left():
            match = "there is a server, but none of vllm, sglang, trtllm, tokenspeed"
            await failed(kind, WorkerError, match, server.address, text)

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("answers", "match"),
    [
        ({"GetServerInfo": b"\xff\xff"}, "answered what is no GetServerInfoResponse of vllm"),
        ({"GetModelInfo": b"\x0a\x05a"}, "answered what is no GetModelInfoResponse of vllm"),
        ({"GetServerInfo": Answered(grpc.StatusCode.INTERNAL, "a\nb")}, r"failed: a\?b \(GetServerInfo\)"),
        ({"HealthCheck": Answered(grpc.StatusCode.UNAVAILABLE, "at 10.0.0.7:50")}, "is gone.*: at the address$"),
        ({"HealthCheck": Answered(grpc.StatusCode.UNAUTHENTICATED)}, "wants other credentials$"),
    ],
)
def test_answers_of_a_worker_that_are_wrong(answers, match, kind, text):
    async def main():
        async with Server(**answers) as server, nothing_left():
            await failed(kind, WorkerError, match, server.address, text)

    run(main())


def test_a_worker_whose_health_is_bad_is_known():
    async def main():
        async with (
            Server(backend="sglang", HealthCheck=Answered(grpc.StatusCode.INTERNAL)) as server,
            AsyncClient(server.address) as client,
        ):
            assert client.backend == "sglang"

    run(main())


@pytest.mark.parametrize("dtype", ["", "int8", "torch.bfloat16", "float99\n"])
def test_dtypes_of_a_worker(dtype, ready):
    info = messages("vllm").pb2.GetServerInfoResponse(multimodal_encoder_dtype=dtype).SerializeToString()
    sent = []

    async def generate(request, context):
        sent.append(messages("vllm").pb2.GenerateRequest.FromString(request).mm_inputs.pixel_values.dtype)
        yield complete(1)

    async def main():
        async with Server(generate, GetServerInfo=info) as server:
            await events_of(AsyncClient, server.address, ready)

    run(main())
    assert sent == ["bfloat16" if "bfloat16" in dtype else "float32"]


# ---- where pixels travel


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("backend", ["vllm", "tokenspeed"])
def test_shared_memory_where_it_is_shared(backend, kind, ready):
    async def main():
        sizes = {}
        for transport in ("auto", "shm", "inline"):
            async with working(backend) as (worker, received, _), nothing_left():
                await events_of(kind, worker.address, ready, transport=transport)
                assert [each.problems for each in received] == [()]
                sizes[transport] = received[0].message_bytes
        assert sizes["auto"] == sizes["shm"] < 2000 < 50_000 < sizes["inline"]

    run(main())


@pytest.mark.parametrize(("backend", "options"), [("vllm", {"shm": False}), ("sglang", {}), ("trtllm", {})])
def test_inline_where_memory_is_not_shared(backend, options, ready):
    async def main():
        async with working(backend, **options) as (worker, received, _):
            await events_of(AsyncClient, worker.address, ready)
            assert received[0].problems == ()
            assert received[0].message_bytes > 10_000
            await failed(AsyncClient, RequestError, "memory", worker.address, ready, transport="shm")

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_inline_where_there_is_too_little_memory(kind, ready):
    async def main():
        async with working() as (worker, received, _), nothing_left():
            with little_memory():
                await events_of(kind, worker.address, ready)
                assert received[0].message_bytes > 50_000
                await failed(kind, RequestError, "cannot be had", worker.address, ready, transport="shm")

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("backend", ["vllm", "tokenspeed"])
def test_requests_that_are_assembled_already(backend, kind, ready):
    async def main():
        async with working(backend) as (worker, received, _), nothing_left():
            for transport in ("inline", "shm"):
                request = assemble(ready, backend, SHARING, request_id=transport, transport=transport)
                assert len(segments()) == len(request.segments)
                events = await events_of(kind, worker.address, request)
                assert segments() == set()
                assert ids_of(events) == list(events[-1].ids)
            assert [each.request_id for each in received] == ["inline", "shm"]
            await failed(kind, OptionError, "assembled already", worker.address, request, sampling={"top_k": 1})
            await failed(kind, OptionError, "assembled already", worker.address, request, transport="shm")
            other = assemble(ready, "sglang")
            await failed(kind, RequestError, f"for sglang, and the worker is {backend}", worker.address, other)

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_shared_memory_goes_when_a_request_fails(kind, ready):
    """Whether the worker has read it or not."""

    async def main():
        async with Server(answering(Answered(grpc.StatusCode.INTERNAL))) as server, nothing_left():
            request = assemble(ready, "vllm", SHARING, transport="shm")
            assert len(segments()) == 1
            await failed(kind, WorkerError, "the worker failed; no token had arrived", server.address, request)
            assert segments() == set()

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_shared_memory_goes_with_the_first_answer(kind, ready):
    async def generate(request, context):
        yield chunk(1)
        await asyncio.sleep(LONG)

    def block(target, request):
        with Client(target) as client:
            for _ in client.generate(request):
                return segments()

    async def take(target, request):
        async with AsyncClient(target) as client, aclosing(client.generate(request)) as events:
            async for _ in events:
                return segments()

    async def main():
        async with Server(generate) as server:
            request = assemble(ready, "vllm", SHARING, transport="shm")
            given = server.address, request
            assert await (asyncio.to_thread(block, *given) if kind is Client else take(*given)) == set()

    run(main())


def test_bytes_are_let_go_while_tokens_come():
    async def generate(request, context):
        yield chunk(1)
        await asyncio.sleep(LONG)

    async def main():
        async with Server(generate) as server, AsyncClient(server.address) as client:
            request = Request("vllm", "r", bytes(1 << 20))
            before = sys.getrefcount(request.serialized)
            async with aclosing(client.generate(request)) as events:
                await anext(events)
                await until(lambda: sys.getrefcount(request.serialized) == before)

    run(main())


def test_a_message_of_300_megabytes():
    async def main():
        async with Server(answering(complete(1))) as server:
            request = Request("vllm", "r", bytes(300 << 20))
            await events_of(AsyncClient, server.address, request)
            assert server.requests == [300 << 20]

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_an_answer_of_many_megabytes(kind, text):
    """gRPC itself receives 4 MiB."""
    ids = tuple(range(1 << 27, (1 << 27) + (1 << 20)))

    async def main():
        async with Server(answering(complete(*ids))) as server:
            (event,) = await events_of(kind, server.address, text)
            assert event.ids == ids

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_messages_that_are_too_large(kind, ready):
    async def main():
        small = [("grpc.max_receive_message_length", 10_000)]
        async with Server(answering(complete(1)), options=small) as server, nothing_left():
            size = len(assemble(ready, "vllm").serialized)
            match = f"the request has {size} bytes, more than the worker receives"
            await failed(kind, RequestError, match, server.address, assemble(ready, "vllm"))
            largest = Request("vllm", "r", bytes(1 << 31))
            match = "2147483648 bytes, more than the 2147483647 of a message"
            await failed(kind, RequestError, match, server.address, largest)
            assert server.requests == []

    run(main())


# ---- what goes wrong


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE"])
def test_requests_that_a_worker_refuses(code, kind, text):
    details = "no such\nadapter \u202e" + "x" * 5000

    async def main():
        async with Server(answering(Answered(grpc.StatusCode[code], details))) as server, nothing_left():
            match = r"^the worker refused the request: no such\?adapter \?x+\.\.\.x+$"
            await failed(kind, RequestError, match, server.address, text)
            assert len(server.requests) == 1

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("code", "text_of"),
    [
        ("UNAVAILABLE", "the worker is gone, or takes no requests"),
        ("INTERNAL", "the worker failed"),
        ("UNKNOWN", "the worker failed"),
        ("RESOURCE_EXHAUSTED", "the worker has no room for the request"),
        ("DEADLINE_EXCEEDED", "the worker gave up, as it took too long"),
        ("CANCELLED", "the worker cancelled the request"),
        ("UNIMPLEMENTED", "the worker has no such method"),
        ("DATA_LOSS", "the worker answered DATA_LOSS"),
    ],
)
def test_workers_that_fail(code, text_of, kind, text):
    """They are never asked twice, whether tokens had arrived or not."""
    details = "at [fe80::1]:50, ipv4:10.0.0.7:50: queue full"

    async def main():
        begun = [
            ([], "no token"),
            ([chunk(1)], "1 token"),
            ([chunk(1, 2), chunk(3)], "3 tokens"),
            ([complete(1, 2)], "2 tokens"),
        ]
        for before, state in begun:
            async with Server(answering(*before, Answered(grpc.StatusCode[code], details))) as server, nothing_left():
                match = f"{text_of}: at the address, the address: queue full; {state} had arrived$"
                await failed(kind, WorkerError, match, server.address, text, make={"timeout": LONG})
                assert len(server.requests) == 1

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("responses", "match"),
    [
        ([], "the answer ended before it was complete; no token had arrived$"),
        ([chunk(1)], "the answer ended before it was complete; 1 token had arrived$"),
        ([chunk(1), chunk(2, index=1), complete(1)], "the answer ended before it was complete; 2 tokens"),
        ([chunk(1), b"\xff\xff"], "what is no GenerateResponse; 1 token had"),
        ([chunk(1), complete(reason="error")], "the worker failed while it generated; 1 token had"),
        ([b""], "the answer ended before it was complete"),
    ],
)
def test_answers_that_are_not_complete(responses, match, kind, text):
    async def main():
        async with Server(answering(*responses)) as server, nothing_left():
            await failed(kind, WorkerError, match, server.address, text)

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_an_answer_that_is_wrong_is_cancelled(kind, text):
    """While its error is held."""
    ended = []

    async def generate(request, context):
        try:
            yield b"\xff\xff"
            await asyncio.sleep(LONG)
        finally:
            ended.append(True)

    async def main():
        async with Server(generate) as server:
            client = kind(server.address)
            await (client.connect() if kind is AsyncClient else asyncio.to_thread(client.connect))
            events = client.generate(text)
            with pytest.raises(WorkerError, match="no GenerateResponse") as caught:
                await (anext(events) if kind is AsyncClient else asyncio.to_thread(next, events))
            await until(lambda: ended)
            assert caught.value.__traceback__ is not None
            await (client.close() if kind is AsyncClient else asyncio.to_thread(client.close))

    run(main())


WORKER = """
import asyncio
from foveal.grpc import Worker
async def main():
    async with Worker("vllm", tokens=100_000, delay=0.001) as worker:
        print(worker.address, flush=True)
        await worker.wait()
asyncio.run(main())
"""


@contextmanager
def other_process():
    """A worker in a process of its own, and its address."""
    with subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_worker_that_is_killed_while_it_answers(kind, text):
    def block(process, target):
        with Client(target) as client:
            for event in client.generate(text):
                process.send_signal(signal.SIGKILL)
                assert isinstance(event, Tokens)

    async def take(process, target):
        async with AsyncClient(target) as client:
            async for event in client.generate(text):
                process.send_signal(signal.SIGKILL)
                assert isinstance(event, Tokens)

    async def main():
        with other_process() as (process, target):
            async with nothing_left():
                with pytest.raises(WorkerError, match=r"the worker is gone.*; \d+ tokens? had arrived$") as caught:
                    await (asyncio.to_thread(block, process, target) if kind is Client else take(process, target))
                assert "127.0.0.1" not in str(caught.value).replace(target, "")

    run(main())


# ---- connections


@pytest.mark.parametrize("kind", CLIENTS)
def test_nobody_listens(kind, text):
    async def main():
        async with working() as (worker, _, _):
            pass
        async with nothing_left():
            match = r"no connection within 0\.3 s \(connect_timeout\): nobody listens there, or only with TLS$"
            await failed(kind, WorkerError, match, worker.address, text, make={"connect_timeout": 0.3})

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_connection_is_tried_again(kind, text):
    async def main():
        async with working() as (worker, _, _):
            pass
        events = asyncio.create_task(events_of(kind, worker.address, text, make={"connect_timeout": LONG}))
        await asyncio.sleep(0.5)
        assert not events.done()
        async with working(port=int(worker.address.rpartition(":")[2])):
            assert (await events)[-1].ids == (3, 0)

    run(main())


def test_a_worker_that_starts_anew(text):
    async def main():
        async with working() as (worker, _, _), AsyncClient(worker.address, connect_timeout=0.3) as client:
            await worker.stop(None)
            await until(lambda: client._channel.get_state() != grpc.ChannelConnectivity.READY)
            with pytest.raises(WorkerError, match="no connection within"):
                await anext(client.generate(text))
            with pytest.raises(WorkerError, match=r"not complete after 0\.1 s \(timeout\); nothing had been sent$"):
                await anext(client.generate(text, timeout=0.1))
            client._connect_timeout = LONG
            task = asyncio.create_task(anext(client.generate(text)))
            await asyncio.sleep(0.2)
            async with working(port=int(worker.address.rpartition(":")[2])):
                assert await task == Tokens((3,))

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_worker_with_other_settings_is_asked_again(kind, ready):
    async def main():
        async with Worker("vllm") as first:
            port = int(first.address.rpartition(":")[2])
            client = kind(first.address)
            await called(client.connect)
        async with Worker("vllm", port=port, device_normalize=True) as second:
            with pytest.raises(RequestError, match="it must be uint8"):
                await collected(client, ready)
            assert not client.info.device_normalize
            assert (await called(client.refresh)).device_normalize
            assert (await collected(client, ready))[-1].reason == "stop"
            await called(client.close)
            assert second.active == 0

    run(main())


async def called(function):
    """Call a method of either client, the blocking one's on a thread."""
    found = function() if asyncio.iscoroutinefunction(function) else asyncio.to_thread(function)
    return await found


async def collected(client, request):
    if isinstance(client, Client):
        return await asyncio.to_thread(lambda: list(client.generate(request)))
    return [event async for event in client.generate(request)]


@pytest.mark.parametrize("kind", CLIENTS)
def test_no_shared_memory_after_it_failed(kind, ready, monkeypatch):
    async def main():
        async with working() as (worker, received, _):
            client = kind(worker.address)
            await called(client.connect)
            monkeypatch.setattr("foveal.grpc.tensors.DIRECTORY", "/proc/self/absent")
            with pytest.raises(RequestError, match="shared memory"):
                await collected(client, ready)
            assert (await collected(client, ready))[-1].reason == "stop"
            assert [one.decoded is None for one in received] == [True, False]
            await called(client.close)

    run(main())


def test_a_worker_that_starts_anew_for_a_blocking_client(text):
    def fails(client, match, **options):
        with pytest.raises(WorkerError, match=match):
            next(client.generate(text, **options))

    async def main():
        async with working() as (worker, _, _):
            client = await asyncio.to_thread(Client(worker.address, connect_timeout=0.3).connect)
        await asyncio.to_thread(fails, client, "no connection within")
        match = r"not complete after 0\.1 s \(timeout\); nothing had been sent$"
        await asyncio.to_thread(fails, client, match, timeout=0.1)
        client._connect_timeout = LONG
        task = asyncio.create_task(asyncio.to_thread(list, client.generate(text)))
        await asyncio.sleep(0.2)
        async with working(port=int(worker.address.rpartition(":")[2])):
            assert (await task)[-1].ids == (3, 0)
        client.close()

    run(main())


def test_tls(text):
    key, certificate = CERTIFICATE.read_bytes().split(b"-----BEGIN CERTIFICATE-----")
    certificate = b"-----BEGIN CERTIFICATE-----" + certificate
    trusted = grpc.ssl_channel_credentials(certificate)
    named = [("grpc.ssl_target_name_override", "picture.test")]

    async def main():
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        async with Server(answering(complete(1)), credentials=credentials) as server, nothing_left():
            for kind in CLIENTS:
                make = {"credentials": trusted, "options": named}
                assert (await events_of(kind, server.address, text, make=make))[-1].ids == (1,)
            untrusted = [
                ({}, "or only with TLS$"),
                ({"credentials": trusted}, "certificate that is trusted$"),
                ({"credentials": grpc.ssl_channel_credentials(), "options": named}, "certificate that is trusted$"),
            ]
            for make, match in untrusted:
                make = {"connect_timeout": 0.5, **make}
                await failed(AsyncClient, WorkerError, match, server.address, text, make=make)

    run(main())


# ---- deadlines


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_deadline_while_it_is_assembled(kind, ready, slow):
    _, go = slow

    async def main():
        async with working() as (worker, received, _), nothing_left():
            asyncio.get_running_loop().call_later(0.5, go.set)
            match = r"not complete after 0\.2 s \(timeout\); nothing had been sent$"
            await failed(kind, WorkerError, match, worker.address, ready, timeout=0.2)
        assert received == []

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_deadline_before_the_first_token(kind, text):
    async def main():
        async with working(delay=LONG) as (worker, _, finished), nothing_left():
            match = r"not complete after 0\.3 s \(timeout\); no token had arrived$"
            await failed(kind, WorkerError, match, worker.address, text, make={"timeout": 0.3})
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_deadline_while_tokens_come(kind, text):
    async def main():
        async with working(tokens=100_000, delay=0.01) as (worker, _, finished), nothing_left():
            match = r"not complete after 0\.5 s \(timeout\); \d+ tokens had arrived$"
            await failed(kind, WorkerError, match, worker.address, text, timeout=0.5, make={"timeout": LONG})
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())


# ---- cancellation


async def cancelled(task):
    """Cancel a task and see that it ends at once."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_loop_goes_on_while_a_request_is_assembled(ready, slow):
    begun, go = slow

    async def main():
        async with working() as (worker, _, _), AsyncClient(worker.address) as client:
            task = asyncio.create_task(anext(client.generate(ready)))
            await until(begun.is_set)
            go.set()
            assert isinstance(await task, Tokens)

    run(main())


@pytest.fixture
def made(monkeypatch):
    """Segments that were made, which are held: none goes because it is forgotten."""
    held, create = [], Segment.create

    def create_and_hold(nbytes):
        held.append(create(nbytes))
        return held[-1]

    monkeypatch.setattr(Segment, "create", create_and_hold)
    return held


@pytest.mark.parametrize("transport", ["inline", "shm"])
def test_cancelled_while_it_is_assembled(transport, ready, slow, made):
    begun, go = slow

    async def main():
        async with working() as (worker, received, _), nothing_left(), AsyncClient(worker.address) as client:
            task = asyncio.create_task(anext(client.generate(ready, transport=transport)))
            await until(begun.is_set)
            await cancelled(task)
            assert len(segments()) == len(made) == (transport == "shm")
            go.set()
            await until(lambda: segments() == set())
        assert received == []

    run(main())


def test_cancelled_while_others_are_assembled(ready, slow, monkeypatch):
    """What waits for a thread is never begun."""
    begun, go = slow
    monkeypatch.setenv("FOVEAL_THREADS", "1")
    opened = []

    async def main():
        async with working() as (worker, received, _), nothing_left(), AsyncClient(worker.address) as client:
            first = asyncio.create_task(anext(client.generate(ready, request_id="first", threads=1)))
            await until(begun.is_set)
            monkeypatch.setattr(Source, "decode", opened.append)
            second = asyncio.create_task(anext(client.generate(ready, request_id="second")))
            await asyncio.sleep(0)
            await cancelled(second)
            await cancelled(first)
            go.set()
        assert received == []

    run(main())
    assert len(opened) <= 1  # the second image of the first request


def test_cancelled_before_there_is_a_connection(ready):
    async def main():
        async with working() as (worker, _, _), AsyncClient(worker.address) as client:
            await worker.stop(None)
            await until(lambda: client._channel.get_state() != grpc.ChannelConnectivity.READY)
            async with nothing_left():
                request = assemble(ready, "vllm", SHARING, transport="shm")
                task = asyncio.create_task(anext(client.generate(request)))
                await asyncio.sleep(0.1)
                assert len(segments()) == 1
                await cancelled(task)
                assert segments() == set()

    run(main())


def test_cancelled_before_the_first_token(ready):
    async def main():
        async with (
            working(delay=LONG) as (worker, received, finished),
            nothing_left(),
            AsyncClient(worker.address) as client,
        ):
            task = asyncio.create_task(anext(client.generate(ready)))
            await until(lambda: received)
            await cancelled(task)
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())


def test_cancelled_before_the_worker_has_read_it(ready):
    async def main():
        async with Server(waiting) as server, nothing_left(), AsyncClient(server.address) as client:
            request = assemble(ready, "vllm", SHARING, transport="shm")
            task = asyncio.create_task(anext(client.generate(request)))
            await until(lambda: server.requests)
            assert len(segments()) == 1
            await cancelled(task)
            assert segments() == set()

    run(main())


@pytest.mark.parametrize("how", ["cancel", "close", "break", "timeout"])
def test_left_while_tokens_come(how, text):
    async def take(client, took):
        async for event in client.generate(text):
            took.append(event)
            if how == "break" and len(took) == 3:
                break

    async def leave(client, took):
        if how == "close":
            events = client.generate(text)
            took.extend([await anext(events) for _ in range(3)])
            await events.aclose()
            return
        task = asyncio.create_task(take(client, took))
        await until(lambda: len(took) >= 3)
        if how == "cancel":
            await cancelled(task)
        elif how == "timeout":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(task, 0.05)
        else:
            await task

    async def main():
        async with (
            working(tokens=100_000, delay=0.002) as (worker, _, finished),
            nothing_left(),
            AsyncClient(worker.address) as client,
        ):
            took = []
            await leave(client, took)
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])
            assert ids_of(took)[:4:2] == [3, 3]
            assert (await anext(client.generate(text))).ids == (3,)

    run(main())


@pytest.mark.parametrize("how", ["close", "break"])
def test_a_blocking_client_leaves_while_tokens_come(how, text):
    def leave(target):
        with Client(target) as client:
            events = client.generate(text)
            if how == "close":
                took = [next(events) for _ in range(3)]
                events.close()
                return took
            took = []
            for event in client.generate(text):
                took.append(event)
                if len(took) == 3:
                    break
            return took

    async def main():
        async with working(tokens=100_000, delay=0.002) as (worker, _, finished), nothing_left():
            assert await asyncio.to_thread(leave, worker.address) == [Tokens((3,)), Tokens((0,)), Tokens((3,))]
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())


def test_connecting_is_cancelled():
    async def main():
        async with working() as (worker, _, _):
            pass
        async with nothing_left():
            client = AsyncClient(worker.address)
            task = asyncio.create_task(client.connect())
            await asyncio.sleep(0.1)
            await cancelled(task)
            assert client._channel is None

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
def test_connecting_fails(kind):
    async def main():
        async with working() as (worker, _, _):
            client = kind(worker.address, "sglang")
            for _ in range(2):
                with pytest.raises(WorkerError, match="not sglang"):
                    await (client.connect() if kind is AsyncClient else asyncio.to_thread(client.connect))
                assert client._channel is None

    run(main())


# ---- closing


def test_closed_while_requests_are_in_every_phase(text, ready, slow):
    """They end with an error, and are not cancelled."""
    begun, go = slow

    async def main():
        async with working(tokens=100_000, delay=0.002) as (worker, _, finished), nothing_left():
            client = await AsyncClient(worker.address).connect()
            tasks = [asyncio.create_task(last(client.generate(given))) for given in (text, ready)]
            never = client.generate(text)
            await until(begun.is_set)
            await until(lambda: worker.active == 1)
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0.1)
            assert not closing.done()
            go.set()
            await closing
            for task in tasks:
                with pytest.raises(WorkerError, match=CLOSED):
                    await task
            with pytest.raises(WorkerError, match=CLOSED):
                await anext(never)
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())


def test_closed_and_cancelled(text):
    async def main():
        async with working(delay=LONG) as (worker, received, _), nothing_left():
            client = await AsyncClient(worker.address).connect()
            task = asyncio.create_task(anext(client.generate(text)))
            await until(lambda: received)
            task.cancel()
            await client.close()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())


async def last(events):
    return [event async for event in events][-1]


def test_a_blocking_client_is_closed_by_another_thread(text):
    async def main():
        async with working(tokens=100_000, delay=0.002) as (worker, _, finished), nothing_left():
            client = await asyncio.to_thread(Client(worker.address).connect)
            task = asyncio.create_task(asyncio.to_thread(list, client.generate(text)))
            never = client.generate(text)
            await until(lambda: worker.active == 1)
            await asyncio.to_thread(client.close)
            with pytest.raises(WorkerError, match=CLOSED):
                await task
            with pytest.raises(WorkerError, match=CLOSED):
                next(never)
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())


def test_a_blocking_client_is_closed_while_it_waits_for_a_connection():
    async def main():
        async with working() as (worker, _, _):
            pass
        async with nothing_left():
            client = Client(worker.address, connect_timeout=LONG)
            task = asyncio.create_task(asyncio.to_thread(client.connect))
            await until(lambda: client._channel is not None)
            await asyncio.sleep(0.1)
            await asyncio.to_thread(client.close)
            with pytest.raises(WorkerError, match=CLOSED):
                await task

    run(main())


def test_a_client_may_connect_again(text):
    async def main():
        async with working() as (worker, _, _), nothing_left():
            client, blocking = AsyncClient(worker.address), Client(worker.address)
            for _ in range(2):
                async with client:
                    assert await client.connect() is client
                    assert await last(client.generate(text))
                with await asyncio.to_thread(blocking.connect):
                    assert await asyncio.to_thread(list, blocking.generate(text))
                await client.close()
                blocking.close()

    run(main())


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("use", [lambda client: client.generate(b""), lambda client: client.info])
def test_a_client_that_is_not_connected(use, kind):
    with pytest.raises(OptionError, match="not connected"):
        use(kind("localhost:1"))


# ---- arguments


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"target": ""}, "target must be"),
        ({"target": 50051}, "target must be"),
        ({"backend": "mlx"}, "backend must be one of"),
        ({"credentials": b"pem"}, r"credentials must be grpc\.ChannelCredentials"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"connect_timeout": "1"}, "connect_timeout must be"),
    ],
)
def test_arguments_that_are_wrong(kind, arguments, match):
    with pytest.raises(OptionError, match=match):
        kind(**{"target": "localhost:1", **arguments})


@pytest.mark.parametrize("kind", CLIENTS)
def test_requests_that_are_wrong(kind, qwen, ready):
    """Nothing of them is sent."""
    damaged = qwen.process([PAD], PICTURES[0][:-500])

    async def main():
        async with working() as (worker, received, _), nothing_left():
            for request, options, error, match in [
                (b"", {}, OptionError, "request must be"),
                (ready, {"transport": "rdma"}, OptionError, "transport must be one of auto, inline, shm"),
                (ready, {"timeout": -1}, OptionError, "timeout must be"),
                (ready, {"request_id": ""}, OptionError, "request_id must be"),
                (ready, {"sampling": {"top_q": 1}}, RequestError, "vllm has no 'top_q'"),
                (damaged, {}, MediaError, "image 0"),
            ]:
                await failed(kind, error, match, worker.address, request, **options)
        assert received == []

    run(main())


def test_a_client_needs_grpcio():
    code = "import sys; sys.modules['grpc'] = None; from foveal.grpc import Client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "OptionError: a client needs more packages: pip install 'foveal[grpc]'"
    )


def test_requests_in_progress_when_a_client_is_dropped(text):
    """A generator that nobody holds any more cancels its request."""

    async def main():
        async with (
            working(tokens=100_000, delay=0.002) as (worker, _, finished),
            nothing_left(),
            AsyncClient(worker.address) as client,
        ):
            events = client.generate(text)
            await anext(events)
            del events
            gc.collect()
            await until(lambda: [each.outcome for each in finished] == ["cancelled"])

    run(main())
