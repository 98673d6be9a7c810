import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import grpc
import handmade
import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from handmade import RIGHT, image_bytes, put, values

from foveal.backends.messages import BACKENDS, messages
from foveal.backends.server import ServerInfo
from foveal.backends.shm import namespace_id
from foveal.errors import OptionError
from foveal.grpc.checking import problems
from foveal.grpc.decoding import decode
from foveal.grpc.worker import WHAT_IT_IS, Ended, Worker, answer

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
OF_BACKEND = {"vllm": "qwen", "sglang": "sglang_qwen", "trtllm": "trtllm", "tokenspeed": "tokenspeed_qwen"}
LONG = 30
"""Seconds until a test that hangs fails."""


@asynccontextmanager
async def running(backend, **options):
    """A worker, a channel to it, and what it reported."""
    received, finished = [], []
    worker = Worker(backend, on_request=received.append, on_finish=finished.append, **options)
    async with asyncio.timeout(LONG):
        async with worker, grpc.aio.insecure_channel(worker.address, options=OPTIONS) as channel:
            yield worker, channel, received, finished
        await until(lambda: not worker.active and len(asyncio.all_tasks()) == 1)


def rpc(channel, backend, name, stream=False):
    pb2 = messages(backend).pb2
    make = channel.unary_stream if stream else channel.unary_unary
    return make(
        messages(backend).method(name),
        request_serializer=getattr(pb2, f"{name}Request").SerializeToString,
        response_deserializer=getattr(pb2, f"{name}Response").FromString,
    )


def generate(channel, request):
    return rpc(channel, decode(request).backend, "Generate", stream=True)(request)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


async def next_of(call):
    return await anext(aiter(call))


def ids_of(complete):
    return list(complete.output_token_ids if hasattr(complete, "output_token_ids") else complete.output_ids)


# ---- answers


@pytest.mark.parametrize("name", list(RIGHT))
def test_answers(name):
    request = RIGHT[name]()
    decoded = decode(request)
    if decoded.backend == "trtllm":
        request.streaming = True
    else:
        request.stream = True

    async def main():
        async with running(decoded.backend) as (_, channel, received, finished):
            responses = [response async for response in generate(channel, request)]
            assert [each.problems for each in received] == [()]
            assert [len(each.decoded.items) for each in received] == [len(decoded.items)]
            assert [each.message_bytes for each in received] == [len(request.SerializeToString())]
            return responses, finished

    (*chunks, last), finished = asyncio.run(main())
    expected = answer(decoded)
    assert [list(each.chunk.token_ids) for each in chunks] == [[number] for number in expected]
    assert [each.chunk.completion_tokens for each in chunks] == list(range(1, len(expected) + 1))
    assert ids_of(last.complete) == expected
    assert last.complete.finish_reason == "stop"
    assert {each.chunk.prompt_tokens for each in chunks} == {last.complete.prompt_tokens} == {len(decoded.input_ids)}
    assert last.complete.completion_tokens == len(expected)
    assert {getattr(each, "request_id", "r") for each in (*chunks, last)} == {"r"}
    assert finished == [Ended("r", "stop", len(expected))]


def test_an_answer_is_what_was_counted():
    assert answer(decode(handmade.llama4())) == [15, 2, 6, 2]
    assert answer(decode(handmade.sglang_qwen())) == [16, 1, 8]
    assert answer(decode(handmade.tokenspeed_llama4())) == [15, 2, 6, 2]
    png = image_bytes()
    assert answer(decode(handmade.trtllm(png, png))) == [3, 2, len(png), len(png)]
    assert answer(decode(handmade.text())) == [3, 0]
    assert answer(decode(handmade.text()), 5) == [3, 0, 3, 0, 3]
    assert answer(decode(handmade.llama4()), 3) == [15, 2, 6]


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_a_stream_there_is_one_response(backend):
    request = RIGHT[OF_BACKEND[backend]]()
    request.ClearField("streaming" if backend == "trtllm" else "stream")

    async def main():
        async with running(backend, tokens=7) as (_, channel, _, _):
            return [response async for response in generate(channel, request)]

    (response,) = asyncio.run(main())
    assert ids_of(response.complete) == answer(decode(request), 7)


