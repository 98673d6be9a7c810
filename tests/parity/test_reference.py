"""The goldens can be remade, and Foveal equals the live processors; needs the extra ``foveal[reference]``."""

import math
import random
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import numpy as np
import pytest
from cases import CASES, FAMILIES, Case
from family import PILLOW, PILLOW_12
from images import Picture
from records import Record, differences, golden, record
from test_goldens import call

from foveal import FovealError

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

EXACT = ("pillow", "torch", "torchvision", "transformers")
SIZES = 8


def missing(family: str) -> str | None:
    """Return what keeps the goldens from being remade here, or None."""
    expected = golden(family)["versions"]
    for package in EXACT:
        try:
            found = version(package).split("+")[0]
        except PackageNotFoundError:
            return f"{package} is not installed"
        if found != expected[package]:
            return f"{package} is {found}, the goldens are of {expected[package]}"
    return None


@pytest.fixture(scope="module")
def make() -> Iterator[ModuleType]:
    if reason := missing("qwen2_vl"):
        pytest.skip(reason)
    import make
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield make
    torch.set_num_threads(threads)


@pytest.mark.parametrize("family", FAMILIES)
def test_goldens_are_what_transformers_answers(make: ModuleType, family: str) -> None:
    remade = {str(case): make.answer(case)[0] for case in CASES if case.family == family}
    stored = golden(family)["cases"]
    assert remade.keys() == stored.keys()
    assert [name for name in stored if remade[name] != stored[name]] == []


def answer(case: Case) -> dict[str, Record]:
    """Return the record of what Foveal answers; of a refusal, the reason."""
    try:
        return {name: record(np.asarray(tensor)) for name, tensor in call(case).items()}
    except FovealError as error:
        return {"raises": str(error)}


def random_picture(draw: random.Random) -> Picture:
    """Draw a size whose logarithm is uniform, within the aspect ratio that every family takes."""
    height = round(2 ** draw.uniform(0, 9.5))
    low, high = max(1.0, height / 190), min(720.0, height * 190)
    return Picture(height, math.ceil(low * (high / low) ** draw.random()), seed=draw.randrange(100))


LIVE = [
    (family, reference)
    for family, described in FAMILIES.items()
    for reference in described.references + ((PILLOW_12,) if PILLOW in described.references else ())
]


@pytest.mark.parametrize(("family", "reference"), LIVE)
def test_random_sizes_equal_the_live_processor(make: ModuleType, family: str, reference: str) -> None:
    draw = random.Random(f"{family} {reference}")
    wrong = []
    for _ in range(SIZES):
        picture = random_picture(draw)
        case = Case(family, reference, str(picture), picture, {})
        expected, _ = make.answer(case)
        actual = answer(case)
        if not ("raises" in expected and "raises" in actual):
            wrong += [f"{case}: {line}" for line in differences(actual, expected)]
    assert wrong == []
