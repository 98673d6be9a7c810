"""``data:`` URLs to bytes, as browsers read them."""

import binascii

import numpy as np

from foveal.errors import CorruptImage, MediaTooLarge

__all__ = ["decode_data_url"]

_SPACE = " \t\n\f\r"
_CONTROL_OR_SPACE = "".join(map(chr, range(0x21)))
_LINES = "\t\n\r"
_WITHOUT_SPACE = dict.fromkeys(map(ord, _SPACE))
_WITHOUT_LINES = dict.fromkeys(map(ord, _LINES))

_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)


def decode_data_url(url: str, max_bytes: int) -> bytes:
    """Return what a ``data:`` URL holds.

    The media type is not looked at, as what an image is follows from its bytes. Base64 may have white space inside and
    lack its padding; the URL-safe alphabet is refused.

    Parameters
    ----------
    url : str
        Its scheme was checked.
    max_bytes : int
        Compared with the length of the text before anything is decoded.

    Raises
    ------
    MediaTooLarge
    CorruptImage
        The text of both says nothing of the payload.

    Notes
    -----
    Source: WHATWG Fetch Standard (data: URL processor), Infra Standard (forgiving-base64 decode) and URL Standard
    (white space around a URL, line breaks inside, fragment).
    """
    head, comma, payload = url.strip(_CONTROL_OR_SPACE).partition("#")[0].partition(",")
    if not comma:
        raise CorruptImage("the data URL has no comma")
    try:
        if _is_base64(head):
            _check_text(payload, max_bytes, bits=6, ignored=_SPACE + "=", escape=3)
            data = _from_base64(payload)
        else:
            _check_text(payload, max_bytes, bits=8, ignored=_LINES, escape=2)
            data = _from_percent(payload.translate(_WITHOUT_LINES).encode())
    except UnicodeError:  # a surrogate on its own; the error would hold the text
        raise CorruptImage("the data URL has a character that cannot be encoded") from None
    _check_length(len(data), max_bytes)
    return data


def _check_length(length: int, max_bytes: int) -> None:
    if length > max_bytes:
        raise MediaTooLarge(
            f"the data URL holds at least {length} bytes, more than the limit of {max_bytes} (Limits.input_bytes)"
        )


def _check_text(text: str, max_bytes: int, *, bits: int, ignored: str, escape: int) -> None:
    """Refuse a text that must hold too much: each character `bits` bits, but for those that may not count."""
    if len(text) * bits // 8 > max_bytes:  # counting takes as long as decoding
        letters = len(text) - sum(map(text.count, ignored)) - escape * text.count("%")
        _check_length(letters * bits // 8, max_bytes)


def _is_base64(head: str) -> bool:
    """Return whether what stands before the comma ends with ``;base64``."""
    kind = head.translate(_WITHOUT_LINES).rstrip(_SPACE)
    return kind[-6:].lower() == "base64" and kind[:-6].rstrip(" ").endswith(";")


def _from_base64(text: str) -> bytes:
    if "%" in text:
        text = _from_percent(text.encode()).decode("latin-1")
    if any(space in text for space in _SPACE):
        text = text.translate(_WITHOUT_SPACE)
    if len(text) % 4 == 0:
        text = text[:-2] if text.endswith("==") else text.removesuffix("=")
    if len(text) % 4 == 1 or "=" in text:
        raise CorruptImage(f"the base64 of the data URL has a wrong length or padding ({len(text)} characters)")
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError:
        raise CorruptImage("the base64 of the data URL has characters outside of its alphabet") from None


def _from_percent(text: bytes) -> bytes:
    """Replace ``%41`` by ``A``.

    Whole arrays, since a long text of escapes would take seconds by `re.sub` and gigabytes by
    `urllib.parse.unquote_to_bytes`. Escapes cannot overlap: ``%`` is no digit.
    """
    if len(text) < 3 or b"%" not in text:
        return text
    values = np.frombuffer(text, np.uint8)
    digits = _DIGITS[values]
    escape = (values[:-2] == ord("%")) & (digits[1:-1] < 16) & (digits[2:] < 16)
    values = values.copy()
    values[:-2][escape] = digits[1:-1][escape] << 4 | digits[2:][escape]
    kept = np.ones(len(values), bool)
    kept[1:-1] &= ~escape
    kept[2:] &= ~escape
    return values[kept].tobytes()
