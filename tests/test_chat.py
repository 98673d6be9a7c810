"""Images out of chats, as clients write them and as nobody should; a checkpoint's tokenizer."""

import json
import os
import sys

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import foveal
from foveal.chat import image_urls, tokenizer
from foveal.errors import OptionError, RequestError
from foveal.tokens import expand_ids

URLS = ["https://images.example/a.png", "data:image/png;base64,AA==", "HTTP://images.example/b", "file:///c.png"]


def image(url, **more):
    return {"type": "image_url", "image_url": {"url": url, **more}}


def text(words="Look:"):
    return {"type": "text", "text": words}


def user(*parts):
    return {"role": "user", "content": list(parts)}


def test_images_of_messages_keep_their_order():
    messages = [
        {"role": "system", "content": "Be brief."},
        user(image(URLS[0]), text(), image(URLS[1], detail="high")),
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant"},
        user(text("a"), image(URLS[2], detail="auto"), text("b"), image(URLS[0], detail=None)),
    ]
    assert image_urls(messages) == [URLS[0], URLS[1], URLS[2], URLS[0]]
    assert image_urls(tuple(messages)) == image_urls(messages)


def test_every_way_to_write_an_image():
    parts = (
        image(URLS[0]),
        {"type": "image_url", "image_url": URLS[1]},
        {"type": "image_url", "image_url": URLS[2], "detail": "low"},
        {"type": "input_image", "image_url": URLS[3], "detail": "high"},
        {"type": "input_image", "image_url": {"url": URLS[0]}},
        {"type": "input_text", "text": ""},
        {"type": "output_text", "text": ""},
    )
    assert image_urls(parts) == [*URLS, URLS[0]]
    assert image_urls([user(*parts)]) == [*URLS, URLS[0]]


def test_chats_without_images():
    assert image_urls([]) == []
    assert image_urls([text()]) == []
    assert image_urls([{"role": "user", "content": "https://images.example/a.png"}]) == []
    assert image_urls([{"role": "user", "content": []}]) == []


@pytest.mark.parametrize("kind", ["video_url", "video", "input_audio", "audio_url"])
def test_only_images_are_taken(kind):
    with pytest.raises(RequestError, match=f"^message 1, part 2 is of type '{kind}': only images are taken$"):
        image_urls([user(text()), user(text(), image(URLS[0]), {"type": kind, kind: {"url": "https://secret"}})])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([{"type": "file", "file": {}}], "part 0 is of unknown type 'file'"),
        ([text(), {"type": "x\n" * 10}], r"part 1 is of unknown type 'x\\n.*'"),
        ([{"type": "secret" * 100}], "part 0 is of unknown type a long text"),
        ([{"type": 5}], "part 0: expected an object with a type"),
        ([{"text": "secret"}], "part 0: expected an object with a type"),
        ([text(), "secret"], "part 1: expected an object with a type"),
        ([None], "part 0: expected an object with a type"),
        ([image(URLS[0], detail="secret" * 10)], "part 0: detail must be auto, low or high, not a long text"),
        ([image(URLS[0], detail=["low"])], "part 0: detail must be auto, low or high, not a list"),
        ([{**image(URLS[0]), "detail": "full"}], "part 0: detail must be auto, low or high, not 'full'"),
        ([{"type": "image_url"}], "part 0: the image has no data, http, https or file URL"),
        ([{"type": "input_image", "file_id": "secret"}], "part 0: the image has no data, http, https or file URL"),
        ([image(None)], "part 0: the image has no data, http, https or file URL"),
        ([image(b"secret")], "part 0: the image has no data, http, https or file URL"),
        ([image([URLS[0]])], "part 0: the image has no data, http, https or file URL"),
    ],
)
def test_what_is_no_part(parts, message):
    for before, chat in (("", parts), ("message 0, ", [user(*parts)])):
        with pytest.raises(RequestError, match=f"^{before}{message}$") as caught:
            image_urls(chat)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", ["/etc/hostname", "picture.png", "", "ftp://images.example/a.png", "//host/a.png"])
