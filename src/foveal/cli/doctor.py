"""``foveal doctor``."""

from foveal.cli.common import Json, print_json, print_table


def doctor(json: Json = False) -> None:
    """Show versions, instruction level, threads, cache, and settings that the environment changes."""
    from foveal.run import info

    found = info()
    if json:
        print_json(found)
        return
    rows: list[tuple[str, object]] = []
    for name, value in found.items():
        if name == "cache_writable":
            rows += [] if value else [("cache writable", "no: what it lacks is kept elsewhere, or compiled anew")]
        elif isinstance(value, dict):
            rows += [(key, _text(each)) for key, each in value.items()]
        else:
            rows.append((name.replace("_", " "), _text(value)))
    print_table(("", ""), rows)


def _text(value: object) -> object:
    if value is None:
        return "not installed"
    return ", ".join(value) if isinstance(value, list | tuple) else value
