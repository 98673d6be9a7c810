"""Lines of the report: what was measured, what it must reach, and how both are printed and passed on as JSON."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from .measure import Times

HEADER = ("what", "Foveal: min (median)", "against", "its min (median)", "ratio of minima (medians)")
HEADER += ("must", "", "differing values", "note")


@dataclass(frozen=True)
class Line:
    """One row. With a peer, the ratio of minima must reach ``must``; without one, the median must stay below it."""

    part: str
    what: str
    ours: Times
    against: str = ""
    theirs: Times | None = None
    must: float | None = None
    differing: int | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Of minima; above 1 Foveal is the faster one."""
        return self.theirs.minimum / self.ours.minimum if self.theirs else None

    @property
    def median_ratio(self) -> float | None:
        return self.theirs.median / self.ours.median if self.theirs else None

    @property
    def passed(self) -> bool | None:
        """None where nothing is required or the peer is not installed."""
        if self.differing:
            return False
        if self.must is None or (self.against and not self.theirs):
            return None
        return self.ratio >= self.must if self.theirs else self.ours.median < self.must

    @classmethod
    def from_json(cls, values: dict) -> "Line":
        values = {name: value for name, value in values.items() if name not in ("ratio", "passed")}
        return cls(**values | {side: values[side] and Times(**values[side]) for side in ("ours", "theirs")})

    def to_json(self) -> dict:
        return asdict(self) | {"ratio": self.ratio, "passed": self.passed}


def _amount(seconds: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3)):
        if seconds * scale >= 0.1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _times(times: Times) -> str:
    return f"{_amount(times.minimum)} ({_amount(times.median)})"


def _ratios(line: Line) -> str:
    return f"{line.ratio:.2f} ({line.median_ratio:.2f})"


def _cells(line: Line) -> list[str]:
    theirs, ratio, must = "", "", "" if line.must is None else f"< {_amount(line.must)}"
    if line.against:
        theirs, must = "not installed", "" if line.must is None else f"{line.must:g}x"
    if line.theirs:
        theirs = _times(line.theirs)
        ratio = _ratios(line)
    verdict = {True: "pass", False: "FAIL", None: ""}[line.passed]
    wrong = "" if line.differing is None else str(line.differing)
    return [line.what, _times(line.ours), line.against, theirs, ratio, must, verdict, wrong, line.note]


def show(lines: list[Line]) -> None:
    """Print one Markdown table for each part."""
    for part in dict.fromkeys(line.part for line in lines):
        print(f"\n### {part}\n")
        _print_table([list(HEADER)] + [_cells(line) for line in lines if line.part == part])


def show_ratios(lines: list[Line]) -> None:
    """Print a Markdown table for each peer of lines that are named by family and size: a row for each family."""
    for part in dict.fromkeys(line.part for line in lines):
        cells: dict[str, dict[str, str]] = {}
        for line in lines:
            if line.part == part and line.theirs:
                name, size = line.what.split()
                cells.setdefault(name, {})[size] = _ratios(line) + (" FAIL" if line.passed is False else "")
        sizes = list(dict.fromkeys(size for row in cells.values() for size in row))
        rows = [[name, *(row.get(size, "") for size in sizes)] for name, row in cells.items()]
        print(f"\n### {part}: ratio of minima (of medians)\n")
        _print_table([["family", *sizes], *rows])


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in (rows[0], ["-" * width for width in widths], *rows[1:]):
        print("| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |")


def l2_bytes() -> int:
    """Size of a core's L2 cache; 1 MiB where the system does not say."""
    try:
        return int(Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip().rstrip("K")) * 1024
    except (OSError, ValueError):
        return 1 << 20


def machine(cpu: int) -> dict[str, object]:
    """Return what the figures depend on."""
    import foveal.run

    info = foveal.run.info()
    versions = [f"{name} {version or '(not installed)'}" for name, version in info["versions"].items()]
    return {
        "CPU": info["cpu"],
        "threads": f"1, pinned to CPU {cpu}",
        "L2 cache": f"{l2_bytes() >> 10} KiB",
        "load average": round(os.getloadavg()[0], 2),
        "instruction level": info["level"] + (" (FOVEAL_TARGET)" if os.environ.get("FOVEAL_TARGET") else ""),
        "buffers": "reused, 64-byte aligned, one for each variant; rows named fresh allocate in each call",
        "versions": ", ".join(versions),
    }
