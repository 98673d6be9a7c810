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
import weakref
from contextlib import suppress
from itertools import chain

from foveal.run.cpus import cpu_count

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

__all__ = ["Seats"]

Owner = weakref.ref[object]
"""Not the owner itself, so that his end is seen."""

TRIES = 8
"""Seats of other processes that are tried in vain before a call does without: a system call each."""


class Seats:
    """Seats of one process. A caller without one computes all the same, and has the next that a helper gives up.

    Whoever has seats is an object, its owner. A signal may interrupt the main thread between any two steps, those of
    `leave` included, so the seats of an owner who is no more count as free.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[int, Owner] = {}
        self._standing: list[Owner] = []
        self._file: int | None = None
        self._count = 0

    @property
    def taken(self) -> int:
        """Seats that this process has."""
        return len(self._owners)

    def take(self, owner: object, wanted: int, limit: int, shared: bool) -> list[int]:
        """Take seats, as many as are free and at most ``wanted``, and return their numbers.

        Parameters
        ----------
        owner : object
            Who has them until `leave`, at the longest as long as there are references to it.
        wanted : int
        limit : int
            Seats that this process may have at a time.
        shared : bool
            Whether the seats of other processes count.
        """
        reference = weakref.ref(owner)
        with self._lock:
            self._free(None)
            taken: list[int] = []
            file = self._shared_file() if shared else None
            count = limit if file is None else max(limit, self._count)
            start, misses = os.getpid() % count, 0
            for number in chain(range(start, count), range(start)):
                if len(taken) >= wanted or len(self._owners) >= limit or misses == TRIES:
                    break
                if number in self._owners:
                    continue
                self._owners[number] = reference  # first, as an interrupt may come before the next step
                if file is None or _locked(file, number):
                    taken.append(number)
                else:
                    del self._owners[number]
                    misses += 1
            return taken

    def take_or_stand(self, owner: object, limit: int, shared: bool) -> None:
        """Take a seat for a caller, who stands where there is none, and has the first that is handed over."""
        if not self.take(owner, 1, limit, shared):
            with self._lock:
                self._standing.append(weakref.ref(owner))

    def hand_over(self, owner: object) -> bool:
        """Give an owner's seats to a caller of this process who has none; return whether there was one."""
        with self._lock:
            while self._standing:
                caller = self._standing.pop(0)()
                if caller is not None:
                    for number in self._seats_of(owner):
                        self._owners[number] = weakref.ref(caller)
                    return True
            return False

    def leave(self, owner: object) -> None:
        """Give an owner's seats back; those of a parent process are not this one's to give."""
        with self._lock:
            self._standing = [caller for caller in self._standing if caller() is not owner]
            self._free(owner)

    def forget(self) -> None:
        """After a fork: the parent's seats are the parent's, and so is the open file that holds them."""
        file = self._file
        self.__init__()  # type: ignore[misc]
        if file is not None:
            with suppress(OSError):  # a program may have closed all files
                os.close(file)

    def _free(self, owner: object | None) -> None:
        """Free an owner's seats, those of owners who are no more if it is None; first for other processes."""
        for number in self._seats_of(owner):
            if self._file is not None:
                _unlock(self._file, number)
            del self._owners[number]

    def _seats_of(self, owner: object | None) -> list[int]:
        return [number for number, other in self._owners.items() if other() is owner]

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
