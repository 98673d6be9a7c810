"""Token ids of prompts: where images lie in them, which tokens join, and what is refused."""

import numpy as np
import pytest
from token_cases import CASES, plan_of, spec_of
from toy_tokenizer import toy_tokenizer

from foveal.errors import OptionError, PlaceholderError
from foveal.tokens import Range, expand_ids

PAD, PATCH = 151_655, 200_092
NEWLINES = {length: 106 + length for length in range(1, 7)}
BOI, EOI, SOFT = 255_999, 256_000, 262_144


def asked(name, *sizes):
    case = CASES[name]
    spec = spec_of(case)
    return spec.tokens, [plan_of(case, spec, size) for size in sizes]


def runs(ids):
    """Return ids as pairs of an id and how often it stands in a row."""
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    return list(zip(ids[starts].tolist(), np.diff(starts, append=len(ids)).tolist(), strict=True))


def test_ranges_of_two_images():
    tokens, plans = asked("qwen2_vl", (480, 640), (56, 84))
    ids, structural, features = expand_ids(tokens, [1, PAD, 2, 3, PAD], plans)
    assert runs(ids) == [(1, 1), (PAD, 391), (2, 1), (3, 1), (PAD, 6)]
    assert structural == (Range(1, 391), Range(394, 6))
    assert features == ((Range(1, 391),), (Range(394, 6),))


def test_features_run_by_run():
    tokens, plans = asked("llama4", (336, 672), (100, 100))
    ids, structural, features = expand_ids(tokens, [7, 200_090, 200_090, 8], plans)
    two_tiles = [(200_080, 1), (PATCH, 144), (200_084, 1), (PATCH, 144), (200_085, 1), (200_090, 1), (PATCH, 144)]
    assert runs(ids) == [
        (7, 1),
        *two_tiles,
        (200_081, 1),
        (200_080, 1),
        (200_090, 1),
        (PATCH, 144),
        (200_081, 1),
        (8, 1),
    ]
    assert structural == (Range(1, 437), Range(438, 147))
    assert features == ((Range(2, 144), Range(147, 144), Range(293, 144)), (Range(440, 144),))


def test_an_image_without_features_has_a_place_in_the_prompt():
    tokens, plans = asked("mllama", (300, 300))
    ids, structural, features = expand_ids(tokens, [1, 128_256, 2], plans)
    assert (ids.tolist(), structural, features) == ([1, 128_256, 2], (Range(1, 1),), ((),))


def test_a_prompt_without_images():
    tokens, _ = asked("qwen2_vl")
    for prompt in ([1, 2, 3], []):
        ids, structural, features = expand_ids(tokens, prompt, [])
        assert (ids.tolist(), ids.dtype, structural, features) == (prompt, np.int64, (), ())


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.int32, np.int32), (np.int64, np.int64), (np.uint32, np.int64), (np.int16, np.int64), (list, np.int64)],
)
def test_dtypes(dtype, expected):
    tokens, plans = asked("mllama", (300, 300))
    prompt = [3, 128_256] if dtype is not np.int16 else [3]
    ids, _, _ = expand_ids(tokens, prompt if dtype is list else np.array(prompt, dtype), plans[: len(prompt) - 1])
    assert (ids.dtype, ids.tolist()) == (expected, prompt)


def test_the_prompt_is_not_changed():
    tokens, plans = asked("gemma3", (100, 100))
    prompt = np.array([5, 107, BOI, 107])
    expand_ids(tokens, prompt, plans)
    assert prompt.tolist() == [5, 107, BOI, 107]


IMAGE = [(BOI, 1), (SOFT, 256), (EOI, 1)]