def test_requests_at_the_same_time():
    async def one(channel, number):
        request = handmade.llama4()
        request.request_id = f"r{number}"
        del request.tokenized.input_ids[:]
        request.tokenized.input_ids[:] = [*handmade.LLAMA4_IDS, *[1] * number]
        responses = [response async for response in generate(channel, request)]
        return responses[-1].complete.prompt_tokens

    async def main():
        async with running("vllm", delay=0.01) as (_, channel, received, finished):
            counts = await asyncio.gather(*(one(channel, number) for number in range(32)))
            assert counts == [15 + number for number in range(32)]
            assert {each.request_id for each in received} == {f"r{number}" for number in range(32)}
            assert {each.outcome for each in finished} == {"stop"}

    asyncio.run(main())


def test_messages_of_any_size():
    pixels = values(2, 3 << 20, dtype=np.float32)
    request = handmade.vllm(handmade.LLAVA_IDS, handmade.LLAVA_RANGES, pixels, {}, batched=["pixel_values"])

    async def main():
        async with running("vllm") as (_, channel, received, _):
            responses = [response async for response in generate(channel, request)]
            tensor = received[0].decoded.batches[0].tensors["pixel_values"]
            assert tensor.tobytes() == pixels.tobytes()
            return ids_of(responses[-1].complete)

    assert asyncio.run(main()) == [10, 2, 4, 4]


# ---- refusals


async def refusal(channel, backend, request):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in rpc(channel, backend, "Generate", stream=True)(request):
            pass
    return caught.value.code(), caught.value.details()


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_requests_are_refused(backend):
    request = RIGHT[OF_BACKEND[backend]]()
    request.ClearField("tokenized")

    async def main():
        async with running(backend) as (_, channel, received, finished):
            refused = await refusal(channel, backend, request)
            return refused, received, finished

    (code, details), (received,), finished = asyncio.run(main())
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith("input_ids is empty; the prompt must be token ids") == (received.decoded is not None)
    if received.decoded is not None:
        assert list(received.problems) == problems(decode(request))
    assert details.startswith(received.problems[0])
    assert finished == [Ended("r", "refused", 0)]


def test_what_cannot_be_decoded_is_refused():
    request = handmade.llava()
    request.mm_inputs.pixel_values.dtype = "float64"

    async def main():
        async with running("vllm") as (_, channel, received, _):
            assert await refusal(channel, "vllm", request) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                "mm_inputs.pixel_values has the dtype 'float64'; it must be float32, bfloat16, float16, uint8, int64 "
                "or uint32",
            )
            assert [each.decoded for each in received] == [None]
            return [response async for response in generate(channel, handmade.llava())]

    assert ids_of(asyncio.run(main())[-1].complete) == [10, 2, 4, 4]


@pytest.mark.parametrize("normalizes", [False, True])
def test_pixels_must_be_what_the_worker_says(normalizes):
    right, wrong = (np.uint8, np.float32)[:: 1 if normalizes else -1]

    async def main():
        async with running("vllm", device_normalize=normalizes) as (_, channel, _, _):
            responses = [response async for response in generate(channel, handmade.qwen(right))]
            assert responses[-1].complete.finish_reason == "stop"
            return await refusal(channel, "vllm", handmade.qwen(wrong))

    code, details = asyncio.run(main())
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith(f"mm_inputs.pixel_values is {np.dtype(wrong)}, but the engine ")


def test_methods_that_it_does_not_have():
    async def main():
        async with running("vllm") as (_, channel, _, _):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await rpc(channel, "vllm", "GetLoads")(messages("vllm").pb2.GetLoadsRequest())
            return caught.value.code()

    assert asyncio.run(main()) is grpc.StatusCode.UNIMPLEMENTED


# ---- shared memory


@pytest.mark.parametrize("reads", [True, False])
def test_shared_memory(reads):
    name = f"foveal-test-{secrets.token_hex(8)}"
    request = handmade.llava()
    data = request.mm_inputs.pixel_values.inline
    request.mm_inputs.pixel_values.shm.name = name
    request.mm_inputs.pixel_values.shm.nbytes = len(data)

    async def main():
        async with running("vllm", shm=reads) as (_, channel, _, _):
            if not reads:
                return await refusal(channel, "vllm", request)
            return [response async for response in rpc(channel, "vllm", "Generate", stream=True)(request)]

    try:
        with open(f"/dev/shm/{name}", "xb") as file:
            file.write(data)
        result = asyncio.run(main())
        assert os.path.exists(f"/dev/shm/{name}") is not reads
    finally:
        with suppress(FileNotFoundError):
            os.unlink(f"/dev/shm/{name}")
    if reads:
        assert ids_of(result[-1].complete) == [10, 2, 4, 4]
    else:
        assert result[1] == "mm_inputs.pixel_values is in shared memory, which is not read here; it must be inline"


