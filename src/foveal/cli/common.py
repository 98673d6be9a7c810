"""What the commands share: errors as one line, output for people and for machines, models and files by name."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from foveal.errors import FovealError, MediaError, OptionError, UnknownModelError
from foveal.spec.values import one_line

if TYPE_CHECKING:
    from foveal.media.limits import Limits
    from foveal.preprocessor import Preprocessor

__all__ = [
    "MODEL_HELP",
    "Command",
    "Commands",
    "Dtype",
    "Json",
    "Model",
    "Policy",
    "Reference",
    "Settings",
    "bytes_text",
    "check_output",
    "error_line",
    "image_name",
    "image_text",
    "load_model",
    "naming_images",
    "opened",
    "overrides_of",
    "print_json",
    "print_table",
    "shape_text",
    "shown",
    "tensor_rows",
    "write_tensors",
    "writing",
]

MODEL_HELP = "A spec's name, a YAML file, the directory of a local checkpoint, or a model's id on the Hub."

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[str, typer.Argument(help=MODEL_HELP, metavar="MODEL")]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Of the pixel values: float32, bfloat16, float16 or uint8; the model's own by default.",
        metavar="DTYPE",
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        "--reference",
        help="Whose values to reproduce: torchvision, pillow or 'pillow<13'; the model's first by default.",
        metavar="REFERENCE",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="What is done with orientation, transparency, depth and formats: that of huggingface, huggingface-path, "
        "vllm, sglang or smg; the library's own by default.",
        metavar="POLICY",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override an option of the model's image processor, as max_pixels=501760; may be repeated. "
        "VALUE is JSON, or else text.",
        metavar="NAME=VALUE",
    ),
]

SUFFIXES = (".safetensors", ".npz")

_INDEX = re.compile(r"image (\d+)\b")
_NOT_SETTINGS = ("cls", "directory", "fetch", "limits", "policy", "reference", "spec")
"""Parameters of the methods that make a preprocessor, which take overrides beside them."""

# Typer brings its own copy of click since 0.26 and needs the package before; either way its errors have this base.
_UsageError: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class Command(TyperCommand):
    """A command whose help names arguments as its author did; Typer adds braces and the types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        pieces = ["[OPTIONS]"]
        for parameter in self._arguments(ctx):
            name = f"{parameter.metavar}{'...' if parameter.nargs != 1 else ''}"
            pieces.append(name if parameter.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write what is known about arguments and options."""
        arguments = [(parameter.metavar, parameter.help) for parameter in self._arguments(ctx)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        options = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "option"]
        with formatter.section("Options"):
            formatter.write_dl([parameter.get_help_record(ctx) for parameter in options])

    def _arguments(self, ctx: Any) -> list[Any]:
        return [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]


class Commands(TyperGroup):
    """The commands, with errors on one line of stderr: 2 for bad input, 1 for what should not happen."""

    def main(self, args: Sequence[str] | None = None, *positional: Any, **options: Any) -> NoReturn:
        """Run a command line and exit."""
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        words = [word for word in words if word != "--debug"]
        options["standalone_mode"] = False
        try:
            status = super().main(words, *positional, **options)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(130)
        except Exception as error:
            if debug:
                raise
            message, status = _explained(error)
            typer.echo(error_line(message), err=True)
        sys.exit(status or 0)


def error_line(message: str) -> str:
    """Return the one line of stderr that says what is wrong."""
    return f"error: {one_line(' '.join(message.split()), 600)}"


def _explained(error: Exception) -> tuple[str, int]:
    """Return an error's line and the exit status."""
    if isinstance(error, FovealError):
        return str(error), 2
    if isinstance(error, _UsageError):
        return str(error.format_message()), 2  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}", 2
    return f"unexpected {type(error).__name__}: {error} (--debug shows more)", 1


# ---- models and files


def load_model(
    model: str, reference: str | None = None, settings: Sequence[str] | None = None, policy: str | None = None
) -> "Preprocessor":
    """Return the preprocessor of a spec's name, a YAML file, a checkpoint's directory or a model's id.

    ``settings`` are texts as ``max_pixels=501760``, the overrides; ``policy`` is the name of a preset.
    """
    from foveal.preprocessor import Preprocessor
    from foveal.spec import names
    from foveal.spec.checkpoint import is_cached

    overrides = overrides_of(settings)
    if model not in names() and (os.path.isdir(model) or is_cached(model)):
        return Preprocessor.from_pretrained(model, reference, policy=policy, **overrides)
    try:
        return Preprocessor.from_spec(model, reference, policy=policy, **overrides)
    except UnknownModelError as error:
        if "/" not in model or not str(error).startswith("no spec "):
            raise
        raise UnknownModelError(
            f"no spec is named '{shown(model)}', and no such directory exists; nothing is downloaded: "
            "pass the directory of a local checkpoint, or a name that foveal models lists"
        ) from error


