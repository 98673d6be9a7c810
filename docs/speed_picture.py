"""The README's picture of speed: a field for each family, size and class of transformers, coloured by the ratio.

It is written as text, so that it is the same wherever it is made. Its colours follow the reader's theme.
"""

from collections.abc import Iterator
from itertools import pairwise
from textwrap import wrap
from xml.sax.saxutils import escape

from stored_speed import CLASSES, Result, shown, stored

__all__ = ["speed_picture"]

WIDTH, MARGIN, NAMES, GAP = 880, 16, 124, 14
ROW, TOP, LINE, LEGEND = 21, 112, 17, 62
STEPS = (1, 2, 4, 8, 16, 32)
"""Where one colour ends and the next begins."""

LIGHT = {"paper": "#ffffff", "ink": "#1f2328", "quiet": "#59636e", "edge": "#d1d9e0"}
DARK = {"paper": "#0d1117", "ink": "#e6edf3", "quiet": "#9198a1", "edge": "#3d444d"}
SLOWER = ("#cf222e", "#ffffff")
FILLS_LIGHT = [SLOWER, *zip(("#eef6f7", "#d0e8ea", "#9fd0d5", "#55a9b3", "#1f7a86", "#0c4a54"), "kkkkww", strict=True)]
FILLS_DARK = [SLOWER, *zip(("#16262b", "#1c3a41", "#23565f", "#2f7d88", "#57b3bd", "#a5e3e8"), "wwwwkk", strict=True)]
INKS = {"k": "#10201f", "w": "#ffffff"}
FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


def speed_picture() -> str:
    """Return the picture as SVG."""
    result = stored()
    grids = {kind: result.families(kind) for kind in CLASSES}
    names = sorted({name for grid in grids.values() for name, _ in grid})
    sizes = list(dict.fromkeys(size for grid in grids.values() for _, size in grid))
    below = TOP + ROW * len(names)
    footer = _footer(result)
    height = below + LEGEND + LINE * len(footer)
    title = "How many times as fast as transformers Foveal is"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="{FONT}" font-size="12">',
        f"<title>{title}</title>",
        f"<style>\n{_style(LIGHT, FILLS_LIGHT)}\n"
        f"@media (prefers-color-scheme: dark) {{\n{_style(DARK, FILLS_DARK)}\n}}\n</style>",
        f'<rect class="paper edge" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        _text(MARGIN, 30, title, "ink", size=17, weight=600),
        _text(
            MARGIN,
            51,
            "A decoded image to its tensor, with the same bits, on one thread: ratio of the fastest calls.",
            "quiet",
        ),
        *_legend(below + 13),
        *(_text(MARGIN, TOP + ROW * row + 15, name, "ink") for row, name in enumerate(names)),
    ]
    column = (WIDTH - 2 * MARGIN - NAMES - GAP) / (len(CLASSES) * len(sizes))
    for number, kind in enumerate(CLASSES):
        left = MARGIN + NAMES + number * (GAP + column * len(sizes))
        parts.append(_text(left + column * len(sizes) / 2, TOP - 26, f"beside the {kind}", "ink", "middle", weight=600))
        for place, size in enumerate(sizes):
            x = left + column * place
            parts.append(_text(x + column / 2, TOP - 7, size, "quiet", "middle", 11))
            for row, name in enumerate(names):
                line = grids[kind].get((name, size))
                parts += _field(x, TOP + ROW * row, column, line.ratio if line else None)
    parts += [_text(MARGIN, below + LEGEND + LINE * row, text, "quiet", size=11) for row, text in enumerate(footer)]
    return "\n".join([*parts, "</svg>", ""])


def _step(ratio: float) -> int:
    """Return the number of a ratio's colour; 0 where Foveal is the slower one."""
    return sum(ratio >= step for step in STEPS)


def _field(x: float, y: float, width: float, ratio: float | None) -> Iterator[str]:
    if ratio is None:
        yield _text(x + width / 2, y + 15, "-", "quiet", "middle")
        return
    place = f'x="{x + 1:.1f}" y="{y + 1}" width="{width - 2:.1f}" height="{ROW - 2}" rx="2"'
    yield f'<rect class="f{_step(ratio)}" {place}/>'
    yield _text(x + width / 2, y + 15, shown(ratio), f"t{_step(ratio)}", "middle")


def _legend(y: float) -> Iterator[str]:
    words = ["slower", *(f"{low} to {high}" for low, high in pairwise(STEPS)), f"{STEPS[-1]} and more"]
    left, width = MARGIN + NAMES + 1, 90
    for number, word in enumerate(words):
        yield f'<rect class="f{number}" x="{left}" y="{y}" width="{width}" height="18" rx="2"/>'
        yield _text(left + width / 2, y + 13, word, f"t{number}", "middle", 11)
        left += width + 2


def _footer(result: Result) -> list[str]:
    machine = result.machine
    lines = [
        "-: transformers has no such class. Every output was compared bit for bit before it was timed. "
        "Llama-4 in bfloat16, the others in float32.",
        f"{machine['CPU']}, {machine['instruction level']}, load average {machine['load average']}, {machine['date']}; "
        f"{result.versions}",
        f"{machine['command']}",
    ]
    return [part for line in lines for part in wrap(line, 145, subsequent_indent="    ")]


def _style(colors: dict[str, str], fills: list[tuple[str, str]]) -> str:
    rules = [f".{name} {{ fill: {colors[name]} }}" for name in ("paper", "ink", "quiet")]
    rules.append(f".edge {{ stroke: {colors['edge']} }}")
    for number, (fill, ink) in enumerate(fills):
        rules.append(f".f{number} {{ fill: {fill} }} .t{number} {{ fill: {INKS.get(ink, ink)} }}")
    return "\n".join(rules)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start", size: int = 12, weight: int = 400) -> str:
    place = f'x="{x:.1f}" y="{y}" class="{kind}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f"<text {place}>{escape(text)}</text>"
