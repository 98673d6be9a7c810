"""Paths as callers hand them over, and small files read whole. Every error names the file as the caller did."""

import os
import stat

from foveal.errors import SpecError
from foveal.spec.values import one_line, show

__all__ = ["file_mode", "path_text", "read_file", "shown_path"]

MAX_BYTES = 1 << 20
"""Far more than any configuration of a model needs."""


def path_text(value: object, what: str) -> str:
    """Return a path as text.

    Parameters
    ----------
    value : str or path
    what : str
        What the caller should have passed, for the message.

    Raises
    ------
    SpecError
        If the value is not a path, or a path of bytes.
    """
    try:
        path = os.fspath(value)  # type: ignore[call-overload]
    except Exception:  # __fspath__ is the caller's own code
        path = None
    if not isinstance(path, str):
        raise SpecError(f"expected {what}, not {show(value)}")
    return path


def shown_path(path: str) -> str:
    """Return a path for a message: one line, not long."""
    return one_line(path, 120) or "the empty path"


def file_mode(path: str) -> int | None:
    """Return what kind of file there is, or None if there is none.

    Raises
    ------
    SpecError
        If the path cannot be looked at, or no file could have that name.
    """
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror
    except ValueError:
        reason = "not a file name"
    raise SpecError(f"{shown_path(path)}: {reason}")


def read_file(path: str) -> bytes | None:
    """Return the content of a regular file, or None if there is none.

    Raises
    ------
    SpecError
        If the file is of another kind, too large, or cannot be read.
    """
    mode = file_mode(path)
    if mode is None:
        return None
    if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer
        raise SpecError(f"{shown_path(path)}: not a regular file")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{shown_path(path)}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise SpecError(f"{shown_path(path)}: larger than {MAX_BYTES >> 20} MiB")
    return data
