"""The tokens section is strict: what cannot be expanded is refused, with the place where it stands."""

import msgspec
import pytest

from foveal.errors import SpecError
from foveal.spec import Checkpoint, load, names, resolve
from foveal.spec.tokens import Node, Tokens

IDS = [{"token": "<image>", "id": 5}, {"token": "<pad>", "id": 6}]


def section(**changes):
    tree = {"placeholder": "<image>", "feature": "<pad>", "features": {"count": "fixed", "tokens": 3}, "ids": IDS}
    return {key: value for key, value in (tree | changes).items() if value is not None}


def converted(**changes):
    return msgspec.convert(section(**changes), Tokens)


def test_a_template_is_the_features_by_default():
    tokens = converted()
    assert tokens.nodes == (Node(repeat="<pad>", times="features"),)
    assert hash(tokens) == hash(converted())


def test_every_kind_of_node():
    tokens = converted(
        expand=[
            "<start>",
            {"repeat": "<pad>", "times": "features"},
            {"repeat": ["<pad>", "<end>"], "times": "rows"},
            {"each": "row", "do": [{"each": "column", "do": [{"text": "{row}{column}"}], "between": [","]}]},
            {"each": "crop", "do": [{"text": "{crop} of {{}}"}]},
            {"when": "multi_tile", "then": ["<many>"], "else": [{"text": "one"}]},
            {"when": False, "then": ["<never>"]},
        ]
    )
    assert tokens.expand[5] == Node(when="multi_tile", then=("<many>",), otherwise=(Node(text="one"),))


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({}, "a node has one of repeat, text, each, when, not none"),
        ({"times": "features"}, "a node has one of repeat, text, each, when, not none"),
        ({"repeat": "<pad>", "text": "x", "times": "features"}, "not repeat and text"),
        ({"repeat": "<pad>"}, "a node with repeat needs times"),
        ({"each": "row"}, "a node with each needs do"),
        ({"each": "row", "do": []}, "a node with each needs do"),
        ({"when": True}, "a node with when needs then"),
        ({"text": "x", "times": "rows"}, "a node with text cannot have times"),
        ({"text": "x", "else": ["<pad>"]}, "a node with text cannot have else"),
        ({"when": True, "then": ["<pad>"], "between": ["<pad>"]}, "a node with when cannot have between"),
        ({"repeat": "<pad>", "times": "pixels"}, "Invalid enum value 'pixels'"),
        ({"each": "tile", "do": ["<pad>"]}, "Invalid enum value 'tile'"),
        ({"when": "sunny", "then": ["<pad>"]}, "Invalid enum value 'sunny'"),
        ({"otherwise": ["<pad>"]}, "Object contains unknown field `otherwise`"),
        ({"repeat": 3, "times": "rows"}, "Expected `str | array | null`, got `int`"),
    ],
)
def test_nodes_are_refused_where_they_stand(node, reason):
    with pytest.raises(msgspec.ValidationError) as caught:
        converted(expand=["<pad>", {"when": "multi_tile", "then": [node]}])
    assert reason in str(caught.value)
    assert "`$.expand[1].then[0]" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ids": IDS[:1]}, "ids lacks '<pad>'"),
        ({"ids": IDS[1:]}, "ids lacks '<image>'"),
        ({"anchor": "<anchor>"}, "ids lacks '<anchor>'"),
        ({"ids": [*IDS, {"token": "<pad>", "id": 9}]}, "ids names a token twice"),
        ({"feature": None}, "feature is needed unless count is uncounted"),
        ({"features": {"count": "uncounted"}}, "feature is needed unless count is uncounted"),
        ({"placeholder": "<{row}>", "anchor": "<pad>"}, "placeholder: only {number} can stand in braces"),
        ({"placeholder": "<{>", "anchor": "<pad>"}, "text has a single brace: '<{>'"),
        ({"expand": [{"text": "{row}"}]}, "expand[0].text: {row} stands outside of its loop"),
        (
            {"expand": ["<pad>", {"each": "row", "do": ["<pad>"], "between": [{"text": "{row}"}]}]},
            "expand[1].between[0].text: {row} stands outside of its loop",
        ),
        (
            {"expand": [{"when": True, "then": ["<pad>"], "else": [{"repeat": [{"text": "{x}"}], "times": "rows"}]}]},
            "expand[0].else[0].repeat[0].text: {x} stands outside of its loop",
        ),
        ({"expand": [{"text": "}"}]}, "text has a single brace: '}'"),
        ({"features": {"count": "phi3_hd", "tokens": 143}}, "tokens must be a square, not 143"),
        ({"features": {"count": "anyres", "patch": 14, "limit": "anyres_max_0"}}, "Expected `str` matching regex"),
        ({"features": {"count": "guess"}}, "Invalid value 'guess'"),
        ({"features": {"count": "fixed"}}, "Object missing required field `tokens`"),
        ({"ids": [*IDS, {"token": "x", "id": -1}]}, "Expected `int` >= 0"),
    ],
)
def test_sections_are_refused(changes, reason):
    with pytest.raises(msgspec.ValidationError) as caught:
        converted(**changes)
    assert reason in str(caught.value)


