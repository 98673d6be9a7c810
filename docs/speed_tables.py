"""What the README says of speed, from the stored result of ``asv_benchmarks/ratios.py``."""

from collections.abc import Iterable
from statistics import median
from textwrap import fill

from stored_speed import CLASSES, Line, amount, shown, stored

__all__ = ["speed_figures"]

DECODERS = ("Pillow's decoder", "fast-jpeg")
FED = ("torchvision class", "torchvision class, torchvision.io", "PIL class")


def speed_figures() -> str:
    """Return the picture with what it was made by, and the figures of the other parts, in Markdown."""
    parts = [*_picture(), _families(), *_resizes(), *_libraries(), *_files(), *_threads(), *_requests(), _start()]
    return "\n\n".join(fill(part, 120) if part[0] not in " !|" else part for part in parts)


def _picture() -> list[str]:
    result = stored()
    machine = result.machine
    about = (
        f"{machine['CPU']}, instruction level `{machine['instruction level']}`, one of {machine['CPUs']} CPUs, "
        f"load average {machine['load average']}, {machine['date']}; {result.versions}."
    )
    alternative = (
        "How many times as fast as transformers' classes Foveal is: a row for each family, a column for each size"
    )
    return [f"![{alternative}](docs/speed.svg)", f"    {machine['command']}", about]


def _families() -> str:
    result = stored()
    grids = {kind: result.families(kind) for kind in CLASSES}
    sentences = [_range(kind, grid) for kind, grid in grids.items() if grid]
    differing = [line.differing for line in result.lines if line.differing is not None]
    return " ".join([*sentences, f"Of {len(differing)} outputs that were compared, {sum(differing)} values differ."])


def _range(kind: str, grid: dict[tuple[str, str], Line]) -> str:
    (name, size), least = min(grid.items(), key=lambda item: item[1].ratio)
    ratios, medians = zip(*((line.ratio, line.median_ratio) for line in grid.values()), strict=True)
    return (
        f"Beside the {kind} Foveal is {shown(least.ratio)} (`{name}`, {size}) to {shown(max(ratios))} times as fast, "
        f"in the middle {shown(median(ratios))}; by the medians {shown(min(medians))} to {shown(max(medians))}, in the "
        f"middle {shown(median(medians))}."
    )


def _resizes() -> list[str]:
    lines = {tuple(line.what.split(", ")): line for line in stored().part("resize") if "fresh" not in line.what}
    levels = list(dict.fromkeys(level for _, level in lines))
    rows = [
        [what, *(shown(lines[what, level].ratio) for level in levels)] for what in dict.fromkeys(k for k, _ in lines)
    ]
    text = "How many times as fast as Pillow a bicubic uint8 resize is, at each instruction level:"
    return [text, _table(["width x height", *(f"`{level}`" for level in levels)], rows)]


def _libraries() -> list[str]:
    resizes, models = stored().part("resize beside libraries"), stored().part("hf-processors-rs")
    peers = list(dict.fromkeys(line.against for line in resizes))
    rows = [
        [what, *(shown(line.ratio) for line in resizes if line.what == what)]
        for what in dict.fromkeys(line.what for line in resizes)
    ]
    text = (
        "The same beside other libraries. OpenCV's values are others; its cubic filter skips pixels of what it shrinks."
    )
    parts = [text, _table(["width x height", *peers], rows)]
    if not models:
        return parts
    (least, most), names = ([pick(line.ratio for line in models) for pick in (min, max)]), _names_in(models)
    return [*parts, f"Beside hf-processors-rs, in Rust, {names}: {shown(least)} to {shown(most)} times as fast."]


def _names_in(lines: Iterable[Line]) -> str:
    names = [f"`{name}`" for name in dict.fromkeys(line.what.split()[0] for line in lines)]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _files() -> list[str]:
    lines = {(*line.what.split(", "), line.against): line for line in stored().part("files")}
    rows = [
        [f"`{what.replace(' ', '` ')}", *(_both(lines, what, against) for against in FED)]
        for what in dict.fromkeys(what for what, _, _ in lines)
    ]
    heads = [
        "JPEG",
        "torchvision class, Pillow decodes",
        "torchvision class, torchvision decodes",
        "PIL class, Pillow decodes",
    ]
    text = (
        "A JPEG's bytes to the tensor, how many times as fast with Pillow's decoder / with the extra `fast-jpeg`, "
        "which gives the same pixels:"
    )
    return [text, _table(heads, rows)]


def _both(lines: dict[tuple[str, str, str], Line], what: str, against: str) -> str:
    found = [lines.get((what, decoder, against)) for decoder in DECODERS]
    return " / ".join(shown(line.ratio) for line in found if line)


def _threads() -> list[str]:
    rows = [
        [f"`{line.what.replace(',', '`,', 1)}", line.against, shown(line.ratio) if line.theirs else line.note]
        for line in stored().part("threads")
    ]
    text = "Several threads; beside `memcpy` of as many bytes the ratio is a share of the memory's bandwidth:"
    return [text, _table(["", "beside", "times as fast"], rows)]


def _requests() -> list[str]:
    lines = [line for line in stored().part("requests") if line.theirs]
    kinds = list(dict.fromkeys(line.against for line in lines))
    rows = [
        [f"`{what.replace(' ', '` ', 1)}", *(shown(line.ratio) for line in lines if line.what == what)]
        for what in dict.fromkeys(line.what for line in lines)
    ]
    text = "A decoded image to the serialized request for vLLM, how many times as fast as these:"
    return [text, _table(["", *kinds], rows)]


def _start() -> str:
    def medians(lines: Iterable[Line]) -> str:
        return amount([line.ours.median for line in lines])

    result = stored()
    plans, starts, warmups = map(result.part, ("plan", "start", "warmup"))
    new, known = ([line for line in plans if word in line.what] for word in ("new", "known"))
    return (
        f"A plan takes {medians(new)} for a new size and {medians(known)} for a known one. `import foveal` takes "
        f"{medians(starts[:1])}; with compiled kernels a process needs {medians(starts[1:])} from its first import to "
        f"its first result. `foveal warmup` with an empty cache takes {medians(warmups[:-1])} of CPU for one model "
        f"and {medians(warmups[-1:])} for all."
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows])
