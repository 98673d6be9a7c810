"""The README's table of model families: one row a spec, from the spec, its plans and what the tests compare it with."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from foveal import Preprocessor
from foveal.spec import schema
from foveal.spec.find import SPECS

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "parity"))

from cases import FAMILIES

__all__ = ["family_table"]

COLUMNS = (
    "spec",
    "models, and what becomes of an image",
    "references",
    "equal to",
    "primary tensor",
    "beside it",
    "engines whose receivers take it",
)
ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
FIRST_LINE = re.compile(r"# (.+?: .+)\.")
SIZES = ((480, 640), (300, 200))
"""Height and width of two images; axes that differ between them are not of one length."""


def family_table() -> str:
    """Return the table in Markdown."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_row, sorted(SPECS.glob("*.yaml")))]
    return "\n".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in rows)


def _row(path: Path) -> tuple[str, ...]:
    preprocessor = Preprocessor.from_spec(path)
    spec = preprocessor.spec
    beside = [f"`{tensor.name}`" for tensor in spec.tensors if tensor.hf and tensor.value != "primary"]
    return (
        f"`{spec.name}`",
        _models(path),
        ", ".join(spec.image.references),
        _exact(spec),
        "; ".join([f"`{spec.primary.name}` {_shape(preprocessor)} {spec.primary.dtype}", *_layout(spec.image)]),
        ", ".join(beside),
        ", ".join(ENGINES[engine] for engine in spec.wire.engines),
    )


def _models(path: Path) -> str:
    """Return what the comment on the first line of a spec says."""
    found = FIRST_LINE.fullmatch(path.read_text().partition("\n")[0])
    if not found:
        raise ValueError(f"{path.name} must begin with a comment: # Models: what becomes of an image.")
    return found[1]


def _exact(spec: schema.Spec) -> str:
    """Return the classes of transformers that the goldens are from, or that there is none."""
    if not any(source.startswith("transformers ") for source in spec.source):
        return "its own code, restated"
    classes = {family.processor for name, family in FAMILIES.items() if (family.spec or name) == spec.name}
    return ", ".join(f"`{name}`" for name in sorted(classes))


def _shape(preprocessor: Preprocessor) -> str:
    """Return the shape of the primary tensor, with a word for each axis that is not always of one length."""
    first, second = (preprocessor.plan(*size).shape[1:] for size in SIZES)
    words = ("", "height", "width")
    rest = [str(a) if a == b else words[axis] for axis, (a, b) in enumerate(zip(first, second, strict=True))]
    return f"({', '.join([*_leading(preprocessor.spec.image), *rest])})"


def _leading(image: schema.Image) -> Iterator[str]:
    """Yield the axes of images and of the blocks into which they are cut."""
    batch, unit = image.batch, _unit(image)
    if batch.join in ("longest", "room"):
        yield "samples" if batch.by_sample else "images"
    if batch.join == "room":
        if batch.by_sample:
            yield "images"
        yield str(batch.room)
    else:
        yield unit


def _unit(image: schema.Image) -> str:
    match image.pack:
        case schema.Tiles():
            return "tiles"
        case schema.PatchPack(axes=2 | 4) | schema.MergePatches():
            return "patches"
    return "images" if len(image.views) == 1 else "views"


def _layout(image: schema.Image) -> Iterator[str]:
    """Yield in words what the shape does not say: patches, padding, and the order of the views of an image."""
    match image.pack:
        case schema.PatchPack(patch=patch, channels="last"):
            yield f"patches of {patch}x{patch}, channels last"
        case schema.MergePatches(patch=patch, merge=merge, temporal=temporal):
            twice = {1: "", 2: ", each twice"}.get(temporal, f", each {temporal} times")
            yield f"patches of {patch}x{patch}{twice}, in blocks of {merge}x{merge}"
    if image.batch.join == "largest":
        yield "padded to the largest"
    if len(image.views) > 1:
        yield ", ".join(_named(view) for view in image.views if view.when != "many_images")
    several = [view.name for view in image.views if view.when == "many_images"]
    if several:
        yield f"of several images {', '.join(several)}"


def _named(view: schema.View) -> str:
    """Return the name of a view, in brackets where an image may lack it."""
    name = f"{view.name}s" if view.windows else view.name
    return f"({name})" if view.when == "multi_tile" or getattr(view.windows, "enabled", None) is not None else name
