"""``foveal demo``."""

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import (
    MODEL_HELP,
    Json,
    Policy,
    Reference,
    Settings,
    bytes_text,
    load_model,
    naming_images,
    opened,
    print_json,
    print_table,
    shape_text,
    shown,
    tensor_rows,
    write_tensors,
    writing,
)
from foveal.cli.plan import batch_tree, print_plan
from foveal.cli.show import decoded, sheet
from foveal.errors import OptionError

if TYPE_CHECKING:
    from PIL import Image

    from foveal.plan.plan import BatchPlan
    from foveal.preprocessor import Features, Preprocessor

PHOTO = Path(__file__).parents[1] / "data" / "raccoon.jpg"
TENSORS, PICTURE = "tensors.safetensors", "what_the_model_sees.png"

_CALLS = 30
_SECONDS = 2.0


def demo(
    image: Annotated[
        str | None,
        typer.Argument(help="Your own photo or its URL, instead of the one that comes with Foveal.", metavar="IMAGE"),
    ] = None,
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP, metavar="MODEL")] = "qwen2_5_vl",
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory to write into.", metavar="DIR")] = Path(
        "foveal-demo"
    ),
    reference: Reference = None,
    settings: Settings = None,
    policy: Policy = None,
    json: Json = False,
) -> None:
    """Preprocess one photo and show all of it.

    Prints the plan, timings and tensors; writes the tensors and a picture of what the model sees.
    """
    path = str(PHOTO) if image is None else image
    preprocessor = load_model(model, reference, settings, policy)
    with naming_images([path]):
        (source,) = opened([path], preprocessor.limits)
        batch = preprocessor.plan(source)
        photo = decoded(source, preprocessor.policy, preprocessor.limits)
    _make_directory(output)
    if not json:
        print_plan(preprocessor, [path], batch)
        typer.echo(
            "\nloading the kernels; the very first time they are compiled, which takes some seconds ...", err=True
        )
    features, timings = _timed(preprocessor, batch, source, photo)
    write_tensors(output / TENSORS, features)
    picture = sheet(preprocessor, features, photo, path)
    with writing(output / PICTURE):
        picture.save(output / PICTURE)
    tensors = tensor_rows(features)
    written = [str(output / TENSORS), str(output / PICTURE)]
    if json:
        tree = batch_tree(preprocessor, [PHOTO.name if image is None else image], batch)
        print_json({**tree, "timings": timings, "tensors": tensors, "written": written})
        return
    print_table(("step", "threads", "calls", "best", "median"), [_timing_row(timing) for timing in timings])
    typer.echo()
    rows = [(row["name"], row["dtype"], shape_text(row["shape"]), bytes_text(row["bytes"])) for row in tensors]
    print_table(("tensor", "dtype", "shape", "bytes"), rows)
    typer.echo()
    for name in written:
        typer.echo(f"written: {name}")


def _make_directory(path: Path) -> None:
    if os.path.exists(path) and not os.path.isdir(path):
        raise OptionError(f"{shown(path)}: not a directory")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def _timed(
    preprocessor: "Preprocessor", batch: "BatchPlan", source: str | bytes, photo: "Image.Image"
) -> "tuple[Features, list[dict[str, Any]]]":
    """Return the features of the photo, and the times of each step in the order in which they happen."""
    from foveal.media.sources import open_source
    from foveal.run.buffers import aligned_empty
    from foveal.run.schedule import thread_count
    from foveal.types import DTYPES

    timings = [
        _timing(
            "decode the file",
            1,
            _repeated(open_source(source, policy=preprocessor.policy, limits=preprocessor.limits).decode),
        )
    ]
    start = perf_counter()
    features = preprocessor(source)
    timings.append(
        _timing("first call: kernels loaded or compiled, file decoded", thread_count(None), [perf_counter() - start])
    )
    out = aligned_empty(batch.shape, DTYPES[batch.dtype])
    for threads in sorted({1, thread_count(None)}):
        times = _repeated(lambda threads=threads: preprocessor(photo, out=out, threads=threads))  # type: ignore[misc]
        timings.append(_timing("warm call: decoded image, output buffer reused", threads, times))
    return features, timings


def _repeated(action: Callable[[], object]) -> list[float]:
    """Return the seconds of each of some calls, the first of which is not counted."""
    action()
    times: list[float] = []
    while len(times) < _CALLS and (sum(times) < _SECONDS or not times):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return times


def _timing(step: str, threads: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "step": step,
        "threads": threads,
        "calls": len(seconds),
        "best_ms": round(1e3 * min(seconds), 3),
        "median_ms": round(1e3 * statistics.median(seconds), 3),
    }


def _timing_row(timing: dict[str, Any]) -> tuple[object, ...]:
    median = f"{timing['median_ms']:.2f} ms" if timing["calls"] > 1 else ""
    return timing["step"], timing["threads"], timing["calls"], f"{timing['best_ms']:.2f} ms", median