def special_tokens(nodes):
    """Yield the special tokens of a template."""
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node.repeat, str):
            yield node.repeat
        else:
            for inner in (node.repeat or (), node.do, node.between, node.then, node.otherwise):
                yield from special_tokens(inner)


WITHOUT_IDS = {
    "aya_vision": {"<|START_OF_IMG|>", "<|END_OF_IMG|>"},
    "cohere2_vision": {"<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_LINE_BREAK|>"},
}
"""Special tokens whose ids differ between checkpoints and are in no configuration."""


@pytest.mark.parametrize("name", [name for name in names() if "tokens" in load(name)])
def test_built_in_specs_have_the_ids_of_their_special_tokens(name):
    tokens = resolve(load(name)).tokens
    known = {entry.token for entry in tokens.ids}
    assert set(special_tokens(tokens.nodes)) - known == WITHOUT_IDS.get(name, set())


def test_encoders_alone_have_no_tokens():
    assert [name for name in names() if "tokens" not in load(name)] == ["clip", "siglip", "siglip2"]


def from_files(name, config=None, processor=None):
    """Return the tokens of a checkpoint that says this, and else nothing."""
    raw = load(name)
    raw.get("fields", {}).pop("unset", None)
    return resolve(raw, Checkpoint(name, config or {}, {}, processor or {})).tokens


def ids_of(tokens):
    return {entry.token: entry.id for entry in tokens.ids}


@pytest.mark.parametrize(
    ("name", "config", "token", "expected"),
    [
        ("qwen3_vl", {"image_token_id": 7}, "<|image_pad|>", 7),
        ("llava1_5", {"image_token_index": 7}, "<image>", 7),
        ("llava1_5", {"image_token_index": 7, "image_token_id": 8}, "<image>", 8),
        ("llama4", {"boi_token_index": 7}, "<|image_start|>", 7),
        ("kimi_k25", {"media_placeholder_token_id": 7}, "<|media_pad|>", 7),
        ("gemma3", {"eoi_token_index": 7}, "<end_of_image>", 7),
        ("molmo2", {"image_col_id": 7}, "<im_col>", 7),
        ("phi4mm", {"vision_config": {"image_token_id": 7}}, "<|endoftext10|>", 7),
        ("aya_vision", {"image_token_index": 255_022}, "<|IMG_PATCH|>", 255_022),
    ],
)
def test_ids_of_a_checkpoint_win(name, config, token, expected):
    assert ids_of(from_files(name, config))[token] == expected


@pytest.mark.parametrize(
    ("name", "processor", "rule"),
    [
        ("internvl", {"image_seq_length": 64}, {"tokens": 64}),
        ("gemma3", {"image_seq_length": 64}, {"tokens": 64}),
        ("smolvlm", {}, {"tokens": None, "patch": 16, "pool": 4}),
        ("smolvlm", {"image_seq_len": 81}, {"tokens": 81}),
        ("mistral3", {"patch_size": 16, "spatial_merge_size": 4}, {"patch": 16, "merge": 4}),
        ("llava1_5", {"vision_feature_select_strategy": "full", "num_additional_image_tokens": 0}, {"additional": 0}),
        ("llava_onevision", {"vision_aspect_ratio": "anyres_max_4"}, {"limit": "anyres_max_4"}),
        ("llama4", {"pixel_shuffle_ratio": 0.25}, {"pool": 4}),
    ],
)
def test_counts_follow_the_processor_of_a_checkpoint(name, processor, rule):
    found = from_files(name, processor=processor).features
    assert {field: getattr(found, field) for field in rule} == rule


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("qwen2_vl", {"image_token_id": "seven"}, "config.json: image_token_id='seven': expected int, got str"),
        ("llava1_5", {"image_token_index": -200}, "config.json: image_token_index=-200: expected int >= 0"),
        ("llava_next", {"vision_feature_select_strategy": "most"}, "vision_feature_select_strategy='most': invalid"),
        ("llava_onevision", {"vision_aspect_ratio": "pad"}, "config.json: vision_aspect_ratio='pad': expected str"),
    ],
)
def test_a_checkpoint_is_blamed_for_what_it_says(name, config, reason):
    with pytest.raises(SpecError) as caught:
        from_files(name, config)
    assert reason in str(caught.value)
