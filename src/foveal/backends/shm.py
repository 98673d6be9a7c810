"""Tensors in shared memory, for workers on the same host: one file in /dev/shm each, which its reader unlinks."""

import mmap
import os
import re
import secrets
import stat
import weakref
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from foveal.backends.messages import common
from foveal.errors import OptionError, RequestError

__all__ = ["Segment", "namespace_id", "sweep"]

DIRECTORY = "/dev/shm"
NAME = re.compile(r"foveal-(?P<namespace>\d{1,20})-(?P<pid>[1-9]\d{0,8})-(?P<start>\d{1,20})-[0-9a-f]{32}")

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@lru_cache
def namespace_id() -> str:
    """Return what tells this process's /dev/shm from others: ``<boot id>:<device>``, empty where that is not known.

    Workers say theirs in `GetServerInfo`. Segments can be read by a worker that says the same and runs as the same
    user.

    Notes
    -----
    Source: smg-grpc-servicer 0.14.1, mm_shm.py, shm_namespace_id.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.stat(DIRECTORY).st_dev}"
    except OSError:
        return ""


class Segment:
    """Shared memory of one tensor, made by `create`.

    Its file is removed when it is discarded or collected, and when its process exits; `sweep` is for those that were
    killed. So hold it until the worker has read it, which its first answer says. Nothing that happens in a forked child
    removes it.

    Attributes
    ----------
    name : str
        Of the file in /dev/shm.
    nbytes : int
    """

    def __init__(self, name: str, owner: str, nbytes: int) -> None:
        self.name = name
        self.nbytes = nbytes
        self._owner = owner
        self._discard = weakref.finalize(self, _unlink, name, owner)  # first, as an interrupt may come at any time
        file = -1
        try:
            file = self._new_file(name)
            os.posix_fallocate(file, 0, nbytes)
            self._memory: mmap.mmap | None = mmap.mmap(file, nbytes)
        except BaseException:
            self.discard()
            raise
        finally:
            if file >= 0:
                os.close(file)

    def _new_file(self, name: str) -> int:
        try:
            return os.open(_path(name), _NEW, 0o600)
        except OSError:
            self._discard.detach()  # what is there is not ours
            raise

    @classmethod
    def create(cls, nbytes: int) -> Self:
        """Return new shared memory. All of it is there: a write cannot fail later, when /dev/shm is full.

        Parameters
        ----------
        nbytes : int
            At least 1.

        Raises
        ------
        OptionError
            If no memory has that size.
        RequestError
            If the memory cannot be had.
        """
        if not isinstance(nbytes, int) or nbytes < 1:
            raise OptionError("shared memory needs at least 1 byte")
        try:
            owner = _owner()
            return cls(f"foveal-{owner}-{secrets.token_hex(16)}", owner, nbytes)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "too large"
            raise RequestError(f"shared memory of {nbytes} bytes cannot be had: {reason.lower()}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self.discard()

    def array(self) -> npt.NDArray[np.uint8]:
        """Return the memory, to write into. It stays mapped as long as the array, or one made from it, is held.

        Raises
        ------
        OptionError
            If the segment was closed.
        """
        if self._memory is None:
            raise OptionError("the shared memory was closed")
        return np.frombuffer(self._memory, np.uint8)

    def handle(self) -> Any:
        """Return the message by which a worker finds the tensor: a ``ShmHandle``."""
        return common().ShmHandle(name=self.name, offset=0, nbytes=self.nbytes, owner_id=f"foveal-{self._owner}")

    def close(self) -> None:
        """Let go of the mapping and its descriptor, and leave the file to the worker."""
        self._memory = None

    def discard(self) -> None:
        """Remove the file, if neither this process nor the worker has done so."""
        self._discard()


def sweep() -> int:
    """Remove the segments that killed processes have left, and return how many.

    Those of this user's processes that are gone. Processes in another PID namespace, as of another container with the
    same /dev/shm, cannot be told from dead ones: their segments stay.
    """
    try:
        namespace = _namespace()
        with os.scandir(DIRECTORY) as entries:
            return sum(_remove_if_left(entry, namespace) for entry in entries)
    except OSError:
        return 0


class _Process(NamedTuple):
    """What the system says of a process."""

    state: str
    start: int


@lru_cache
def _owner() -> str:
    """Return this process: its PID namespace, its id there, and when it started, as ids are used again."""
    return f"{_namespace()}-{os.getpid()}-{_process(os.getpid()).start}"


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _process(pid: int) -> _Process:
    """Source: proc_pid_stat(5); the name of a program may hold spaces and parentheses."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return _Process(fields[0].decode(), int(fields[19]))


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def _unlink(name: str, owner: str) -> None:
    """Remove a segment of this process; its forks have others."""
    with suppress(OSError):
        if owner == _owner():
            os.unlink(_path(name))


def _remove_if_left(entry: os.DirEntry[str], namespace: int) -> bool:
    found = NAME.fullmatch(entry.name)
    if not found or int(found["namespace"]) != namespace or not _is_gone(int(found["pid"]), int(found["start"])):
        return False
    try:
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return False
        os.unlink(entry.path)
    except OSError:  # another sweeper was faster
        return False
    return True


def _is_gone(pid: int, start: int) -> bool:
    """Return whether a process has ended, or another one has its id; where that cannot be known, it lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    try:
        process = _process(pid)
    except OSError:
        return False
    return process.state in "XZ" or process.start != start


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_owner.cache_clear)
