"""What the text of every refusal has in common."""

import re


def check_line(error):
    """One line that people can read, without addresses, reprs or payload."""
    text = str(error)
    assert text.isprintable()
    assert 10 < len(text) < 300
    assert not re.search(r"\b0x[0-9a-f]{6}|<|object at|BytesIO|b'", text)
