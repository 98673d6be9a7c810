"""``foveal verify``."""

import os
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foveal.cli.common import (
    Json,
    Model,
    Reference,
    Settings,
    load_model,
    overrides_of,
    print_json,
    print_table,
    shape_text,
    shown,
)
from foveal.types import Size

if TYPE_CHECKING:
    from foveal.verification import ImageReport, Report, TensorReport

WORDS = {"equal": "equal", "both_refuse": "refused", "different": "DIFFERENT", "unreadable": "unreadable"}
ANSWERS = {True: "equal", False: "differ", None: "none"}

Images = Annotated[
    list[str] | None,
    typer.Argument(help="Image files, and folders of them; a small set that is drawn by default.", metavar="IMAGE"),
]


def verify(
    model: Model,
    images: Images = None,
    reference: Reference = None,
    settings: Settings = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code", help="Run the checkpoint's own code, where transformers has no class for the model."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Compare with the installed transformers, value by value.

    Runs both on the same images and says what differs; exits with 1 if anything does. Needs the extra foveal[verify];
    nothing is downloaded.
    """
    from rich.console import Console

    from foveal.verification import verify as run

    load_model(model, reference, settings)
    os.environ["HF_HUB_OFFLINE"] = "1"
    # On a terminal alone, and gone at the end.
    with Console(stderr=True).status("loading torch and transformers ...") as line:
        report = run(
            model,
            images or None,
            reference,
            trust_remote_code=trust,
            progress=lambda image: line.update(f"comparing {shown(image)} ..."),
            **overrides_of(settings),
        )
    if json:
        print_json(report.to_dict())
    else:
        print_report(report)
    raise typer.Exit(status(report))


def status(report: "Report") -> int:
    """Return the exit status: 1 where something differs, 2 where only an image cannot be read."""
    if report.with_outcome("different"):
        return 1
    return 2 if report.with_outcome("unreadable") else 0


def print_report(report: "Report") -> None:
    """Print what was compared, a row for each image, what is not equal, and the verdict."""
    typer.echo(f"{report.spec}, as {report.reference} computes it; sizes are height x width\n")
    every = report.images if report.batch is None else (*report.images, report.batch)
    print_table(
        ("image", "size", "mode", "result", "grids", "tokens", "tensors", "differing", "levels"),
        [_row(image) for image in every],
    )
    lines = [line for image in every for line in _explained(image)]
    for line in ["", *lines] if lines else []:
        typer.echo(line)
    typer.echo()
    print_table(("", ""), _facts(report))
    typer.echo(f"\n{verdict(report)}")


def _row(image: "ImageReport") -> tuple[object, ...]:
    size = "" if image.height is None or image.width is None else Size(image.height, image.width)
    start = (Path(image.image).name, size, image.mode or "", WORDS[image.outcome])
    if not image.tensors:
        return (*start, "", "", "", "", "")
    return (
        *start,
        ANSWERS[image.grids_equal],
        _tokens_text(image),
        ANSWERS[image.tensors_alike],
        "" if image.differing is None else f"{image.differing:,}",
        "" if image.levels is None else f"{image.levels:.3g}",
    )


def _tokens_text(image: "ImageReport") -> str:
    if image.tokens is None:
        return "none"
    if image.tokens_equal is None:
        return f"{image.tokens}, not compared"
    return str(image.tokens) if image.tokens_equal else f"{image.tokens}, not {image.reference_tokens}"


def _explained(image: "ImageReport") -> list[str]:
    """Return lines about what is not equal."""
    if image.outcome == "unreadable":
        return [f"{image.image}: {image.refusal}"]
    lines = [f"{image.image}: {who}: {text}" for who, text in _refusals(image) if text]
    return lines + [f"{image.image}: {_tensor_text(tensor)}" for tensor in image.tensors if not tensor.equal]


def _refusals(image: "ImageReport") -> tuple[tuple[str, str | None], ...]:
    refused = image.refusal or image.reference_refusal
    nothing = "answers" if refused else None
    return ("Foveal", image.refusal or nothing), ("reference", image.reference_refusal or nothing)


def _tensor_text(tensor: "TensorReport") -> str:
    ours = _described(tensor.shape, tensor.dtype)
    theirs = _described(tensor.reference_shape, tensor.reference_dtype)
    if ours != theirs:
        return f"{tensor.name}: {ours}, reference {theirs}"
    greatest = "without limit" if tensor.greatest is None else f"at most by {tensor.greatest:.6g}"
    return f"{tensor.name}: {tensor.differing:,} of {prod(tensor.shape or ()):,} values differ, {greatest}"


def _described(shape: tuple[int, ...] | None, dtype: str | None) -> str:
    return "nothing" if shape is None else f"{shape_text(shape)} {dtype}"


def _facts(report: "Report") -> list[tuple[str, object]]:
    """Return what a reader needs to repeat the comparison."""
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in report.versions.items())
    overrides = ", ".join(f"{name}={value}" for name, value in report.overrides.items())
    rows = [
        ("model", report.model),
        ("checkpoint", report.checkpoint or "none: the numbers that the model was published with"),
        ("overrides", overrides),
        ("compared with", report.compared_with),
        ("images as", report.decode),
        ("instruction level", report.level),
        ("versions", versions),
        *(("note", note) for note in report.notes),
    ]
    return [(name, value) for name, value in rows if value]


def verdict(report: "Report") -> str:
    """Return the certificate in one line."""
    different, unreadable = (len(report.with_outcome(outcome)) for outcome in ("different", "unreadable"))
    equal, refused = (len(report.with_outcome(outcome)) for outcome in ("equal", "both_refuse"))
    values = sum(image.values for image in report.with_outcome("equal"))
    calls = "call" if equal + different == 1 else "calls"
    rest = f"; {refused} refused by both" if refused else ""
    rest += f"; {unreadable} cannot be read" if unreadable else ""
    if different:
        return f"DIFFERENT: {different} of {equal + different} {calls}{rest}"
    if not equal:
        return f"nothing was compared{rest}"
    return f"equal: {equal} {calls}, {values:,} values, not one bit differs{rest}"