# ---- the end of a request


def long_request(name="r"):
    request = handmade.llava()
    request.request_id = name
    return request


def test_a_client_that_cancels():
    async def main():
        async with running("vllm", tokens=10_000, delay=0.005) as (worker, channel, _, finished):
            call = generate(channel, long_request())
            async for response in call:
                if response.chunk.completion_tokens == 3:
                    break
            assert worker.active == 1
            call.cancel()
            await until(lambda: finished)
            assert worker.active == 0
            (end,) = finished
            assert (end.request_id, end.outcome) == ("r", "cancelled")
            assert 3 <= end.tokens < 10_000

    asyncio.run(main())


def test_a_client_that_cancels_before_the_first_token():
    async def main():
        async with running("vllm", delay=LONG) as (_, channel, received, finished):
            call = generate(channel, long_request())
            waiting = asyncio.ensure_future(next_of(call))
            await until(lambda: received)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(lambda: finished)
            assert finished == [Ended("r", "cancelled", 0)]

    asyncio.run(main())


def test_a_deadline():
    async def main():
        async with running("vllm", delay=LONG) as (_, channel, _, finished):
            call = rpc(channel, "vllm", "Generate", stream=True)(long_request(), timeout=0.3)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await next_of(call)
            await until(lambda: finished)
            assert finished == [Ended("r", "cancelled", 0)]
            return caught.value.code()

    assert asyncio.run(main()) is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("backend", BACKENDS)
def test_abort(backend):
    pb2 = messages(backend).pb2
    request = RIGHT[OF_BACKEND[backend]]()

    async def main():
        async with running(backend, tokens=10_000, delay=0.005) as (_, channel, _, finished):
            abort = rpc(channel, backend, "Abort")
            call = generate(channel, request)
            await next_of(call)
            fields = {"request_ids": ["other", "r"]} if backend == "vllm" else {"request_id": "r"}
            answered = await abort(pb2.AbortRequest(**fields))
            assert getattr(answered, "success", True)
            *_, last = [response async for response in call]
            assert last.complete.finish_reason == "abort"
            assert last.complete.completion_tokens == len(ids_of(last.complete)) < 10_000
            await until(lambda: finished)
            assert [each.outcome for each in finished] == ["abort"]
            again = await abort(pb2.AbortRequest(**fields))
            assert not getattr(again, "success", False)

    asyncio.run(main())


def test_abort_of_requests_with_one_id():
    async def main():
        async with running("vllm", delay=LONG) as (worker, channel, received, _):
            calls = [generate(channel, long_request()) for _ in range(3)]
            other = generate(channel, long_request("other"))
            await until(lambda: len(received) == 4)
            await rpc(channel, "vllm", "Abort")(messages("vllm").pb2.AbortRequest(request_ids=["r"]))
            assert [(await next_of(call)).complete.finish_reason for call in calls] == ["abort"] * 3
            await until(lambda: worker.active == 1)
            other.cancel()
            await until(lambda: not worker.active)

    asyncio.run(main())


def test_a_worker_that_stops():
    async def main():
        async with running("vllm", tokens=10_000, delay=0.005) as (worker, channel, _, finished):
            call = generate(channel, long_request())
            await next_of(call)
            await worker.stop(None)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in call:
                    pass
            assert [each.outcome for each in finished] == ["cancelled"]
            return caught.value.code()

    assert asyncio.run(main()) is grpc.StatusCode.UNAVAILABLE


def test_a_worker_that_waits_for_the_last_request():
    async def main():
        async with running("vllm", tokens=20, delay=0.01) as (worker, channel, _, finished):
            call = generate(channel, long_request())
            await next_of(call)
            stopping = asyncio.ensure_future(worker.stop(LONG))
            responses = [response async for response in call]
            await asyncio.gather(stopping, worker.wait())
            assert [each.outcome for each in finished] == ["stop"]
            return responses

    assert asyncio.run(main())[-1].complete.completion_tokens == 20


# ---- what it says of itself


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_server_info(backend, dtype):
    pb2 = messages(backend).pb2

    async def main():
        async with running(backend, encoder_dtype=dtype) as (_, channel, _, _):
            server = await rpc(channel, backend, "GetServerInfo")(pb2.GetServerInfoRequest())
            model = await rpc(channel, backend, "GetModelInfo")(pb2.GetModelInfoRequest())
            return server, model

    server, model = asyncio.run(main())
    info = ServerInfo.from_messages(backend, server, model)
    assert info.encoder_dtype == (dtype if backend in ("vllm", "tokenspeed") else "float32")
    assert info.shm_namespace == (namespace_id() if backend in ("vllm", "tokenspeed") else "")
    assert not info.device_normalize
    assert getattr(model, "supports_vision", True)
    assert (model.model_id if backend == "trtllm" else model.served_model_name) == "foveal-loopback"


