"""Expansions of whole specs: never another number of features than the plan has, and errors that say what is wrong."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_cases import CASES, plan_of, spec_of
from toy_tokenizer import toy_tokenizer

from foveal.errors import ImageSizeError, PlaceholderError, SpecError
from foveal.plan import make_plan
from foveal.spec import load, resolve
from foveal.tokens import Piece, Range, expand, expand_ids, expand_text

SPECS = {name: spec_of(case) for name, case in CASES.items()}
SIDE = st.integers(1, 3000)


def spec_and_plans(name, *sizes):
    spec = SPECS[name]
    return spec.tokens, [plan_of(CASES[name], spec, size) for size in sizes]


@given(name=st.sampled_from(sorted(CASES)), height=SIDE, width=SIDE)
def test_as_many_feature_tokens_as_the_plan_has_features(name, height, width):
    spec = SPECS[name]
    try:
        plan = plan_of(CASES[name], spec, (height, width))
    except ImageSizeError:
        return
    tokens, encode = spec.tokens, toy_tokenizer(spec.tokens)
    expansion = expand(tokens, plan)
    assert expansion.features == plan.features
    anchor = encode(tokens.anchor or tokens.placeholder)
    ids, (structural,), (features,) = expand_ids(tokens, encode("user") + anchor + encode("Answer."), [plan], encode)
    assert structural == Range(1, len(ids) - 2)
    inside = np.concatenate([np.arange(*_ends(found)) for found in features]) if features else np.empty(0)
    at = np.flatnonzero(ids == encode(tokens.feature)[0]) if tokens.feature else inside
    assert inside.tolist() == at.tolist()
    assert len(inside) == plan.features


def _ends(found):
    return found.offset, found.offset + found.length


VLLM = {
    "gemma3": [(256, 260), (256, 260), (256, 260)],
    "internvl": [(3328, 3330), (1792, 1794), (2816, 2818)],
    "llama4": [(720, 727), (432, 437), (1008, 1017)],
    "llava_next": [(2340, 2340), (1576, 1576), (2040, 2040)],
    "llava_onevision": [(2929, 2929), (2017, 2017), (3353, 3353)],
    "qwen2_5_vl": [(391, 391), (198, 198), (504, 504)],
    "qwen3_vl": [(300, 300), (144, 144), (372, 372)],
}
"""Feature tokens and all tokens that vLLM 0.33.0 counts for images of 480x640, 500x300 and 400x1000."""


@pytest.mark.parametrize("name", VLLM)
def test_vllm_counts_the_same(name):
    tokens, plans = spec_and_plans(name, (480, 640), (500, 300), (400, 1000))
    expansions = [expand(tokens, plan) for plan in plans]
    found = [(expansion.features, sum(piece.times for piece in expansion.pieces)) for expansion in expansions]
    assert found == VLLM[name]


def test_an_expansion_is_compressed():
    tokens, (plan,) = spec_and_plans("llama4", (300, 500))
    expansion = expand(tokens, plan)
    patches = Piece("<|patch|>", 144, True)
    assert expansion.pieces[:4] == (
        Piece("<|image_start|>", 1, True),
        patches,
        Piece("<|tile_x_separator|>", 1, True),
        patches,
    )
    assert expansion.text.startswith("<|image_start|><|patch|><|patch|>")


def test_a_template_that_writes_another_number_of_features_is_a_spec_error():
    raw = load("llama4")
    del raw["tokens"]["expand"][-2]
    spec = resolve(raw)
    plan = make_plan(spec, 480, 640)
    text = r"480x640 \(height x width\): the template writes 576 feature tokens, for 720 features \(llama4\)"
    with pytest.raises(SpecError, match=text):
        expand(spec.tokens, plan)


def test_text_around_images_stays_as_it_is():
    tokens, plans = spec_and_plans("internvl", (448, 448), (448, 448))
    image = "<img>" + "<IMG_CONTEXT>" * 256 + "</img>"
    assert expand_text(tokens, "a<IMG_CONTEXT>\n<IMG_CONTEXT>b", plans) == f"a{image}\n{image}b"
    assert expand_text(tokens, "no image", []) == "no image"


def test_an_anchor_may_stand_for_a_placeholder_in_text():
    tokens, plans = spec_and_plans("internvl_chat", (448, 448), (448, 448))
    image = "<img>" + "<IMG_CONTEXT>" * 256 + "</img>"
    assert expand_text(tokens, "<image><IMG_CONTEXT>", plans) == image * 2


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("<|image_1|>", r"the prompt has 1 placeholder '<\|image_\{number\}\|>', for 2 images"),
        ("<|image_1|><|image_2|><|image_3|>", "the prompt has 3 placeholders"),
        ("<|image_2|><|image_1|>", "placeholder 1 has the number 2: they count from 1, in order"),
        ("<|image_1|><|image_1|>", "placeholder 2 has the number 1: they count from 1, in order"),
        ("<|image_1|><|image_02|>", "placeholder 2 has the number 02: they count from 1, in order"),
        ("<|image_|><|image_1|>", "the prompt has 1 placeholder "),
    ],
)
def test_placeholders_that_do_not_fit_the_images(prompt, reason):
    tokens, plans = spec_and_plans("phi3_v", (336, 336), (336, 336))
    with pytest.raises(PlaceholderError, match=reason):
        expand_text(tokens, prompt, plans)


def test_numbered_placeholders():
    tokens, plans = spec_and_plans("phi3_v", (336, 336), (672, 336))
    features = [plan.features for plan in plans]
    text = expand_text(tokens, "<|image_1|>\n<|image_2|>", plans)
    assert text == "\n".join("<|image|>" * number for number in features)
    assert features[0] != features[1]


def test_braces_in_other_placeholders_are_text():
    tokens, plans = spec_and_plans("llava1_5", (336, 336))
    odd = msgspec.structs.replace(tokens, placeholder="<image>")
    assert expand_text(odd, "{number}<image>{}", plans) == "{number}" + "<image>" * 576 + "{}"
