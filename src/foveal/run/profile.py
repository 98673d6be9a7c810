"""What was measured on this machine, for `foveal.run.schedule`: which work is worth another thread, and how many are.

``foveal tune`` writes a profile beside the compiled kernels. It holds for one kind of CPU, one instruction level and
one version of the kernels; any other is left alone. No value changes a bit of a result.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from foveal.errors import OptionError
from foveal.run.cpus import cpu_name

__all__ = ["Profile", "Record", "current", "load", "reset", "save", "using"]

Threads = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Elements = Annotated[int, msgspec.Meta(ge=1 << 10, le=1 << 30)]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits below which a thread is not worth its cost.

    Attributes
    ----------
    threads : int, optional
        Threads beyond which a large image gains nothing; None for no such number.
    band_elements : int
        Elements, of the output or pixels of the source, that a band of rows must have.
    image_elements : int
        The same of whole images, for each thread that works on them.
    """

    threads: Threads | None = None
    band_elements: Elements = 1 << 20
    image_elements: Elements = 1 << 19


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A profile and what it holds for."""

    cpu: str
    level: str
    version: str
    profile: Profile


DEFAULT = Profile()
_override: Profile | None = None


def current() -> Profile:
    """Return the profile that this process works by: the one of this machine, else the default."""
    return _override or _loaded() or DEFAULT


@contextmanager
def using(profile: Profile) -> Iterator[None]:
    """Work by another profile for a while, in all threads."""
    global _override
    before, _override = _override, profile
    try:
        yield
    finally:
        _override = before


@lru_cache(maxsize=1)
def _loaded() -> Profile | None:
    found = load()
    return found[1] if found else None


def load(directories: Sequence[Path] | None = None) -> tuple[Path, Profile] | None:
    """Return the file of this machine's profile and what is in it, None if there is none that holds here.

    Parameters
    ----------
    directories : sequence of path, optional
        In the place of those of the cache.
    """
    try:
        wanted = _record(DEFAULT)
    except ValueError:  # a wrong level is refused where kernels are called
        return None
    for directory in directories or _cache_directories():
        file = directory / _name(wanted)
        try:
            found = msgspec.json.decode(file.read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            continue
        if msgspec.structs.replace(found, profile=DEFAULT) == wanted:
            return file, found.profile
    return None


def save(profile: Profile, directories: Sequence[Path] | None = None) -> Path:
    """Store a profile for this machine and return its file; processes that start later work by it, and this one.

    Parameters
    ----------
    profile : Profile
    directories : sequence of path, optional
        In the place of those of the cache; the first that can be written has the file.

    Raises
    ------
    OptionError
        If no directory of the cache can be written.
    """
    record = _record(profile)
    content = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    from foveal_kernels.compile import write_file  # imports Numba, which plans do not need

    for directory in directories or _cache_directories():
        file = directory / _name(record)
        if write_file(file, content):
            _loaded.cache_clear()
            return file
    raise OptionError("the profile cannot be stored: no directory of the cache can be written")


def reset() -> bool:
    """Remove the profile of this machine from all directories of the cache; return whether there was one."""
    removed = False
    while found := load():
        try:
            found[0].unlink()
        except OSError:
            raise OptionError("the profile cannot be removed: its directory cannot be written") from None
        removed = True
    _loaded.cache_clear()
    return removed


def _record(profile: Profile) -> Record:
    from foveal_kernels import target

    return Record(cpu_name(), target.level(), _cache_directories()[0].name, profile)


def _cache_directories() -> Sequence[Path]:
    from foveal_kernels.compile import cache_directories  # imports Numba, which plans do not need

    found: Sequence[Path] = cache_directories()
    return found


def _name(record: Record) -> str:
    return f"profile-{sha256(repr((record.cpu, record.level)).encode()).hexdigest()[:16]}.json"
