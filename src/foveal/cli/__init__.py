"""The ``foveal`` command. One module a command; what is slow to import is imported by the commands that need it."""

import typer

from foveal import __version__
from foveal.cli.common import Command, Commands
from foveal.cli.demo import demo
from foveal.cli.doctor import doctor
from foveal.cli.inspect import inspect
from foveal.cli.inspect_request import inspect_request
from foveal.cli.models import models
from foveal.cli.plan import plan
from foveal.cli.request import request
from foveal.cli.run import run
from foveal.cli.schema import schema
from foveal.cli.send import send
from foveal.cli.show import show
from foveal.cli.tune import tune
from foveal.cli.verify import verify
from foveal.cli.warmup import warmup
from foveal.cli.worker import worker

__all__ = ["app", "main"]

app = typer.Typer(
    name="foveal",
    cls=Commands,
    help="Turn images into exactly what a vision-language model's encoder expects.",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    debug: bool = typer.Option(False, "--debug", help="Show a traceback on errors; may stand anywhere."),
    version: bool = typer.Option(False, "--version", help="Show the version.", is_eager=True, callback=_show_version),
) -> None:
    """Turn images into exactly what a vision-language model's encoder expects."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


COMMANDS = (
    *(demo, models, inspect, plan, show, run),
    *(request, send, inspect_request, worker),
    *(verify, warmup, tune, doctor, schema),
)

for command in COMMANDS:
    app.command(cls=Command)(command)


def main() -> None:
    """Run the command line and exit."""
    app()
