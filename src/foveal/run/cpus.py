"""The CPUs of this process: how many it may use, by its affinity and its control groups, and their name."""

import os
import platform
from functools import lru_cache
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import NamedTuple

__all__ = ["cpu_count", "cpu_name", "cpu_quota"]


KEPT_SECONDS = 1.0
_counted = (-KEPT_SECONDS, 0)


def cpu_count() -> int:
    """Return the number of CPUs that this process may use, at least 1; what was so a second ago may be told.

    A quota counts in whole CPUs: with a thread more than that, the kernel would stop the whole process, event loops
    included, for a part of every tenth of a second.
    """
    global _counted
    now = monotonic()
    if now - _counted[0] >= KEPT_SECONDS:
        _counted = (now, _count())
    return _counted[1]


def _count() -> int:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return allowed if quota is None else max(1, min(allowed, int(quota)))


@lru_cache(maxsize=1)
def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPUs' worth of time that the control groups of this process leave it, None for all.

    Read once a process. Of the group and those around it the smallest quota holds, in version 1 and 2.

    Parameters
    ----------
    root : path
        Of the file system that is read.
    """
    quotas = [_quota(directory) for directory in _directories(root)]
    return min((quota for quota in quotas if quota is not None), default=None)


def cpu_name() -> str:
    """Return the model of the CPU, as far as the system says it."""
    lines = _lines(Path("/proc/cpuinfo"))
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


class _Mount(NamedTuple):
    """A mounted hierarchy; ``shown`` is the group that its mount point shows."""

    version: int
    shown: PurePosixPath
    point: str


def _directories(root: Path) -> list[Path]:
    """Return the directories of the groups of this process that may have a quota of CPU time."""
    groups = _groups(root)
    found = []
    for mount in _mounts(root):
        if mount.version in groups:
            top = root / mount.point.lstrip("/")
            group = groups[mount.version]
            below = group.relative_to(mount.shown) if group.is_relative_to(mount.shown) else PurePosixPath()
            if ".." in below.parts:  # outside of what this process can see
                below = PurePosixPath()
            found += [top / below, *(top / parent for parent in below.parents)]
    return found


def _groups(root: Path) -> dict[int, PurePosixPath]:
    """Return the groups of this process: that of version 2, and that of version 1 which has CPU time."""
    groups = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "")
        if not controllers or "cpu" in controllers.split(","):
            groups[1 if controllers else 2] = PurePosixPath(path)
    return groups


def _mounts(root: Path) -> list[_Mount]:
    """Return where control groups are mounted.

    Notes
    -----
    Source: Linux, Documentation/filesystems/proc.rst, /proc/<pid>/mountinfo.
    """
    found = []
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, behind = line.partition(" - ")
        fields, kind = before.split(" "), behind.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "cpu" in kind[2].split(",")):
            found.append(_Mount(2 if kind[0] == "cgroup2" else 1, PurePosixPath(fields[3]), fields[4]))
    return found


def _quota(directory: Path) -> float | None:
    words = " ".join(_lines(directory / "cpu.max")).split()
    if not words:
        words = [*_lines(directory / "cpu.cfs_quota_us"), *_lines(directory / "cpu.cfs_period_us")]
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
