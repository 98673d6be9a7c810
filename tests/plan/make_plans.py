"""Write plans.json: what every built-in spec plans for pictures of named sizes.

The planner makes it, so that a change shows as the pictures that it touches: ``python tests/plan/make_plans.py``.
``test_live.py`` compares the same pictures with transformers.
"""

import json
from pathlib import Path

from foveal.errors import ImageSizeError
from foveal.plan import Plan, make_plan
from foveal.spec import load, names, resolve
from foveal.spec.schema import Spec
from foveal.types import Size

__all__ = ["NAMED", "make_plans"]

LONGEST = 2**31 - 1
NAMED = {
    "one pixel": (1, 1),
    "icon": (16, 16),
    "one row": (1, 700),
    "one column": (900, 1),
    "narrow": (700, 17),
    "below an aspect of 200": (5, 1000),
    "above an aspect of 200": (12, 4000),
    "small": (117, 203),
    "square": (336, 336),
    "one off": (337, 335),
    "VGA": (480, 640),
    "VGA upright": (640, 480),
    "whole tiles": (672, 1008),
    "full HD": (1080, 1920),
    "telephone": (2340, 1080),
    "scanned page": (3508, 2480),
    "panorama": (1000, 6000),
    "12 megapixels": (3000, 4000),
    "scrolled page": (20000, 900),
    "400 megapixels": (20000, 20000),
    "beyond 16 bits": (65537, 65536),
    "largest": (LONGEST, LONGEST),
    "longest row": (1, LONGEST),
    "longest column": (LONGEST, 480),
}


def make_plans() -> dict[str, dict[str, str]]:
    """Return a line for each picture, by spec; of a spec that reads several images otherwise, for these too."""
    table = {}
    for name in names():
        spec = resolve(load(name))
        table[name] = {label: line(spec, size, "one_image") for label, size in NAMED.items()}
        if any(view.when == "many_images" for view in spec.image.views):
            table[f"{name}, many images"] = {label: line(spec, size, "many_images") for label, size in NAMED.items()}
    return table


def line(spec: Spec, size: tuple[int, int], sample: str) -> str:
    """Describe a plan: rows and columns, features, the shape, and what is resized to what on which canvas."""
    try:
        plan = make_plan(spec, *size, sample)
    except ImageSizeError as error:
        return str(error).partition(": ")[2].rpartition(" (")[0]
    pictures = dict.fromkeys(part for view in (*plan.stages, *plan.views) for part in sizes(plan, view))
    return f"{Size(*plan.grid)}, {plan.features}, {'x'.join(map(str, plan.shape))}; {', '.join(pictures)}"


def sizes(plan: Plan, view) -> list[str]:
    on = "" if view.canvas == view.resized else f" on {view.canvas}"
    same = (view.window.height, view.window.width) == view.resized
    return [] if same and not on else [f"{view.resized}{on}"]


def main() -> None:
    lines = [f'"{name}": {json.dumps(rows, indent=0)}' for name, rows in make_plans().items()]
    Path(__file__).with_name("plans.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
