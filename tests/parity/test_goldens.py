"""Foveal's tensors are those of transformers, bit for bit; see ``make.py`` for where the expected ones come from.

The cases of one family: ``pytest tests/parity -k "phi4mm and not reference"``; one of them has the name that
``goldens/phi4mm.json`` gives it.
"""

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases import CASES, CHECKPOINTS, FAMILIES, UNSUPPORTED, Case
from images import draw_all
from records import FOLDER, Record, differences, golden, record

import foveal
from foveal.spec.find import names

GOLDENS: dict[str, Record] = {name: answer for family in FAMILIES for name, answer in golden(family)["cases"].items()}
REFUSED_BY_NAME = [case for case in CASES if (case.family, case.name) in UNSUPPORTED]
REFUSED = [case for case in CASES if "raises" in GOLDENS.get(str(case), {})]
ANSWERED = [case for case in CASES if case not in REFUSED and case not in REFUSED_BY_NAME]
WITH_OPTIONS = [case for case in ANSWERED if case.options and case.reference == FAMILIES[case.family].references[0]]
SMALL = [case for case in ANSWERED if case.name == "small"]
SPECS = {name: family.spec or name for name, family in FAMILIES.items()}


def made(family: str, checkpoint: str | None = None, **arguments: Any) -> foveal.Preprocessor:
    """Return what the family's rules lead to: its spec, or a checkpoint's files."""
    if FAMILIES[family].by_checkpoint and checkpoint is None:
        checkpoint = family
    if checkpoint is None:
        return foveal.Preprocessor.from_spec(SPECS[family], **arguments)
    return foveal.Preprocessor.from_pretrained(FOLDER / "checkpoints" / checkpoint, **arguments)


@lru_cache(maxsize=256)
def preprocessor(family: str, reference: str, checkpoint: str | None) -> foveal.Preprocessor:
    return made(family, checkpoint, reference=reference)


def call(case: Case) -> dict[str, np.ndarray]:
    """Call as ``make.py`` does: options that the reference's class takes in at its construction are given there."""
    constructed = {name: value for name, value in case.options.items() if name in FAMILIES[case.family].constructed}
    if constructed:
        prepared = made(case.family, case.checkpoint, reference=case.reference, **constructed)
    else:
        prepared = preprocessor(case.family, case.reference, case.checkpoint)
    return prepared(draw_all(case.images), **case.options)


def check(case: Case, result: dict[str, np.ndarray]) -> None:
    actual = {name: record(np.asarray(tensor)) for name, tensor in result.items()}
    assert differences(actual, GOLDENS[str(case)]) == []


def test_every_case_has_an_answer() -> None:
    assert list(GOLDENS) == [str(case) for case in CASES]


def test_every_spec_is_a_family_and_every_family_a_spec() -> None:
    assert sorted(set(SPECS.values())) == names()


def test_every_family_has_a_dozen_sizes() -> None:
    for family in FAMILIES.values():
        assert len(set(family.sizes.values())) >= 12


@pytest.mark.parametrize("case", ANSWERED, ids=str)
def test_equals_transformers(case: Case) -> None:
    check(case, call(case))


@pytest.mark.parametrize("case", WITH_OPTIONS, ids=str)
def test_options_of_the_constructor(case: Case) -> None:
    check(case, made(case.family, reference=case.reference, **case.options)(draw_all(case.images)))


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refuses_what_transformers_refuses(case: Case) -> None:
    with pytest.raises(foveal.FovealError) as refusal:
        call(case)
    assert isinstance(refusal.value, ValueError)


@pytest.mark.parametrize("case", REFUSED_BY_NAME, ids=str)
def test_refuses_by_name_what_it_does_not_support(case: Case) -> None:
    with pytest.raises(foveal.OptionError, match=UNSUPPORTED[case.family, case.name]):
        call(case)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_value_of_small_tensors(case: Case) -> None:
    with np.load(FOLDER / "small.npz") as arrays:
        expected = arrays[str(case)]
    actual = np.asarray(next(iter(call(case).values())))
    if actual.dtype == ml_dtypes.bfloat16:
        actual = actual.view(np.uint16)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_default_reference_is_what_auto_classes_use(family: str) -> None:
    case = next(case for case in ANSWERED if case.family == family and case.name == "tiny")
    assert case.reference == FAMILIES[family].references[0]
    check(case, made(family)(draw_all(case.images)))
    check(case, made(family, family)(draw_all(case.images)))


@pytest.mark.parametrize("directory", CHECKPOINTS)
def test_checkpoint_is_recognized(directory: str) -> None:
    prepared = foveal.Preprocessor.from_pretrained(FOLDER / "checkpoints" / directory)
    assert prepared.name == SPECS[CHECKPOINTS[directory].family]
