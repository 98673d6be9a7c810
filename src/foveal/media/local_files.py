"""``file://`` URLs to bytes, from one directory and what lies below it."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import unquote_to_bytes

from foveal.errors import FetchFailed, HostNotAllowed, MediaError, MediaTooLarge

__all__ = ["read_file_url"]

_SETTING = "FetchSettings.file_root, FOVEAL_FETCH_FILE_ROOT"
_PATH_LENGTH = 4096
_MAX_LINKS = 40
"""What Linux allows at most."""

_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY = _SEARCH | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a pipe would wait for a writer


def read_file_url(url: str, root: str | None, max_bytes: int) -> bytes:
    """Return the content of a regular file at or below a directory.

    Symbolic links are followed as long as they stay below; each step is opened from the directory that was opened
    before, so that what was checked is what is read.

    Parameters
    ----------
    url : str
        ``file:///absolute/path``; its scheme was checked. Query and fragment are dropped.
    root : str, optional
        Absolute path of the directory. None refuses every URL.
    max_bytes : int

    Raises
    ------
    HostNotAllowed
        If the file lies elsewhere, or no directory is set.
    FetchFailed
        If it cannot be read. The text of no error holds a path.
    MediaTooLarge
    """
    if root is None:
        raise HostNotAllowed(f"file URLs are not read: no directory is set for them ({_SETTING})")
    path = _path(url)
    with _reasons(), _opened(root, path) as file:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FetchFailed("the file URL does not lead to a regular file")
        if status.st_size > max_bytes:
            raise _too_large(status.st_size, max_bytes)
        return _read(file, status.st_size, max_bytes)


def _path(url: str) -> bytes:
    """Return the path of a URL, which names no host but this one."""
    address = re.split("[?#]", url.strip()[len("file://") :], maxsplit=1)[0]
    host, slash, path = address.partition("/")
    if host.lower() not in ("", "localhost"):
        raise HostNotAllowed("the file URL names a host; only file:///path is read")
    if slash and len(path) < 3 * _PATH_LENGTH:
        with suppress(UnicodeError):
            decoded = unquote_to_bytes(slash + path)
            if len(decoded) <= _PATH_LENGTH and b"\0" not in decoded:
                return decoded
    raise FetchFailed("the file URL has no valid path")


def _names_below(path: bytes, root: str) -> list[bytes]:
    """Return the names that lead from the root to an absolute path that begins with it, as it was set or resolved."""
    names = _names(path)
    for start in map(_names, (os.fsencode(os.path.normpath(root)), os.fsencode(os.path.realpath(root)))):
        if names[: len(start)] == start:
            return names[len(start) :]
    raise _elsewhere()


def _names(path: bytes) -> list[bytes]:
    return [name for name in path.split(b"/") if name not in (b"", b".")]


@contextmanager
def _opened(root: str, path: bytes) -> Iterator[int]:
    """Open a file below a directory, as the kernel would resolve its path, but never above."""
    held = [_opened_root(root)]
    try:
        held.append(_walk(root, _names_below(path, root), held))
        yield held[-1]
    finally:
        for descriptor in held:
            os.close(descriptor)


def _opened_root(root: str) -> int:
    try:
        return os.open(root, _SEARCH)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FetchFailed(
            f"the directory that file URLs are read from cannot be opened: {reason} ({_SETTING})"
        ) from None


def _walk(root: str, names: list[bytes], held: list[int]) -> int:
    """Return the descriptor of a file; `held` begins with the root, and gets the directories on the way."""
    ahead, links = names[::-1], 0
    while ahead:
        name = ahead.pop()
        if name == b"..":
            if len(held) == 1:
                raise _elsewhere()
            os.close(held.pop())
        elif (target := _link(name, held[-1])) is not None:
            links += 1
            if links > _MAX_LINKS:
                raise FetchFailed("the file URL cannot be read: too many symbolic links")
            if target.startswith(b"/"):
                ahead += _names_below(target, root)[::-1]
                while len(held) > 1:
                    os.close(held.pop())
            else:
                ahead += _names(target)[::-1]
        elif ahead:
            held.append(os.open(name, _DIRECTORY, dir_fd=held[-1]))
        else:
            return os.open(name, _FILE, dir_fd=held[-1])
    raise FetchFailed("the file URL does not lead to a regular file")


def _link(name: bytes, directory: int) -> bytes | None:
    """Return where a symbolic link leads, None for all else."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        return None


def _read(file: int, size: int, max_bytes: int) -> bytes:
    with open(file, "rb", closefd=False) as stream:
        data = stream.read(size + 1)
    if len(data) > max_bytes:
        raise _too_large(len(data), max_bytes)
    if len(data) != size:
        raise FetchFailed("the file changed while it was read")
    return data


def _too_large(length: int, max_bytes: int) -> MediaTooLarge:
    return MediaTooLarge(
        f"the file has at least {length} bytes, more than the limit of {max_bytes} (Limits.input_bytes)"
    )


def _elsewhere() -> HostNotAllowed:
    return HostNotAllowed(f"the file URL leads out of the directory that is allowed ({_SETTING})")


@contextmanager
def _reasons() -> Iterator[None]:
    """Turn what the system says into errors without the path."""
    try:
        yield
    except MediaError:
        raise
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FetchFailed(f"the file URL cannot be read: {reason}") from None
