"""Which CPUs are taken: as many seats as CPUs, one for each thread that computes, in all processes of a user.

Every process that may use the same CPUs opens the same small file, and a taken seat is a byte of it that is locked.
These locks belong to the open file, so the kernel takes them back when a process ends, however it ends. Where there
are no such locks, or no file can be had, each process counts its own threads only.
"""

import errno
import hashlib
import os
import stat
import struct
import tempfile
import threading
from itertools import chain

from foveal.run.cpus import cpu_count

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

__all__ = ["Seats"]

TRIES = 8
"""Seats of other processes that are tried in vain before a call does without: a system call each."""


class Seats:
    """Seats of one process. A caller without one computes all the same, and has the next that a helper gives up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: set[int] = set()
        self._standing: list[list[int]] = []
        self._file: int | None = None
        self._count = 0

    def take(self, wanted: int, limit: int, shared: bool) -> list[int]:
        """Take seats, as many as are free and at most ``wanted``.

        Parameters
        ----------
        wanted : int
        limit : int
            Seats that this process may have at a time.
        shared : bool
            Whether the seats of other processes count.

        Returns
        -------
        list of int
            To be given back with `leave`.
        """
        with self._lock:
            taken: list[int] = []
            file = self._shared_file() if shared else None
            count = limit if file is None else max(limit, self._count)
            start, misses = os.getpid() % count, 0
            for number in chain(range(start, count), range(start)):
                if len(taken) >= wanted or len(self._numbers) >= limit or misses == TRIES:
                    break
                if number in self._numbers:
                    continue
                if file is None or _locked(file, number):
                    self._numbers.add(number)
                    taken.append(number)
                else:
                    misses += 1
            return taken

    def take_or_stand(self, limit: int, shared: bool) -> list[int]:
        """Take a seat for a caller; return a list that it is in, or will be in, and that `leave` must be given."""
        seat = self.take(1, limit, shared)
        if not seat:
            with self._lock:
                self._standing.append(seat)
        return seat

    def hand_over(self, number: int) -> bool:
        """Give a seat to a caller of this process who has none; return whether there was one."""
        with self._lock:
            if self._standing:
                self._standing.pop(0).append(number)
                return True
            return False

    def leave(self, numbers: list[int]) -> None:
        """Give seats back; those of a parent process are not this one's to give."""
        with self._lock:
            self._standing = [waiting for waiting in self._standing if waiting is not numbers]
            for number in numbers:
                if number in self._numbers:
                    self._numbers.remove(number)
                    if self._file is not None:
                        _unlock(self._file, number)

    def forget(self) -> None:
        """After a fork: the parent's seats are the parent's, and so is the open file that holds them."""
        if self._file is not None:
            os.close(self._file)
        self.__init__()  # type: ignore[misc]

    def _shared_file(self) -> int | None:
        if not self._count:
            self._count = cpu_count()
            self._file = _open(self._count)
        return self._file


def _open(count: int) -> int | None:
    """Open the file of the processes that have the same CPUs, in a directory that is this user's alone."""
    if fcntl is None or not hasattr(fcntl, "F_OFD_SETLK"):
        return None
    digest = hashlib.sha256(repr((sorted(os.sched_getaffinity(0)), count)).encode())
    try:
        directory = os.path.join(tempfile.gettempdir(), f"foveal-{os.getuid()}")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        state = os.lstat(directory)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
            return None
        name = os.path.join(directory, f"cpus-{digest.hexdigest()[:16]}")
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _locked(file: int, number: int) -> bool:
    """Lock a byte; a file system that has no locks takes nobody's seat."""
    try:
        _set_lock(file, number, fcntl.F_WRLCK)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _unlock(file: int, number: int) -> None:
    try:
        _set_lock(file, number, fcntl.F_UNLCK)
    except OSError:
        return


def _set_lock(file: int, number: int, kind: int) -> None:
    # Source: Linux, uapi/asm-generic/fcntl.h, struct flock.
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, number, 1, 0))
