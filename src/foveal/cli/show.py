"""``foveal show``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foveal.cli.common import (
    Model,
    Policy,
    Reference,
    Settings,
    image_name,
    load_model,
    naming_images,
    opened,
    shown,
    writing,
)
from foveal.errors import MediaError, OptionError

if TYPE_CHECKING:
    from PIL import Image

    from foveal.media.limits import Limits
    from foveal.media.policy import DecodePolicy
    from foveal.media.sources import Source
    from foveal.preprocessor import Features, Preprocessor

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def show(
    model: Model,
    image: Annotated[str, typer.Argument(help="Image file, or URL.", metavar="IMAGE")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Picture to write: .png, .jpg or .webp; IMAGE-MODEL.png by default.", metavar="FILE"
        ),
    ] = None,
    reference: Reference = None,
    settings: Settings = None,
    policy: Policy = None,
) -> None:
    """Draw what the model sees of an image.

    The original with its tiles and crops, the resized image with its grid, and the pictures that the encoder reads,
    rebuilt from the tensors, with sizes and token counts.
    """
    preprocessor = load_model(model, reference, settings, policy)
    path = output or Path(f"{Path(image_name(image)).stem}-{preprocessor.name}.png")
    _check_output(path, image)
    with naming_images([image]):
        (source,) = opened([image], preprocessor.limits)
        features = preprocessor(source)
        photo = decoded(source, preprocessor.policy, preprocessor.limits)
    picture = sheet(preprocessor, features, photo, image)
    with writing(path):
        picture.save(path)
    typer.echo(f"written: {path}")


def decoded(
    source: str | bytes, policy: "DecodePolicy | str | None" = None, limits: "Limits | None" = None
) -> "Image.Image":
    """Return an encoded image as a Pillow image, turned as the preprocessor turns it."""
    from PIL import Image

    from foveal.media.header import open_image, read_header
    from foveal.media.limits import Limits
    from foveal.media.policy import decode_policy
    from foveal.media.sources import encoded_file, open_source

    policy, limits = decode_policy(policy), limits or Limits.for_batches()
    _refuse_damaged(open_source(source, policy=policy, limits=limits))
    encoded = encoded_file(source, limits)
    with encoded.open() as file:
        orientation = read_header(file).orientation if policy.orientation == "apply" else 1
    with encoded.open() as file:
        image = open_image(file)
        image.load()
    turn = Image.Transpose
    turns = (
        turn.FLIP_LEFT_RIGHT,
        turn.ROTATE_180,
        turn.FLIP_TOP_BOTTOM,
        turn.TRANSPOSE,
        turn.ROTATE_270,
        turn.TRANSVERSE,
        turn.ROTATE_90,
    )
    return image.transpose(turns[orientation - 2]) if orientation > 1 else image


def _refuse_damaged(source: "Source") -> None:
    """Raise what a call with this image alone would raise."""
    try:
        source.decode()
    except MediaError as error:
        raise type(error)(f"image 0: {error}") from error


def sheet(preprocessor: "Preprocessor", features: "Features", photo: "Image.Image", name: str) -> "Image.Image":
    """Return the picture of what a model sees of one image."""
    from foveal.show import draw

    return draw(preprocessor.spec, features.batch, features, photo, image_name(name))


def _check_output(path: Path, image: str) -> None:
    """Refuse a file that the picture could not be written to, before anything is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"the output is {shown(path.name)}: its name must end in {', '.join(SUFFIXES[:-1])} or .webp")
    if not os.path.isdir(path.parent):
        raise OptionError(f"{shown(path.parent)}: no such directory")
    if os.path.exists(path) and os.path.exists(image) and os.path.samefile(path, image):
        raise OptionError(f"the output {shown(path)} is the image itself")