@pytest.mark.parametrize(
    ("prompt", "expected", "structural", "first"),
    [
        ([9, BOI, 9], [(9, 1), (108, 1), *IMAGE, (108, 1), (9, 1)], [(1, 260)], 3),
        ([9, 107, BOI, 9], [(9, 1), (109, 1), *IMAGE, (108, 1), (9, 1)], [(1, 260)], 3),
        ([9, BOI, 107, 9], [(9, 1), (108, 1), *IMAGE, (109, 1), (9, 1)], [(1, 260)], 3),
        ([108, BOI, 110], [(110, 1), *IMAGE, (112, 1)], [(0, 260)], 2),
        ([111, BOI], [(111, 1), (108, 1), *IMAGE, (108, 1)], [(1, 260)], 3),
        ([BOI, BOI], [(108, 1), *IMAGE, (110, 1), *IMAGE, (108, 1)], [(0, 260), (260, 259)], 2),
        ([BOI, 107, BOI], [(108, 1), *IMAGE, (111, 1), *IMAGE, (108, 1)], [(0, 260), (260, 259)], 2),
        (
            [BOI, 107, 9, BOI],
            [(108, 1), *IMAGE, (109, 1), (9, 1), (108, 1), *IMAGE, (108, 1)],
            [(0, 260), (261, 260)],
            2,
        ),
    ],
)
def test_newlines_join(prompt, expected, structural, first):
    images = prompt.count(BOI)
    tokens, plans = asked("gemma3", *[(100, 100)] * images)
    expanded = expand_ids(tokens, prompt, plans)
    assert runs(expanded.ids) == expected
    assert [tuple(found) for found in expanded.structural] == structural
    assert expanded.features[0] == (Range(first, 256),)
    for (found,) in expanded.features:
        assert set(expanded.ids[found.offset : found.offset + found.length].tolist()) == {SOFT}


def test_a_tokenizer_is_asked_once_for_each_text():
    tokens, plans = asked("aya_vision", (900, 900), (900, 900))
    toy = toy_tokenizer(tokens)
    texts = []

    def encode(text):
        texts.append(text)
        return toy(text)

    expand_ids(tokens, [*toy("<|IMG_PATCH|>"), *toy("<|IMG_PATCH|>")], plans, encode)
    assert sorted(texts) == sorted(set(texts))
    assert {"TILE_1", "TILE_9", "TILE_GLOBAL", "<|START_OF_IMG|>", "<|END_OF_IMG|>"} <= set(texts)


def test_a_tokenizer_knows_better_than_the_spec():
    tokens, plans = asked("internvl", (100, 100))
    ids, _, _ = expand_ids(
        tokens, [92_546], plans, {"<IMG_CONTEXT>": [92_546], "<img>": [92_544], "</img>": [92_545]}.get
    )
    assert runs(ids) == [(92_544, 1), (92_546, 256), (92_545, 1)]


def test_a_special_token_that_the_tokenizer_does_not_know():
    tokens, plans = asked("internvl", (100, 100))
    with pytest.raises(PlaceholderError, match="'<IMG_CONTEXT>' is 3 tokens to the tokenizer, where it must be one"):
        expand_ids(tokens, [1], plans, lambda text: [1, 2, 3])


@pytest.mark.parametrize(
    ("prompt", "images", "reason"),
    [
        ([1, 2], 1, r"the prompt has 0 placeholders '<\|image_pad\|>', for 1 image"),
        ([PAD], 0, r"the prompt has 1 placeholder '<\|image_pad\|>', for 0 images"),
        ([PAD] * 391, 2, "the prompt has 391 placeholders"),
    ],
)
def test_placeholders_that_do_not_fit_the_images(prompt, images, reason):
    tokens, plans = asked("qwen2_vl", *[(480, 640)] * images)
    with pytest.raises(PlaceholderError, match=reason):
        expand_ids(tokens, prompt, plans)


@pytest.mark.parametrize("prompt", [[[1, PAD]], [1.0, 2.0], "text", 5, None, [True], ["1"]])
def test_prompts_that_are_no_row_of_integers(prompt):
    tokens, plans = asked("qwen2_vl", (480, 640))
    with pytest.raises(OptionError, match="input_ids must be a row of integers, not "):
        expand_ids(tokens, prompt, plans)
