"""``foveal tune``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import Json, print_json, print_table
from foveal.errors import OptionError

if TYPE_CHECKING:
    from foveal.run.profile import Profile
    from foveal.run.tuning import Timing


def tune(
    show: Annotated[bool, typer.Option("--show", help="Show the profile; measure nothing.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Remove the profile.")] = False,
    rounds: Annotated[int, typer.Option("--rounds", help="How often each alternative is measured.", metavar="N")] = 25,
    anyway: Annotated[bool, typer.Option("--anyway", help="Store what is measured on a busy machine, too.")] = False,
    json: Json = False,
) -> None:
    """Measure from where on threads pay on this machine, and store it as its profile.

    Run it while nothing else runs. The profile is for this kind of CPU, this instruction level and this version; it
    changes no bit of any result.
    """
    from foveal.run import profile

    if show and reset:
        raise OptionError("say --show or --reset, not both")
    if rounds < 1:
        raise OptionError(f"--rounds {rounds}: must be at least 1")
    if reset:
        removed = profile.reset()
        if json:
            print_json({"removed": removed})
        else:
            typer.echo("the profile is removed" if removed else "there is no profile")
        return
    timings: list[Timing] = [] if show else _measured(rounds, anyway, json)
    found = profile.load()
    values, file = (found[1], str(found[0])) if found else (profile.DEFAULT, None)
    if json:
        print_json({"file": file, "profile": _values(values), "timings": [_row(timing) for timing in timings]})
        return
    print_table(("", "value", "by default"), _rows(values))
    typer.echo(f"stored in {file}" if file else "there is no profile: these are the defaults")


def _measured(rounds: int, anyway: bool, quiet: bool) -> "list[Timing]":
    """Measure, showing each timing, and store what follows, unless it cannot be trusted."""
    from foveal.run import profile
    from foveal.run.tuning import Timing, is_busy, sweep

    busy = is_busy()
    timings: list[Timing] = []
    for step in sweep(rounds):
        if isinstance(step, profile.Profile):
            if timings and (anyway or not busy):
                profile.save(step)
            continue
        timings.append(step)
        if not quiet:
            times = "  ".join(f"{count}: {time:.3f} ms" for count, time in step.milliseconds.items())
            typer.echo(f"{step.kind:12} {step.elements:>10} elements   threads {times}")
    if not timings:
        typer.echo("there is one thread, so nothing was measured", err=True)
    elif busy and not anyway:
        typer.echo("nothing is stored, because this machine is busy: measure again when it is not", err=True)
    return timings


def _row(timing: "Timing") -> dict[str, Any]:
    return {"kind": timing.kind, "elements": timing.elements, "milliseconds": timing.milliseconds}


def _values(values: "Profile") -> dict[str, Any]:
    return {name: getattr(values, name) for name in values.__struct_fields__}


def _rows(values: "Profile") -> list[tuple[str, object, object]]:
    from foveal.run.profile import DEFAULT

    usual = _values(DEFAULT)
    shown = {name: ("all" if value is None else value) for name, value in _values(values).items()}
    return [(name.replace("_", " "), value, usual[name] or "all") for name, value in shown.items()]
