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
    from foveal.backends import BACKENDS
    from foveal.grpc.check import problems
    from foveal.grpc.decode import Decoded, decode
    from foveal.grpc.describe import describe

    data = file.read_bytes()
    candidates = BACKENDS if backend is None else (backend,)
    found: list[tuple[list[str], Decoded]] = []
    reasons: list[str] = []
    for name in candidates:
        try:
            decoded = decode(data, backend=name, shm="keep")
        except RequestError as error:
            reasons.append(str(error))
        else:
            found.append((problems(decoded, device_normalize=device_normalize), decoded))
    if not found:
        raise RequestError(f"{shown(file)}: {reasons[0] if backend else 'not a request of any backend'}")
    wrong, decoded = min(found, key=lambda pair: len(pair[0]))
    described = describe(decoded)
    if json:
        print_json({**described, "bytes": len(data), "problems": wrong})
    else:
        typer.echo(f"{decoded.backend}, {bytes_text(len(data))}")
        print_request(described)
        for problem in wrong:
            typer.echo(f"wrong: {problem}")
    raise typer.Exit(1 if wrong else 0)