@pytest.mark.parametrize(("normalizes", "shm"), [(True, True), (False, False)])
def test_server_info_of_vllm(normalizes, shm):
    pb2 = messages("vllm").pb2

    async def main():
        async with running("vllm", device_normalize=normalizes, shm=shm, delay=LONG) as (_, channel, received, _):
            call = generate(channel, handmade.qwen(np.uint8 if normalizes else np.float32))
            await until(lambda: received)
            server = await rpc(channel, "vllm", "GetServerInfo")(pb2.GetServerInfoRequest())
            call.cancel()
            return server

    server = asyncio.run(main())
    assert server.mm_device_do_normalize is normalizes
    assert bool(server.shm_namespace_id) is shm
    assert (server.active_requests, server.server_type) == (1, "foveal-loopback")
    assert server.uptime_seconds > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_health(backend):
    pb2 = messages(backend).pb2

    async def main():
        async with running(backend) as (worker, channel, _, _):
            own = await rpc(channel, backend, "HealthCheck")(pb2.HealthCheckRequest())
            stub = health_pb2_grpc.HealthStub(channel)
            for name in ("", messages(backend).service):
                found = await stub.Check(health_pb2.HealthCheckRequest(service=name))
                assert found.status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Check(health_pb2.HealthCheckRequest(service="other"))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            watch = stub.Watch(health_pb2.HealthCheckRequest())
            states = [(await watch.read()).status]
            stopping = asyncio.ensure_future(worker.stop(1))
            states.append((await watch.read()).status)
            watch.cancel()
            await stopping
            return own, states

    own, states = asyncio.run(main())
    assert states == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]
    assert own.status == "OK" if backend == "trtllm" else own.healthy and own.message == WHAT_IT_IS


