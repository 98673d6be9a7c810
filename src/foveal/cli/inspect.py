"""``foveal inspect``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import (
    Json,
    Policy,
    bytes_text,
    error_line,
    image_text,
    naming_images,
    print_json,
    print_table,
    shown,
)
from foveal.errors import FovealError, MediaError

if TYPE_CHECKING:
    from foveal.media.inspection import Inspection
    from foveal.media.limits import Limits
    from foveal.media.policy import DecodePolicy


def inspect(
    images: Annotated[list[str], typer.Argument(help="Image files, or data:, http: and https: URLs.", metavar="IMAGE")],
    policy: Policy = None,
    json: Json = False,
) -> None:
    """Show what images are, from their headers; nothing is decoded.

    Sizes are height x width, turned as the policy says. What is no image is one line on stderr, and exit code 2.
    """
    found, errors = _inspected(images, policy)
    if json:
        print_json([{"image": image_text(images[index]), **entry} for index, entry in found.items()])
    elif found:
        columns = ("image", "format", "size", "mode", "bits", "orientation", "frames", "alpha", "bytes")
        print_table(columns, [(shown(image_text(images[index])), *_cells(entry)) for index, entry in found.items()])
    for error in errors:
        typer.echo(error_line(str(error)), err=True)
    if errors:
        raise typer.Exit(2)


def _inspected(images: list[str], policy: str | None) -> tuple[dict[int, dict[str, Any]], list[MediaError]]:
    """Return what each image is, by its place, and the errors of those that are none."""
    import msgspec

    from foveal.media.limits import Limits
    from foveal.media.policy import decode_policy
    from foveal.request import fetched

    chosen, limits = decode_policy(policy), Limits.default()
    failed: dict[int, FovealError] = {}
    (sources,) = fetched([list(images)], limits, failed)
    found, errors = {}, []
    for index, source in enumerate(sources):
        try:
            with naming_images(images):
                if index in failed:
                    raise failed[index]
                found[index] = msgspec.to_builtins(_inspected_one(index, source, chosen, limits))
        except MediaError as error:
            errors.append(error)
    return found, errors


def _inspected_one(index: int, source: Any, policy: "DecodePolicy", limits: "Limits") -> "Inspection":
    from foveal.media.inspection import inspect as inspect_one

    try:
        return inspect_one(source, policy=policy, limits=limits)
    except MediaError as error:
        raise type(error)(f"image {index}: {error}") from error


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    return (
        entry["format"],
        f"{entry['height']}x{entry['width']}",
        entry["mode"],
        str(entry["bits"]),
        str(entry["orientation"]),
        "unknown" if entry["frames"] is None else str(entry["frames"]),
        "yes" if entry["has_alpha"] else "no",
        bytes_text(entry["bytes"]),
    )
