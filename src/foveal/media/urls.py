"""URLs as requests hold them: which kind they are, where they may lead, and those that need no connection."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import msgspec

from foveal.errors import HostNotAllowed, MediaTooLarge, OptionError
from foveal.media.data_url import decode_data_url
from foveal.media.fields import field_value
from foveal.media.hosts import listed_host
from foveal.media.local_files import read_file_url

__all__ = ["Allowance", "FetchSettings", "is_http", "load_local", "trimmed", "url_scheme"]

PREFIX = "FOVEAL_FETCH_"
"""Of the environment variables: ``FOVEAL_FETCH_FILE_ROOT`` for ``file_root``."""

_SPACE = re.compile(r"[\x00-\x20\s\ufeff]*")
_URL = re.compile(_SPACE.pattern + "(?:(data):|([a-z][a-z0-9+.-]*)://)", re.IGNORECASE)

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class FetchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where images of URLs may come from, and how long that may take.

    Attributes
    ----------
    allowed_domains : tuple of str, optional
        Hosts of ``http(s)`` URLs, redirects included: ``images.example`` is that host, ``*.images.example`` every host
        below it, both with the scheme's own port; ``images.example:8443`` is that port. Names in any script. None
        allows every host, an empty tuple none.
    allow_private_hosts : bool
        Whether hosts may have loopback, private, link-local, unique local and carrier-shared addresses. If any address
        of a host is refused, the host is. Addresses of clouds' metadata services, multicast and reserved ones are
        refused always.
    file_root : str, optional
        Absolute path of the directory below which ``file://`` URLs are read. None reads none.
    connect_timeout, read_timeout : float
        Seconds to find and reach a host, TLS included; and in which nothing arrives.
    total_timeout : float
        Seconds for one URL, redirects included, from when its turn comes.
    max_redirects : int
    concurrency : int
        Of URLs that are fetched at a time; the others wait.

    Raises
    ------
    OptionError
        If a value is none of these.

    Notes
    -----
    Proxies and credentials of the environment (``HTTPS_PROXY``, ``.netrc``) are never used: a proxy would connect to
    addresses that were not checked. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` are, they name trusted certificates.
    """

    allowed_domains: tuple[str, ...] | None = None
    allow_private_hosts: bool = False
    file_root: Annotated[str, msgspec.Meta(pattern="^/")] | None = None
    connect_timeout: Seconds = 5.0
    read_timeout: Seconds = 10.0
    total_timeout: Seconds = 30.0
    max_redirects: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16

    def __post_init__(self) -> None:
        """Check the values, as msgspec does only where it decodes."""
        for field in msgspec.structs.fields(type(self)):
            value = field_value(f"FetchSettings.{field.name}", getattr(self, field.name), field.type)
            msgspec.structs.force_setattr(self, field.name, value)
        _check_domains("FetchSettings.allowed_domains", self.allowed_domains)

    @classmethod
    def default(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the settings with what the environment overrides.

        Parameters
        ----------
        environment : mapping, optional
            ``os.environ`` by default. ``FOVEAL_FETCH_`` and the name of a field in upper case:
            ``FOVEAL_FETCH_ALLOWED_DOMAINS=images.example,*.images.example``. An empty variable is none.

        Raises
        ------
        OptionError
        """
        variables = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(cls):
            name = PREFIX + field.name.upper()
            text = variables.get(name, "").strip()
            if text:
                value = tuple(text.replace(",", " ").split()) if field.name == "allowed_domains" else text
                values[field.name] = field_value(name, value, field.type, strict=False)
        _check_domains(f"{PREFIX}ALLOWED_DOMAINS", values.get("allowed_domains"))
        return cls(**values)


def _check_domains(name: str, domains: Sequence[str] | None) -> None:
    for number, domain in enumerate(domains or ()):
        try:
            listed_host(domain)
        except OptionError:
            raise
        except ValueError:
            raise OptionError(f"{name}: entry {number} is not a host, *.host or host:port") from None


class Allowance:
    """Bytes that the bodies of several URLs may take together, counted as they arrive.

    Parameters
    ----------
    limit : int, optional
        None allows any number.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, count: int) -> None:
        """Count bytes; refuse them, and all that come after, where they are too many.

        Raises
        ------
        MediaTooLarge
        """
        self._taken += count
        self.check()

    def check(self) -> None:
        """Raise what `take` raises, if it did before."""
        if self._limit is not None and self._taken > self._limit:
            raise MediaTooLarge(
                f"the images of URLs have more bytes together than the limit of {self._limit} (Limits.encoded_bytes)"
            )


def url_scheme(text: str) -> str | None:
    """Return the scheme of a URL in lower case, None for what is no URL, as a path.

    White space before it does not count, as in browsers, nor does a byte order mark.
    """
    match = _URL.match(text)
    return (match[1] or match[2]).lower() if match else None


def trimmed(url: str) -> str:
    """Return a URL without what stands before its scheme, and without white space behind it."""
    match = _SPACE.match(url)
    return url[match.end() if match else 0 :].rstrip()


def is_http(url: str) -> bool:
    """Return whether a URL needs a connection."""
    return url_scheme(url) in ("http", "https")


def load_local(url: str, max_bytes: int, settings: FetchSettings, allowance: Allowance) -> bytes:
    """Return what a URL leads to that needs no connection: ``data:`` or ``file://``.

    Raises
    ------
    MediaTooLarge, CorruptImage, FetchFailed, HostNotAllowed
    """
    allowance.check()
    body = _local_body(url, max_bytes, settings)
    allowance.take(len(body))
    return body


def _local_body(url: str, max_bytes: int, settings: FetchSettings) -> bytes:
    scheme = url_scheme(url)
    if scheme == "data":
        return decode_data_url(url, max_bytes)
    if scheme == "file":
        return read_file_url(trimmed(url), settings.file_root, max_bytes)
    raise HostNotAllowed("URLs of this scheme are not read; data, http, https and file are")