@pytest.mark.parametrize("backend", BACKENDS)
def test_reflection(backend):
    service = messages(backend).service

    async def main():
        async with running(backend) as (_, channel, _, _):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            asked = [
                reflection_pb2.ServerReflectionRequest(list_services=""),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol=service),
            ]
            return [response async for response in stub.ServerReflectionInfo(iter(asked))]

    names, files = asyncio.run(main())
    listed = {each.name for each in names.list_services_response.service}
    assert listed == {service, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    protos = map(FileDescriptorProto.FromString, files.file_descriptor_response.file_descriptor_proto)
    assert service.rpartition(".")[2] in {each.name for proto in protos for each in proto.service}


# ---- options


@pytest.mark.parametrize(
    ("backend", "options", "text"),
    [
        ("triton", {}, "the backend must be one of vllm, sglang, trtllm, tokenspeed"),
        ("vllm", {"port": -1}, "port is -1; it must be 0 to 65535"),
        ("vllm", {"port": 65536}, "port is 65536; it must be 0 to 65535"),
        ("vllm", {"encoder_dtype": "int8"}, "encoder_dtype must be float32, bfloat16 or float16"),
        ("sglang", {"device_normalize": True}, "sglang does not normalize pixels; only vllm can"),
        ("vllm", {"tokens": 0}, "tokens is 0; it must be at least 1"),
        ("vllm", {"delay": -1.0}, "delay is -1.0; it must not be negative"),
        ("vllm", {"delay": float("nan")}, "delay is nan; it must not be negative"),
    ],
)
def test_wrong_options(backend, options, text):
    with pytest.raises(OptionError, match=text):
        Worker(backend, **options)


def test_an_address_in_use():
    async def main():
        async with running("vllm") as (worker, _, _, _):
            with pytest.raises(OptionError, match=f"cannot listen on {worker.address}: it is in use") as caught:
                await Worker("sglang", port=int(worker.address.rpartition(":")[2])).start()
            return str(caught.value)

    assert asyncio.run(main()).endswith("or no address of this host")


def test_a_host_of_ipv6():
    async def main():
        async with running("vllm", host="::1") as (worker, channel, _, _):
            assert worker.address.startswith("[::1]:")
            return [response async for response in generate(channel, handmade.llava())]

    assert asyncio.run(main())


def test_a_worker_that_never_started_can_be_stopped():
    asyncio.run(Worker("vllm").stop())


# ---- the command


@asynccontextmanager
async def command(*words):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "foveal", "worker", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(LONG):
            yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_requests_until_it_is_interrupted(number):
    async def main():
        async with command("--backend", "vllm") as process:
            first = (await process.stdout.readline()).decode()
            address = first.split()[2]
            async with grpc.aio.insecure_channel(address) as channel:
                responses = [response async for response in generate(channel, handmade.llama4())]
                await refusal(channel, "vllm", handmade.qwen(np.uint8))
            process.send_signal(number)
            printed, errors = await process.communicate()
            return first, responses, printed.decode(), errors.decode(), process.returncode

    first, responses, printed, errors, status = asyncio.run(main())
    assert first.startswith("listening on 127.0.0.1:")
    assert first.endswith(" as vllm\n")
    assert ids_of(responses[-1].complete) == [15, 2, 6, 2]
    assert (status, errors) == (0, "")
    assert printed.splitlines()[0] == f"This is {WHAT_IT_IS}. Interrupt it to stop."
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "item tensor dtype shape bytes range feature tokens hash" in lines
    assert "mm_inputs 0 pixel_values bfloat16 (3, 3, 4, 4) 288 B 1..9 6 IMAGE0IMAGE0" in lines
    assert "15 prompt tokens, 2 items" in lines
    assert "request r: stop after 4 tokens" in lines
    assert any(line.startswith("mm_inputs.pixel_values is uint8, but the engine does not normalize") for line in lines)
    assert "request r: refused after 0 tokens" in lines


def test_the_command_prints_lines_of_json():
    async def main():
        async with command("--backend", "trtllm", "--json") as process:
            first = json.loads(await process.stdout.readline())
            async with grpc.aio.insecure_channel(first["address"]) as channel:
                assert [response async for response in generate(channel, handmade.trtllm(image_bytes()))]
                await refusal(channel, "trtllm", handmade.trtllm(b"<html>"))
            process.terminate()
            printed, _ = await process.communicate()
            return first, list(map(json.loads, printed.splitlines())), process.returncode

    first, lines, status = asyncio.run(main())
    assert status == 0
    assert first == {"event": "listening", "address": first["address"], "backend": "trtllm", "what": WHAT_IT_IS}
    requests = [line for line in lines if line["event"] == "request"]
    ends = [line for line in lines if line["event"] == "finished"]
    assert [len(line["problems"]) for line in requests] == [0, 1]
    assert requests[0]["items"][0]["format"] == "PNG"
    assert [line["outcome"] for line in ends] == ["stop", "refused"]


def test_the_command_ends_requests_in_progress():
    async def main():
        async with command("--backend", "vllm", "--json") as process:
            first = json.loads(await process.stdout.readline())
            async with grpc.aio.insecure_channel(first["address"]) as channel:
                health = health_pb2_grpc.HealthStub(channel)
                watch = health.Watch(health_pb2.HealthCheckRequest())
                await watch.read()
                process.terminate()
                await process.wait()
                return process.returncode

    assert asyncio.run(main()) == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--backend", "triton"], "error: the backend must be one of vllm, sglang, trtllm, tokenspeed"),
        (["--backend", "sglang", "--device-normalize"], "error: sglang does not normalize pixels; only vllm can"),
        ([], "error: Missing option '--backend'"),
    ],
)
def test_wrong_options_of_the_command(words, text):
    done = subprocess.run(
        [sys.executable, "-m", "foveal", "worker", *words], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(text)


def test_a_worker_that_is_killed():
    code = """
import asyncio
from foveal.grpc.worker import Worker
async def main():
    async with Worker("vllm", tokens=10_000, delay=0.005) as worker:
        print(worker.address, flush=True)
        await worker.wait()
asyncio.run(main())
"""

    async def main():
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        try:
            async with asyncio.timeout(LONG):
                address = (await process.stdout.readline()).decode().strip()
                async with grpc.aio.insecure_channel(address) as channel:
                    call = generate(channel, handmade.llava())
                    await next_of(call)
                    process.kill()
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        async for _ in call:
                            pass
                    return caught.value.code()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    assert asyncio.run(main()) is grpc.StatusCode.UNAVAILABLE


def test_side_tensors_may_be_large():
    request = handmade.llava()
    put(request.mm_inputs.model_specific_tensors["mask"], values(2, 1 << 20, dtype=np.uint8))

    async def main():
        async with running("vllm") as (_, channel, received, _):
            assert [response async for response in generate(channel, request)]
            return received[0].decoded.batches[0].fields["mask"].kind

    assert asyncio.run(main()) == "shared"
