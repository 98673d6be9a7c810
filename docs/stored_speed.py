"""The result of ``asv_benchmarks/ratios.py`` from which the README's figures and its picture are made."""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "asv_benchmarks"))

from comparison.report import Line

__all__ = ["CLASSES", "Result", "amount", "shown", "stored"]

FILE = Path(__file__).parent / "speed.json"
CLASSES = ("torchvision class", "PIL class")
PEERS = ("pillow", "torch", "torchvision", "transformers")


class Result(NamedTuple):
    """What was measured, and on what.

    Attributes
    ----------
    machine : dict
    lines : list of Line
    """

    machine: dict[str, object]
    lines: list[Line]

    def part(self, name: str) -> list[Line]:
        """Return the lines of a part that have a peer, or need none."""
        return [line for line in self.lines if line.part == name and (line.theirs or not line.against)]

    def families(self, kind: str) -> dict[tuple[str, str], Line]:
        """Return the lines beside a class of transformers, by family and size."""
        return {tuple(line.what.split()): line for line in self.part(kind)}

    @property
    def versions(self) -> str:
        """Those of Foveal and of its peers."""
        versions = dict(re.findall(r"(\w+) ([\w.]+)", str(self.machine["versions"])))
        return ", ".join(f"{name} {versions[name]}" for name in ("foveal", *PEERS))


@cache
def stored() -> Result:
    """Return the stored result."""
    values = json.loads(FILE.read_text())
    return Result(values["machine"], [Line.from_json(line) for line in values["lines"]])


def shown(ratio: float) -> str:
    """Return a ratio with as many digits as a second measurement would confirm."""
    return f"{ratio:.{0 if ratio >= 9.95 else 1 if ratio >= 1 else 2}f}"


def amount(seconds: list[float]) -> str:
    """Return a range of times in a unit that suits them."""
    unit, scale = next(
        (unit, scale) for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if min(seconds) * scale >= 0.1
    )
    least, most = (f"{of(seconds) * scale:.2g}" for of in (min, max))
    return f"{least} {unit}" if least == most else f"{least} to {most} {unit}"