def overrides_of(settings: Sequence[str] | None) -> dict[str, Any]:
    """Return what ``--set`` says, by name."""
    return dict(map(_setting, settings or ()))


def _setting(text: str) -> tuple[str, Any]:
    """Return name and value of an override; what is not JSON is text."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise OptionError(f"--set {shown(text)}: expected NAME=VALUE")
    if name in _NOT_SETTINGS:
        raise OptionError(f"--set {name}: not an option of an image processor")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


@contextmanager
def naming_images(images: Sequence[str]) -> Iterator[None]:
    """Put the argument of the command line beside the index that a message starts with."""
    try:
        yield
    except MediaError as error:
        match = _INDEX.match(str(error))
        if not match or int(match[1]) >= len(images):
            raise
        image, rest = images[int(match[1])], str(error)[match.end() :]
        rest = rest.removeprefix(f": {one_line(Path(image).name) or 'the path'}")
        raise type(error)(f"image {match[1]} ({shown(image_text(image))}){rest}") from error


def opened(images: Sequence[str], limits: "Limits") -> list[Any]:
    """Return paths and ``data:`` URLs as they are, and of every other URL the bytes that it leads to."""
    from foveal.request import fetched

    (sources,) = fetched([list(images)], limits)
    return sources


def image_text(image: str) -> str:
    """Return an argument that names an image; of a ``data:`` URL what it says before the data."""
    from foveal.media.urls import url_scheme

    if url_scheme(image) != "data":
        return image
    head, comma, _ = image.strip().partition(",")
    return f"{one_line(head, 80)}{comma}... ({len(image):,} characters)"


def image_name(image: str) -> str:
    """Return the name of a path or URL without directories and query; that of a ``data:`` URL is its kind."""
    from foveal.media.urls import url_scheme

    scheme = url_scheme(image)
    if scheme == "data":
        return "data"
    path = image if scheme is None else re.split("[?#]", image, maxsplit=1)[0]
    return Path(path).name or image


def shown(text: str | Path) -> str:
    """Return an argument as it may stand in a message: one line, not long."""
    return one_line(str(text), 120)


def check_output(path: Path, dtype: str) -> None:
    """Refuse a file that the tensors could not be written to, before anything is computed."""
    if path.suffix not in SUFFIXES:
        raise OptionError(f"the output is {shown(path.name)}: its name must end in {' or '.join(SUFFIXES)}")
    if path.suffix == ".npz" and dtype == "bfloat16":
        raise OptionError("npz cannot hold bfloat16: write .safetensors, or choose --dtype float32")
    if not os.path.isdir(path.parent):
        raise OptionError(f"{shown(path.parent)}: no such directory")


def write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors as the file's suffix says."""
    with writing(path):
        path.write_bytes(_npz(tensors) if path.suffix == ".npz" else _safetensors(tensors))


def _npz(tensors: Mapping[str, Any]) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.savez(file, **tensors)
    return file.getvalue()


def _safetensors(tensors: Mapping[str, Any]) -> bytes:
    from safetensors.numpy import save

    data: bytes = save(dict(tensors))
    return data


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file where it cannot be written."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{shown(path)}: {error.strerror or 'cannot be written'}") from error


# ---- output


def print_json(value: object) -> None:
    """Print a value for machines."""
    typer.echo(json.dumps(value, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, footer: bool = False) -> None:
    """Print a table for people; ``footer`` sets the last row apart."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for number, row in enumerate(rows):
        style = "bold" if footer and number == len(rows) - 1 else None
        table.add_row(*(Text(one_line(str(cell))) for cell in row), style=style)
    # Piped output is never folded: one row, one line.
    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(width=None if terminal else 500, highlight=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def shape_text(shape: Sequence[int]) -> str:
    """Return a tensor's shape as NumPy prints it."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def bytes_text(count: int) -> str:
    """Return a number of bytes for people."""
    if count < 1 << 20:
        return f"{count / 1024:.1f} KiB" if count >= 1024 else f"{count} B"
    return f"{count / (1 << 20):.1f} MiB"


def tensor_rows(tensors: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return name, dtype, shape and bytes of each tensor."""
    return [
        {"name": name, "dtype": str(tensor.dtype), "shape": list(tensor.shape), "bytes": tensor.nbytes}
        for name, tensor in tensors.items()
    ]
