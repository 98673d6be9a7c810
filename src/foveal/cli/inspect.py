"""``foveal inspect``."""

from typing import Annotated, Any

import typer

from foveal.cli.common import Json, Policy, bytes_text, naming_images, opened, print_json, print_table
from foveal.errors import FovealError


def inspect(
    images: Annotated[list[str], typer.Argument(help="Image files, or data:, http: and https: URLs.", metavar="IMAGE")],
    policy: Policy = None,
    json: Json = False,
) -> None:
    """Show what images are, from their headers; nothing is decoded.

    Sizes are height x width, turned as the policy says.
    """
    with naming_images(images):
        found = _inspected(images, policy)
    if json:
        print_json([{"image": name, **entry} for name, entry in zip(images, found, strict=True)])
        return
    columns = ("image", "format", "size", "mode", "bits", "orientation", "frames", "alpha", "bytes")
    print_table(columns, [(_name(image), *_cells(entry)) for image, entry in zip(images, found, strict=True)])


def _inspected(images: list[str], policy: str | None) -> list[dict[str, Any]]:
    """Return what each image is; an error names the image."""
    import msgspec

    from foveal.media.inspection import inspect as inspect_one
    from foveal.media.limits import Limits
    from foveal.media.policy import decode_policy

    chosen, limits = decode_policy(policy), Limits.default()
    found = []
    for index, source in enumerate(opened(images, limits)):
        try:
            found.append(msgspec.to_builtins(inspect_one(source, policy=chosen, limits=limits)))
        except FovealError as error:
            raise type(error)(f"image {index}: {error}") from error
    return found


def _name(image: str) -> str:
    """Return a path as it is, and of a URL what a line has room for."""
    return image if len(image) <= 80 else f"{image[:77]}..."


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
