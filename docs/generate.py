"""Write the tables in documents that follow from specs, from the structs behind them, and from what the code does.

Run it as ``python docs/generate.py`` where ``foveal[test]`` is installed. A table stands between two comments,
``<!-- generated: families -->`` and ``<!-- end -->``; whatever else is between them is lost. With ``--check`` nothing
is written: the names of documents that would change are printed, and the exit status is 1 if there are any.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from family_table import family_table
from image_table import image_table, short_image_table
from spec_tables import canvas_table, count_table, op_table, pack_table, windows_table

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
}
BLOCK = re.compile(r"(<!-- generated: ([\w ]+) -->\n)(?:(?!<!--).)*(<!-- end -->)", re.DOTALL)


def generated(text: str) -> str:
    """Return a document with its tables made anew."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n\n{block[3]}", text)


def main(arguments: list[str]) -> int:
    """Write or check all documents; return the exit status."""
    stale = []
    for name in DOCUMENTS:
        text = (ROOT / name).read_text()
        if (new := generated(text)) != text:
            stale.append(name)
            if "--check" not in arguments:
                (ROOT / name).write_text(new)
    print(*stale, sep="\n")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
