"""``foveal inspect-request``."""

from pathlib import Path
from typing import Annotated

import typer

from foveal.cli.common import Json, bytes_text, print_json, shown
from foveal.cli.worker import print_request
from foveal.errors import RequestError


def inspect_request(
    file: Annotated[Path, typer.Argument(help="A request, as foveal request writes it.", metavar="FILE")],
    backend: Annotated[
        str | None,
        typer.Option("--backend", help="Whose request it is; found out by default.", metavar="BACKEND"),
    ] = None,
    device_normalize: Annotated[
        bool | None,
        typer.Option(
            "--device-normalize/--no-device-normalize",
            help="Whether the worker that it is for normalizes pixels itself.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what is in a request, and what a careful engine would refuse of it; exits with 1 if there is anything."""
    from foveal.backends.messages import named_backend, recognized
    from foveal.grpc.checking import problems
    from foveal.grpc.decoding import decode
    from foveal.grpc.description import describe

    data = file.read_bytes()
    found = recognized(data)
    if backend is not None and named_backend(backend) not in found:
        raise RequestError(f"{shown(file)}: not a request of {backend}")
    if not found:
        raise RequestError(f"{shown(file)}: not a request of any backend")
    decoded = decode(data, backend=backend or found[0], shm="keep")
    wrong = problems(decoded, device_normalize=device_normalize)
    described = describe(decoded)
    if json:
        print_json({**described, "bytes": len(data), "problems": wrong})
    else:
        typer.echo(f"{decoded.backend}, {bytes_text(len(data))}")
        print_request(described)
        for problem in wrong:
            typer.echo(f"wrong: {problem}")
    raise typer.Exit(1 if wrong else 0)
