"""``foveal worker``."""

import asyncio
import signal
from collections.abc import Sequence
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import Json, bytes_text, print_table, shape_text
from foveal.spec.values import one_line

if TYPE_CHECKING:
    from foveal.grpc.worker import Ended, Received, Worker

__all__ = ["print_request", "worker"]

_COLUMNS = ("item", "tensor", "dtype", "shape", "bytes", "range", "feature tokens", "hash")
_HASH_DIGITS = 12


def worker(
    backend: Annotated[
        str, typer.Option("--backend", help="Whose service: vllm, sglang, trtllm or tokenspeed.", metavar="BACKEND")
    ],
    port: Annotated[int, typer.Option("--port", help="Where to listen; 0 takes any that is free.", metavar="PORT")] = 0,
    host: Annotated[str, typer.Option("--host", help="Where to listen.", metavar="HOST")] = "127.0.0.1",
    dtype: Annotated[
        str,
        typer.Option("--dtype", help="Of its encoder, as it says: float32, bfloat16 or float16.", metavar="DTYPE"),
    ] = "bfloat16",
    device_normalize: Annotated[
        bool,
        typer.Option("--device-normalize", help="Say that it normalizes pixels itself, and take only bytes; vllm's."),
    ] = False,
    json: Json = False,
) -> None:
    """Receive requests as an engine would, check them, and print what they hold; no model runs.

    What a careful engine would refuse is refused. Answers are what was counted: tokens of the prompt, images, and the
    feature tokens of each. Runs until it is interrupted. JSON is an object a line.
    """
    from foveal.grpc.worker import Worker

    one = Worker(
        backend,
        host=host,
        port=port,
        encoder_dtype=dtype,
        device_normalize=device_normalize,
        on_request=_print_received_json if json else _print_received,
        on_finish=_print_finished_json if json else _print_finished,
    )
    asyncio.run(_serve(one, json))


async def _serve(worker: "Worker", json: bool) -> None:
    """Serve until the process is asked to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await worker.start()
    try:
        _print_started(worker, json)
        await ended.wait()
    finally:
        await worker.stop()


def _print_started(worker: "Worker", json: bool) -> None:
    from foveal.grpc.worker import WHAT_IT_IS

    if json:
        _print_line("listening", address=worker.address, backend=worker.backend, what=WHAT_IT_IS)
        return
    typer.echo(f"listening on {worker.address} as {worker.backend}")
    typer.echo(f"This is {WHAT_IT_IS}. Interrupt it to stop.")


def _print_received(received: "Received") -> None:
    name, size = one_line(received.request_id, 80), bytes_text(received.message_bytes)
    typer.echo(f"\nrequest {name}: {size}, {'refused' if received.problems else 'accepted'}")
    for problem in received.problems:
        typer.echo(f"  {one_line(problem, 600)}")
    if received.decoded is not None:
        from foveal.grpc.description import describe

        print_request(describe(received.decoded))


def _print_received_json(received: "Received") -> None:
    from foveal.grpc.description import describe

    held = {} if received.decoded is None else describe(received.decoded)
    fields = {"request_id": received.request_id, "message_bytes": received.message_bytes, "problems": received.problems}
    _print_line("request", **held | fields)


def _print_finished(finished: "Ended") -> None:
    typer.echo(f"request {one_line(finished.request_id, 80)}: {finished.outcome} after {finished.tokens} tokens")


def _print_finished_json(finished: "Ended") -> None:
    _print_line("finished", **finished._asdict())


def _print_line(event: str, **fields: Any) -> None:
    typer.echo(dumps({"event": event, **fields}))


# ---- a request as a table


def print_request(described: dict[str, Any]) -> None:
    """Print what a request holds, from `foveal.grpc.describe`, as a table for people."""
    items = described["items"]
    typer.echo(f"{described['prompt_tokens']} prompt tokens, {len(items) or 'no'} item{'s' * (len(items) != 1)}")
    rows = [row for item in items for row in _rows(item)]
    if rows:
        print_table(_COLUMNS, rows)


def _rows(item: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each tensor, the first of which says all else too."""
    if "tensors" not in item:
        size = "" if item["size"] is None else "x".join(map(str, item["size"]))
        return [(item["name"], item["format"] or "unknown", "", size, bytes_text(item["bytes"]), "", "", "")]
    tensors = [
        (tensor["name"], tensor["dtype"], shape_text(tensor["shape"]), bytes_text(tensor["bytes"]))
        for tensor in item["tensors"]
    ]
    first, *others = tensors or [("none", "", "", "")]
    return [(item["name"], *first, *_place(item)), *(("", *other, "", "", "") for other in others)]


def _place(item: dict[str, Any]) -> tuple[str, str, str]:
    """Return where an item stands in the prompt, how many features it has there, and the start of its hash."""
    return _span(item["ranges"]), str(item["feature_tokens"]), item["hash"][:_HASH_DIGITS]


def _span(ranges: Sequence[Sequence[int]]) -> str:
    if not ranges:
        return "none"
    (start, _), (offset, length) = ranges[0], ranges[-1]
    return f"{start}..{offset + length - 1}{f' in {len(ranges)} runs' if len(ranges) > 1 else ''}"
