"""``foveal doctor``."""

from typing import Any

from foveal.cli.common import Json, print_json, print_table


def doctor(json: Json = False) -> None:
    """Show versions, instruction level, threads, profile, cache, and settings that the environment changes."""
    from foveal.run import info

    found = info()
    if json:
        print_json(found)
        return
    rows: list[tuple[str, object]] = []
    for name, value in found.items():
        if name == "cache_writable":
            rows += [] if value else [("cache writable", _lacking(found["cache_fallback"]))]
        elif name == "cache_fallback":
            continue
        elif name == "cpu_quota":
            rows += [] if value is None else [("cpu quota", f"{value:g} CPUs")]
        elif name == "numba_layers":
            rows.append(("numba layers", _layers(value)))
        elif name == "profile":
            rows.append((name, _profile(value)))
        elif isinstance(value, dict):
            rows += [(key, _text(each)) for key, each in value.items()]
        else:
            rows.append((name.replace("_", " "), _text(value)))
    print_table(("", ""), rows)


def _lacking(directory: str | None) -> str:
    """Say what becomes of kernels that a cache lacks which cannot be written."""
    return "no: what it lacks is " + (f"kept in {directory}" if directory else "compiled in each process")


def _layers(names: list[str]) -> str:
    """Say which threading layers there are, and what is missing for FOVEAL_PARALLEL=numba."""
    if "tbb" in names:
        return ", ".join(names)
    return f"{', '.join(names) or 'none that several threads may enter'} (tbb is not found: pip install tbb)"


def _profile(values: dict[str, Any]) -> str:
    threads = "all" if values["threads"] is None else values["threads"]
    text = f"threads {threads}, elements of a band {values['band_elements']}, of images {values['image_elements']}"
    return f"{text}; {'measured by foveal tune' if values['file'] else 'default, foveal tune measures it'}"


def _text(value: object) -> object:
    if value is None:
        return "not installed"
    return ", ".join(value) if isinstance(value, list | tuple) else value
