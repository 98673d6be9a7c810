"""``foveal warmup``."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from foveal.cli.common import MODEL_HELP, Dtype, Json, Reference, load_model, print_json
from foveal.errors import OptionError

if TYPE_CHECKING:
    from foveal.preprocessor import Preprocessor


def warmup(
    model: Annotated[str | None, typer.Argument(help=MODEL_HELP, metavar="MODEL")] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every model that has a spec, each with its own dtype and its first reference "
            "(with --reference: every model that has this one).",
        ),
    ] = False,
    dtype: Dtype = None,
    reference: Reference = None,
    json: Json = False,
) -> None:
    """Compile the kernels into the cache.

    What is compiled serves images of every size, but one dtype and one reference. Other combinations are compiled
    when they are first used, or by another warmup.
    """
    if (model is None) != every:
        raise OptionError("name a MODEL or say --all")
    preprocessors = _every(reference) if model is None else [load_model(model, reference)]
    start = perf_counter()
    seconds = _warm(preprocessors, dtype, quiet=json)
    total = perf_counter() - start
    _say_where()
    if json:
        rows = [
            {"model": one.name, "reference": one.reference, "dtype": dtype or one.dtype, "seconds": round(spent, 3)}
            for one, spent in zip(preprocessors, seconds, strict=True)
        ]
        print_json({"models": rows, "seconds": round(total, 3)})
        return
    for one, spent in zip(preprocessors, seconds, strict=True):
        typer.echo(f"{one.name:16} {one.reference:12} {dtype or one.dtype:10} {spent:6.1f} s")
    typer.echo(f"{'in all':40} {total:6.1f} s")


def _say_where() -> None:
    """Say on stderr that what was compiled is not where a server will look for it."""
    from foveal.run.warmup import misplaced

    found = misplaced()
    if found:
        wanted, kept = found
        where = f"is kept in {kept}" if kept else "is not kept"
        typer.echo(f"{wanted} cannot be written: what was compiled {where}", err=True)


def _every(reference: str | None) -> "list[Preprocessor]":
    """Return all models, or all that have a reference."""
    from foveal.spec import load, names
    from foveal.spec.resolve import REFERENCE_NAMES

    models = names()
    if reference is not None:
        backend = REFERENCE_NAMES.get(reference, reference).partition("<")[0]
        models = [name for name in models if backend in load(name)["image"]["references"]] or models
    return [load_model(name, reference) for name in models]


def _warm(preprocessors: "list[Preprocessor]", dtype: str | None, quiet: bool) -> list[float]:
    """Warm each model, showing on stderr what is being compiled; return the seconds that each took."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    seconds = []
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        task = progress.add_task("", total=len(preprocessors))
        for preprocessor in preprocessors:

            def show(step: str, name: str = preprocessor.name) -> None:
                progress.update(task, description=f"{name}: {step}")

            start = perf_counter()
            preprocessor.warmup(dtype, show)
            seconds.append(perf_counter() - start)
            progress.advance(task)
    return seconds
