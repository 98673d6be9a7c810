"""Write the tables in documents that follow from specs, from the structs behind them, and from what the code does.

Run it as ``python docs/generate.py`` where ``foveal[test]`` is installed. A table stands between two comments,
``<!-- generated: families -->`` and ``<!-- end -->``; whatever else is between them is lost. The README's figures of
speed and ``speed.svg`` are made of ``speed.json``, which ``asv_benchmarks/ratios.py --json`` writes. With ``--check``
nothing is written: the names of files that would change are printed, and the exit status is 1 if there are any.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from family_table import family_table
from image_table import image_table, short_image_table
from spec_tables import canvas_table, count_table, op_table, pack_table, windows_table
from speed_picture import speed_picture
from speed_tables import speed_figures

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "docs/adding_a_model.md", "docs/images.md")
TABLES: dict[str, Callable[[], str]] = {
    "families": family_table,
    "images": image_table,
    "images in short": short_image_table,
    "ops": op_table,
    "canvas rules": canvas_table,
    "windows rules": windows_table,
    "packs": pack_table,
    "count rules": count_table,
    "speed": speed_figures,
}
PICTURES: dict[str, Callable[[], str]] = {"docs/speed.svg": speed_picture}
BLOCK = re.compile(r"(<!-- generated: ([\w ]+) -->\n)(?:(?!<!--).)*(<!-- end -->)", re.DOTALL)


def generated(text: str) -> str:
    """Return a document with its tables made anew."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n\n{block[3]}", text)


def _is(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


def main(arguments: list[str]) -> int:
    """Write or check all files; return the exit status."""
    files = {name: generated((ROOT / name).read_text()) for name in DOCUMENTS}
    files |= {name: draw() for name, draw in PICTURES.items()}
    stale = [name for name, text in files.items() if not _is(ROOT / name, text)]
    if "--check" not in arguments:
        for name in stale:
            (ROOT / name).write_text(files[name])
    print(*stale, sep="\n")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