def test_a_path_is_no_url(path):
    """An image that is a path is read from the server's disk, which its user may not ask for."""
    with pytest.raises(RequestError, match="has no data, http, https or file URL"):
        image_urls([image(path)])


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("secret secret secret secret secret secret secret", "expected a list of messages or of content parts, not a"),
        (None, "not None"),
        (user(image(URLS[0])), "not a dict"),
        ([user(), {"content": "secret"}], "^message 1 has no role$"),
        ([user(), image(URLS[0])], "^message 1 has no role$"),
        ([user(), None], "^message 1 has no role$"),
        ([{"role": "user", "content": 5}], "^message 0: the content must be text or a list of parts, not 5$"),
        ([{"role": "user", "content": image(URLS[0])}], "must be text or a list of parts, not a dict$"),
    ],
)
def test_what_is_no_chat(messages, message):
    with pytest.raises(RequestError, match=message) as caught:
        image_urls(messages)
    assert "secret" not in str(caught.value)


# ---- the tokenizer

WORDS = {"<s>": 0, "[UNK]": 1, "user": 2, "What": 3, "is": 4, "this": 5, "?": 6}


def made(**ids):
    """Return a tokenizer of a few words that truncates, pads and begins with ``<s>``, as checkpoints' may."""
    inner = Tokenizer(models.WordLevel(WORDS | ids, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens([AddedToken("<image>", special=True)])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    inner.enable_truncation(4)
    inner.enable_padding(length=16)
    return inner


@pytest.fixture
def checkpoint(tmp_path):
    made().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_special_tokens_are_recognized_and_none_is_added(checkpoint):
    assert tokenizer(checkpoint).encode("user<image>What is this?") == [2, 7, 3, 4, 5, 6]
    assert tokenizer(str(checkpoint)).encode("") == []
    assert tokenizer(checkpoint).encode("other") == [1]


def test_nothing_is_cut_off_or_padded(checkpoint):
    assert tokenizer(checkpoint).encode("is " * 5000) == [4] * 5000


def test_prompts_are_expanded_with_it(checkpoint):
    """LLaVA's placeholder has the id that this vocabulary gives it, not the one that its spec publishes."""
    encode = tokenizer(checkpoint).encode
    pre = foveal.Preprocessor.from_spec("llava1_5")
    plan = pre.plan([np.zeros((48, 64, 3), np.uint8)]).plans[0]
    ids = expand_ids(pre.spec.tokens, encode("What is<image>this ?"), [plan], encode).ids.tolist()
    assert ids == [3, 4, *[7] * plan.features, 5, 6]


def test_it_is_kept_until_its_file_changes(checkpoint):
    first = tokenizer(checkpoint)
    assert tokenizer(checkpoint) is first
    made(other=9).save(str(checkpoint / "new.json"))
    os.replace(checkpoint / "new.json", checkpoint / "tokenizer.json")
    assert tokenizer(checkpoint).encode("other") == [9]
    assert first.encode("other") == [1]


def test_text_that_cannot_be_tokenized(checkpoint):
    for wrong in ("secret \ud800", b"secret", None):
        with pytest.raises(RequestError, match=r"^the text cannot be tokenized$"):
            tokenizer(checkpoint).encode(wrong)


def test_a_checkpoint_without_a_tokenizer(tmp_path):
    for wrong in (tmp_path, tmp_path / "absent", os.fsencode(tmp_path), None, "\0", ""):
        with pytest.raises(OptionError, match=r"^the checkpoint has no tokenizer\.json$"):
            tokenizer(wrong)
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(OptionError, match=r"^tokenizer\.json is not a regular file$"):
        tokenizer(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"null", b"\xff\xfe", b'{"model": {"type": "x"}}'])
def test_a_file_that_is_no_tokenizer(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(OptionError, match=r"^tokenizer\.json cannot be read: ") as caught:
        tokenizer(tmp_path)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()
    assert str(tmp_path) not in str(caught.value)


def test_a_long_reason_is_cut(tmp_path):
    saved = json.loads(made().to_str())
    saved["version"] = "1\n" * 1000
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    with pytest.raises(OptionError) as caught:
        tokenizer(tmp_path)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_without_the_package(checkpoint, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(OptionError, match=r"pip install 'foveal\[grpc\]'$"):
        tokenizer(checkpoint)
