"""``foveal doctor``."""

from foveal.cli.common import Json, print_json, print_table


def doctor(json: Json = False) -> None:
    """Show versions, instruction level, threads, cache."""
    from foveal.run import info

    found = info()
    if json:
        print_json(found)
        return
    rows = []
    for name, value in found.items():
        if name == "cache_writable":
            rows += [] if value else [("cache writable", "no: what it lacks is kept elsewhere, or compiled anew")]
        elif isinstance(value, dict):
            rows += [(key, each or "not installed") for key, each in value.items()]
        else:
            rows.append((name.replace("_", " "), ", ".join(value) if isinstance(value, list) else value))
    print_table(("", ""), rows)
