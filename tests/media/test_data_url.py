import base64
import string
import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foveal.errors import CorruptImage, MediaTooLarge
from foveal.media.data_url import decode_data_url

MANY = 1 << 20
ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
SPACE = " \t\n\f\r"


def twin(url: str) -> bytes | None:
    """The rules of the WHATWG, character by character; None is a failure."""
    text = url.strip("".join(map(chr, range(33)))).split("#")[0]
    text = "".join(character for character in text if character not in "\t\n\r")
    if "," not in text:
        return None
    head, body = text.split(",", 1)
    data = twin_percent(body.encode())
    kind = head[len("data:") :].rstrip(SPACE)
    if not kind.lower().endswith("base64") or not kind[: -len("base64")].rstrip(" ").endswith(";"):
        return data
    letters = [chr(byte) for byte in data if chr(byte) not in SPACE]
    if len(letters) % 4 == 0:
        for _ in range(2):
            if letters and letters[-1] == "=":
                letters.pop()
    if len(letters) % 4 == 1 or any(letter not in ALPHABET for letter in letters):
        return None
    bits = "".join(f"{ALPHABET.index(letter):06b}" for letter in letters)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))


def twin_percent(body: bytes) -> bytes:
    data, at = [], 0
    while at < len(body):
        digits = body[at + 1 : at + 3].decode("latin-1")
        if body[at : at + 1] == b"%" and len(digits) == 2 and all(digit in string.hexdigits for digit in digits):
            data.append(int(digits, 16))
            at += 3
        else:
            data.append(body[at])
            at += 1
    return bytes(data)


def decoded(url: str) -> bytes | None:
    try:
        return decode_data_url(url, MANY)
    except CorruptImage:
        return None


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,aGVsbG8=",
        "DATA:image/png;BASE64,aGVsbG8=",
        "Data:;bAsE64,aGVsbG8=",
        "data:image/svg+xml;charset=utf-8;name=a;base64,aGVsbG8=",
        "data:image/png; base64 ,aGVsbG8=",
        "data:image/png;   base64,aGVsbG8=",
        "data:text/plain;base64,aGVsbG8",
        "data:;base64,aGVs\nbG8=\r\n",
        "data:;base64, a G V s b G 8 = ",
        "data:;base64,aGVs%0AbG8%3D",
        "data:;base64,%61GVsbG8=",
        " \n data:;base64,aGVsbG8= \t",
        "data:;base64,aGVsbG8=#fragment",
        "data:;base64,aGVsbG9=",
        "data:,hello",
        "data:text/plain,%68%65%6c%6C%6f",
        "data:image/png;base64=1,hello",
        "data:base64,hello",
    ],
)
def test_what_browsers_accept(url):
    assert decode_data_url(url, MANY) == b"hello"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("data:image/png;base64", "no comma"),
        ("data:#,AAAA", "no comma"),
        ("data:;base64,AAAAA", "wrong length or padding"),
        ("data:;base64,AA=", "wrong length or padding"),
        ("data:;base64,A===", "wrong length or padding"),
        ("data:;base64,AA==AA==", "wrong length or padding"),
        ("data:;base64,=AAA", "wrong length or padding"),
        ("data:;base64,AA-_", "outside of its alphabet"),
        ("data:;base64,AA*A", "outside of its alphabet"),
        ("data:;base64,AAéA", "outside of its alphabet"),
        ("data:;base64,AA\ud800A", "outside of its alphabet"),
        ("data:;base64,AA%E9A", "outside of its alphabet"),
        ("data:,\ud800", "cannot be encoded"),
        ("data:;base64,%\ud800", "cannot be encoded"),
    ],
)
def test_what_browsers_refuse(url, text):
    with pytest.raises(CorruptImage, match=text) as caught:
        decode_data_url(url, MANY)
    assert "AA" not in str(caught.value)
    assert caught.value.__cause__ is None


PIECES = st.sampled_from([*"AZaz09+/=-_%#,;:é ", *SPACE, "%2B", "%3d", "%20", "%0a", "%4", "%%41", "base64", ";base64"])


@given(
    head=st.sampled_from(["data:", "DATA:image/png;base64", "data:;base64", "data:x; Base64"]), parts=st.lists(PIECES)
)
@example(head="data:;base64", parts=["\x0c"])
@example(head="data:", parts=["%%41", "%4", "1"])
def test_equals_the_twin(head, parts):
    url = head + "," + "".join(parts)
    assert decoded(url) == twin(url)
    assert decoded(head + "".join(parts)) == twin(head + "".join(parts))


@given(data=st.binary(max_size=200), space=st.sampled_from(["", "\n", " ", "\r\n\t"]), every=st.integers(1, 80))
def test_every_payload_comes_back(data, space, every):
    text = base64.b64encode(data).decode()
    spread = space.join(text[at : at + every] for at in range(0, len(text), every))
    for payload in (text, text.rstrip("="), spread, text.replace("+", "%2B").replace("=", "%3D")):
        assert decode_data_url(f"data:image/png;base64,{payload}", len(data)) == data
    assert decode_data_url("data:," + "".join(f"%{byte:02x}" for byte in data), len(data)) == data


@given(data=st.binary(min_size=1, max_size=200), space=st.text(SPACE, max_size=20), escape=st.booleans())
def test_the_limit_is_exact(data, space, escape):
    text = base64.b64encode(data).decode()
    payload = space + (text.replace("=", "%3D") if escape else text) + space
    plain = "".join(f"%{byte:02x}" for byte in data)
    for url in (f"data:;base64,{payload}", f"data:,{plain}"):
        assert decode_data_url(url, len(data)) == data
        with pytest.raises(MediaTooLarge, match=rf"limit of {len(data) - 1} \(Limits.input_bytes\)"):
            decode_data_url(url, len(data) - 1)


@pytest.mark.parametrize("head", ["data:,", "data:;base64,"])
def test_too_long_is_refused_before_it_is_decoded(head):
    url = head + "QUFB" * (8 << 20)
    tracemalloc.start()
    begin = time.perf_counter()
    with pytest.raises(MediaTooLarge):
        decode_data_url(url, 1 << 20)
    seconds, (_, peak) = time.perf_counter() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 3
    assert peak < 2.5 * len(url)


def test_hostile_texts_take_linear_time():
    for url in (
        "data:" + "; " * (1 << 20) + ";base64,AAAA",
        "data:" + ";" + " " * (1 << 21) + "base64,AAAA",
        "data:;base64," + "%41" * (1 << 20),
        "data:," + "%" * (1 << 20),
        "data:;base64," + "\n" * (1 << 21) + "AAAA",
    ):
        begin = time.perf_counter()
        decode_data_url(url, MANY)
        assert time.perf_counter() - begin < 3
