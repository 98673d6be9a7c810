"""What is compared with transformers, as one table of cases, from the descriptions in ``families/``.

A case is one call. ``make.py`` answers every case with the real processors, ``test_goldens.py`` with Foveal.
"""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from family import PILLOW_12, Asked, Checkpoint, Family, Images, Options
from images import Picture

__all__ = ["CASES", "CHECKPOINTS", "FAMILIES", "UNSUPPORTED", "Case", "DescribedCheckpoint"]

FAMILIES: dict[str, Family] = {
    path.stem: import_module(f"families.{path.stem}").FAMILY
    for path in sorted((Path(__file__).parent / "families").glob("[!_]*.py"))
}


class DescribedCheckpoint(NamedTuple):
    """A checkpoint directory and the family that it is of."""

    family: str
    checkpoint: Checkpoint


def checkpoints_of(name: str, family: Family) -> dict[str, DescribedCheckpoint]:
    """Return the family's own directory, of its name, and the others, named after it."""
    own = Checkpoint(files={"config.json": family.config, "preprocessor_config.json": family.preprocessor})
    others = {f"{name}-{variant}": checkpoint for variant, checkpoint in family.checkpoints.items()}
    return {
        directory: DescribedCheckpoint(name, checkpoint) for directory, checkpoint in ({name: own} | others).items()
    }


CHECKPOINTS = {
    directory: described
    for name, family in FAMILIES.items()
    for directory, described in checkpoints_of(name, family).items()
}


class Case(NamedTuple):
    """One call: of the family's processor, or of the one that a checkpoint directory describes."""

    family: str
    reference: str
    name: str
    images: Images
    options: Options
    checkpoint: str | None = None

    def __str__(self) -> str:
        return f"{self.family}-{self.reference}-{self.name}"


def asked_of(family: Family, reference: str) -> Asked:
    """Return what is asked of one reference, by the name of the case."""
    sizes: Asked = {label: (Picture(*shape), {}) for label, shape in family.sizes.items()}
    if reference == PILLOW_12:
        everything = sizes | family.options | family.rules
        return {label: everything[label] for label in family.reordered}
    modes: Asked = {f"mode_{mode}": (Picture(93, 141, mode), {}) for mode in family.modes.get(reference, ())}
    return sizes | family.options | (family.rules if reference == family.references[0] else {}) | modes


def cases_of(name: str, family: Family) -> list[Case]:
    cases = [
        Case(name, reference, label, images, options)
        for reference in (*family.references, PILLOW_12)
        for label, (images, options) in asked_of(family, reference).items()
    ]
    return cases + [
        Case(name, reference, f"from {directory}", described.checkpoint.images, {}, directory)
        for directory, described in checkpoints_of(name, family).items()
        for reference in family.references
    ]


UNSUPPORTED = {(name, case): word for name, family in FAMILIES.items() for case, word in family.unsupported.items()}
CASES = [case for name, family in FAMILIES.items() for case in cases_of(name, family)]
