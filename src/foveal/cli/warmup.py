"""``foveal warmup``."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from foveal.cli.common import Json, load_model, print_json
from foveal.errors import OptionError

if TYPE_CHECKING:
    from foveal.preprocessor import Preprocessor


def warmup(
    model: Annotated[
        str | None, typer.Argument(help="A spec's name, a YAML file or a checkpoint directory.", metavar="MODEL")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every model that has a spec.")] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Of the pixel values; the model's by default.")] = None,
    json: Json = False,
) -> None:
    """Compile the kernels into the cache."""
    from foveal.spec import names

    if (model is None) != every:
        raise OptionError("name a MODEL or say --all")
    chosen = names() if model is None else [model]
    start = perf_counter()
    seconds = _warm([load_model(name) for name in chosen], dtype, quiet=json)
    total = perf_counter() - start
    if json:
        rows = [{"model": name, "seconds": round(spent, 3)} for name, spent in seconds]
        print_json({"models": rows, "seconds": round(total, 3)})
        return
    for name, spent in seconds:
        typer.echo(f"{name:14} {spent:6.1f} s")
    typer.echo(f"{'in all':14} {total:6.1f} s")


def _warm(preprocessors: "list[Preprocessor]", dtype: str | None, quiet: bool) -> list[tuple[str, float]]:
    """Warm each model, showing on stderr what is being compiled; return the seconds that each took."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    seconds = []
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as progress:
        task = progress.add_task("", total=len(preprocessors))
        for preprocessor in preprocessors:
            start = perf_counter()
            for step in preprocessor.warmup(dtype):
                progress.update(task, description=f"{preprocessor.name}: {step}")
            seconds.append((preprocessor.name, perf_counter() - start))
            progress.advance(task)
    return seconds
