"""``foveal send``."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import Json, Model, Policy, Reference, Settings, load_model, naming_images, print_json, shown
from foveal.cli.request import Ids, MaxTokens, Prompt, prepared
from foveal.cli.worker import print_request
from foveal.errors import FovealError, OptionError

if TYPE_CHECKING:
    from foveal.grpc.client import Finished
    from foveal.intermediate import Intermediate

LOOPBACK, ALL = "loopback", "all"
_IDS_SHOWN = 16


def send(
    backend: Annotated[
        str, typer.Argument(help="vllm, sglang, trtllm or tokenspeed; or all, with loopback.", metavar="BACKEND")
    ],
    target: Annotated[
        str,
        typer.Argument(
            help="Where the worker listens, as HOST:PORT; or loopback, for one that shows what it gets.",
            metavar="TARGET",
        ),
    ],
    model: Model,
    images: Annotated[list[str] | None, typer.Argument(help="Image files, or URLs.", metavar="IMAGE")] = None,
    prompt: Prompt = None,
    input_ids: Ids = None,
    max_tokens: MaxTokens = None,
    transport: Annotated[
        str,
        typer.Option(
            "--transport",
            help="inline, shm or auto: pixels in the request, in memory shared with a worker on this host, or in the "
            "latter where the worker says that it is there.",
            metavar="TRANSPORT",
        ),
    ] = "auto",
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds, all in all.", metavar="SECONDS")] = 60.0,
    reference: Reference = None,
    settings: Settings = None,
    policy: Policy = None,
    json: Json = False,
) -> None:
    """Send a prompt and its images to a worker, and show the tokens that come back."""
    from foveal.backends import BACKENDS

    if backend == ALL and target != LOOPBACK:
        raise OptionError("all is for loopback; a worker serves one backend")
    given, sampling = images or [], {} if max_tokens is None else {"max_tokens": max_tokens}
    with naming_images(given):
        ready = prepared(load_model(model, reference, settings, policy), model, given, prompt, input_ids)
        ask = partial(_answer, target=target, ready=ready, sampling=sampling, transport=transport, timeout=timeout)
        if backend != ALL:
            answers = [asyncio.run(ask(backend))]
        else:
            answers = [_or_error(name, partial(ask, name)) for name in BACKENDS]
    if json:
        print_json(answers if backend == ALL else answers[0])
    else:
        for number, answer in enumerate(answers):
            typer.echo("", nl=number > 0)
            _print(answer)
    raise typer.Exit(2 if all("error" in answer for answer in answers) else 0)


def _or_error(backend: str, ask: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """Return an answer, or why there is none: not every engine takes every model."""
    try:
        return asyncio.run(ask())
    except FovealError as error:
        return {"backend": backend, "error": str(error)}


async def _answer(
    backend: str, target: str, ready: "Intermediate", sampling: Mapping[str, Any], transport: str, timeout: float
) -> dict[str, Any]:
    """Return what a worker answers, and, of a loopback worker, what it got."""
    if target != LOOPBACK:
        answer = await _sent(backend, target, ready, sampling, transport, timeout)
        return {"backend": backend, "target": target, **answer}
    from foveal.grpc.description import describe
    from foveal.grpc.worker import Received, Worker

    received: list[Received] = []
    async with Worker(backend, on_request=received.append) as worker:
        try:
            answer = await _sent(backend, worker.address, ready, sampling, transport, timeout)
        except Exception as error:
            if received and received[-1].problems:
                raise type(error)(f"{backend}: {received[-1].problems[0]}") from error
            raise
    (only,) = received
    held = None if only.decoded is None else describe(only.decoded)
    return {"backend": backend, "target": target, **answer, "message_bytes": only.message_bytes, "received": held}


async def _sent(
    backend: str, target: str, ready: "Intermediate", sampling: Mapping[str, Any], transport: str, timeout: float
) -> dict[str, Any]:
    from foveal.grpc.client import CONNECT_SECONDS, AsyncClient, Finished

    outputs: list[Finished] = []
    async with AsyncClient(target, backend, connect_timeout=min(timeout, CONNECT_SECONDS)) as client:
        events = client.generate(ready, sampling=sampling, transport=transport, timeout=timeout)  # type: ignore[arg-type]
        async for event in events:
            if isinstance(event, Finished):
                outputs.append(event)
    return {"outputs": [_output(output) for output in outputs]}


def _tensor_bytes(received: dict[str, Any] | None) -> int:
    return sum(tensor["bytes"] for item in (received or {"items": []})["items"] for tensor in item.get("tensors", ()))


def _output(output: "Finished") -> dict[str, Any]:
    return {
        "ids": list(output.ids),
        "reason": output.reason,
        "prompt_tokens": output.prompt_tokens,
        "completion_tokens": output.completion_tokens,
    }


def _print(answer: dict[str, Any]) -> None:
    if "error" in answer:
        typer.echo(f"{answer['backend']}: not sent: {answer['error']}")
        return
    if "received" in answer:
        size = f"{answer['message_bytes']:,} bytes"
        beside = ", and tensors in shared memory" if answer["message_bytes"] < _tensor_bytes(answer["received"]) else ""
        typer.echo(f"a loopback worker of {answer['backend']} received {size}{beside}:")
        if answer["received"]:
            print_request(answer["received"])
    for output in answer["outputs"]:
        ids = " ".join(map(str, output["ids"][:_IDS_SHOWN]))
        more = " ..." if len(output["ids"]) > _IDS_SHOWN else ""
        typer.echo(
            f"{shown(answer['target'])} answered {output['completion_tokens']} tokens for {output['prompt_tokens']}, "
            f"{output['reason']}: {ids}{more}"
        )
