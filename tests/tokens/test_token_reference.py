"""The goldens can be remade, and Foveal equals the live processors; needs the extra ``foveal[reference]``."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import pytest
from test_token_goldens import differences, golden
from token_cases import CASES, SIZES, random_sizes

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

SOME = 20
"""Every so many of the sizes are asked again."""


def missing() -> str | None:
    """Return what keeps the goldens from being remade here, or None."""
    for package, expected in golden("qwen2_vl")["versions"].items():
        try:
            found = version(package).split("+")[0]
        except PackageNotFoundError:
            return f"{package} is not installed"
        if found != expected:
            return f"{package} is {found}, the goldens are of {expected}"
    return None


@pytest.fixture(scope="module")
def make() -> Iterator[ModuleType]:
    if reason := missing():
        pytest.skip(reason)
    import make_token_goldens
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield make_token_goldens
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", CASES)
def test_goldens_are_what_transformers_answers(make: ModuleType, name: str) -> None:
    remade, stored = make.answer(CASES[name], SIZES[::SOME]), golden(name)
    assert len(remade["sizes"]) == len(SIZES[::SOME])
    assert [size for size, answer in remade["sizes"].items() if answer != stored["sizes"][size]] == []
    assert remade["texts"] == stored["texts"]
    assert remade["prompts"] == stored["prompts"]


@pytest.mark.parametrize("name", CASES)
def test_other_sizes_equal_the_live_processor(make: ModuleType, name: str) -> None:
    answered = make.sizes_answer(make.Reference(CASES[name]), random_sizes(5, seed=name))
    assert differences(name, answered) == []
