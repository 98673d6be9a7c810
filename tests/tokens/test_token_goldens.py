"""What stands in a prompt for images equals what the processors of transformers write, without transformers."""

import json
from functools import cache
from hashlib import blake2b
from pathlib import Path

import pytest
from token_cases import CASES, PAIRS, PROMPTS, SIZES, plan_of, size_name, spec_of
from toy_tokenizer import toy_tokenizer

from foveal.errors import ImageSizeError, PlaceholderError
from foveal.tokens import expand, expand_ids, expand_text

FOLDER = Path(__file__).parent / "goldens"
NO_IDS = {"aya_vision", "cohere2_vision", "gemma3-crops", "idefics3", "idefics3-whole"}
"""Cases whose templates write tokens or text of which no published id is known."""


@cache
def golden(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


@cache
def described(name):
    case = CASES[name]
    spec = spec_of(case)
    return case, spec, toy_tokenizer(spec.tokens)


def digest(data):
    return blake2b(repr(data).encode(), digest_size=8).hexdigest()


def test_every_case_has_a_golden():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(CASES)


def differences(name, answered):
    """Return sizes, what Foveal says of them, and what the reference answered, where that is something else."""
    case, spec, encode = described(name)
    wrong = []
    for size, expected in answered.items():
        try:
            plan = plan_of(case, spec, tuple(map(int, size.split("x"))))
        except ImageSizeError as error:
            actual = str(error)
        else:
            expansion = expand(spec.tokens, plan)
            lengths = [piece.times if piece.special else len(encode(piece.text)) for piece in expansion.pieces]
            actual = [plan.features, sum(lengths), digest(expansion.text)]
        both_refuse = isinstance(actual, str) and isinstance(expected, str)
        wrong += [] if both_refuse or actual == expected else [(size, actual, expected)]
    return wrong


@pytest.mark.parametrize("name", CASES)
def test_counts_and_texts(name):
    answered = golden(name)["sizes"]
    assert list(answered) == [size_name(size) for size in SIZES]
    assert differences(name, answered) == []


@pytest.mark.parametrize("name", CASES)
def test_whole_texts(name):
    case, spec, _ = described(name)
    for size, runs in golden(name)["texts"].items():
        expansion = expand(spec.tokens, plan_of(case, spec, tuple(map(int, size.split("x")))))
        assert expansion.text == "".join(text * times for text, times in runs)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: size_name(*pair))
@pytest.mark.parametrize("name", CASES)
def test_prompts(name, pair):
    case, spec, encode = described(name)
    tokens = spec.tokens
    plans = [plan_of(case, spec, size) for size in pair]
    for number, template in enumerate(PROMPTS):
        expected = golden(name)["prompts"][f"{number} {size_name(*pair)}"]
        placeholders = [tokens.placeholder.format(number=number) for number in (1, 2)]
        assert digest(expand_text(tokens, template.format(*placeholders), plans)) == expected["text"]
        input_ids = encode(template.format(*[tokens.anchor or tokens.placeholder] * 2))
        for tokenizer in (encode,) if name in NO_IDS else (encode, None):
            expanded = expand_ids(tokens, input_ids, plans, tokenizer)
            assert len(expanded.ids) == expected["length"]
            assert digest(expanded.ids.tolist()) == expected["ids"]
            assert [list(found) for found in expanded.structural] == unshared(expected["ranges"])


def unshared(ranges):
    """Give a token that two images share to the first of them."""
    (first, length), (second, other) = ranges
    shared = max(0, first + length - second)
    return [[first, length], [second + shared, other - shared]]


@pytest.mark.parametrize("name", sorted(NO_IDS))
def test_ids_that_nobody_publishes_are_asked_of_a_tokenizer(name):
    case, spec, encode = described(name)
    plan = plan_of(case, spec, (700, 300))
    with pytest.raises(PlaceholderError, match=r"no id is known for '.*': the model's tokenizer is needed"):
        expand_ids(spec.tokens, encode(spec.tokens.anchor or spec.tokens.placeholder), [plan])
