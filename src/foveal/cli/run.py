"""``foveal run``."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from foveal.cli.common import (
    Dtype,
    Json,
    Model,
    Policy,
    Reference,
    Settings,
    bytes_text,
    check_output,
    image_text,
    load_model,
    naming_images,
    print_json,
    print_table,
    shape_text,
    tensor_rows,
    write_tensors,
)
from foveal.errors import OptionError
from foveal.types import dtype_name


def run(
    model: Model,
    images: Annotated[list[str], typer.Argument(help="Image files, or URLs.", metavar="IMAGE")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write: .safetensors or .npz.", metavar="FILE")
    ] = None,
    dtype: Dtype = None,
    reference: Reference = None,
    settings: Settings = None,
    policy: Policy = None,
    threads: Annotated[
        int | None, typer.Option("--threads", help="Threads at most; all by default.", metavar="N")
    ] = None,
    json: Json = False,
) -> None:
    """Preprocess images, and write the tensors to a file."""
    if threads is not None and threads < 1:
        raise OptionError(f"--threads {threads}: must be at least 1")
    preprocessor = load_model(model, reference, settings, policy)
    with naming_images(images):
        if output is not None:
            check_output(output, dtype_name(dtype or preprocessor.plan(images).dtype))
        start = perf_counter()
        features = preprocessor(images, dtype=dtype, threads=threads)
        milliseconds = 1e3 * (perf_counter() - start)
    if output is not None:
        write_tensors(output, features)
    tensors = tensor_rows(features)
    if json:
        print_json(
            {
                "model": preprocessor.name,
                "reference": preprocessor.reference,
                "images": [
                    {"image": image_text(name), "height": plan.height, "width": plan.width, "features": plan.features}
                    for name, plan in zip(images, features.plans, strict=True)
                ],
                "tensors": tensors,
                "milliseconds": round(milliseconds, 3),
                "output": None if output is None else str(output),
            }
        )
        return
    rows = [(row["name"], row["dtype"], shape_text(row["shape"]), bytes_text(row["bytes"])) for row in tensors]
    print_table(("tensor", "dtype", "shape", "bytes"), rows)
    count = sum(plan.features for plan in features.plans)
    pictures = "1 image" if len(images) == 1 else f"{len(images)} images"
    typer.echo(f"\n{pictures}, {count} feature tokens, {milliseconds:.0f} ms with decoding and loading the kernels")
    typer.echo("not written: no -o" if output is None else f"written to {output}")
