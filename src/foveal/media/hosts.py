"""Which hosts are fetched from: names on a list, and addresses that are no part of somebody's own network."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from foveal.errors import OptionError

__all__ = ["ListedHost", "address_allowed", "is_address", "is_host", "is_listed", "is_named", "listed_host"]

_LABELS = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ENTRY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?", re.IGNORECASE)
_NAME_LENGTH = 253

# What allow_private_hosts opens: loopback, private use, shared by a carrier, link-local, unique local.
_OWN = [
    *map(ip_network, ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")),
    *map(ip_network, ("169.254.0.0/16", "::1/128", "fc00::/7", "fe80::/10")),
]

# Where a cloud answers its own machines, with credentials too: AWS, Azure, Google Cloud and others on 169.254.169.254,
# AWS again for containers, Alibaba Cloud, Oracle Cloud, Azure's host, AWS and Google Cloud by IPv6, Scaleway.
_METADATA = [
    *map(ip_network, ("169.254.169.0/24", "169.254.170.0/24", "100.100.100.200/32", "192.0.0.192/32")),
    *map(ip_network, ("168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::/32", "fd00:42::42/128")),
]

# Inside of what is global, and yet nobody's image host: this network, protocols, documentation, relays, benchmarks,
# multicast, reserved; Teredo and 6to4, which hold an IPv4 address that a relay would connect to.
# Source: IANA IPv4 and IPv6 Special-Purpose Address Registries. Not ipaddress.is_global, which differs between patch
# releases of Python.
_RESERVED = [
    *map(ip_network, ("0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15")),
    *map(ip_network, ("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")),
    *map(ip_network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")),
]
_GLOBAL = IPv6Network("2000::/3")

# Mapped, and NAT64, through which a network without IPv4 reaches all that has no IPv6.
_HOLDS_IPV4 = [IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")]


class ListedHost(NamedTuple):
    """An entry of ``allowed_domains``.

    Attributes
    ----------
    host : str
        As `is_listed` gets hosts.
    below : bool
        Whether the hosts below it are meant, and not itself.
    port : int or None
        None is the scheme's own.
    """

    host: str
    below: bool
    port: int | None


def is_address(host: str) -> bool:
    """Return whether a host is an IPv4 or IPv6 address in its usual form."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_host(host: str) -> bool:
    """Return whether a lower-case ASCII text is a host's name or an address in its usual form.

    ``127.1``, ``0x7f000001``, ``0177.0.0.1`` and ``2130706433``, which resolvers take as addresses, are neither.
    """
    if ":" in host:
        return "%" not in host and is_address(host)
    if len(host) > _NAME_LENGTH or not _LABELS.fullmatch(host):
        return False
    return not _NUMBER.fullmatch(host.rpartition(".")[2]) or is_address(host)


def listed_host(entry: str) -> ListedHost:
    """Return what an entry of ``allowed_domains`` means.

    Raises
    ------
    ValueError
        If it is no host, ``*.host`` or ``host:port``.
    OptionError
        If its name is in a script that takes a package which is not installed.
    """
    match = _ENTRY.fullmatch(entry.removeprefix("*."))
    host = _encoded(match[1] or match[2]).removesuffix(".") if match else ""
    port = int(match[3]) if match and match[3] else None
    if not is_host(host) or not (port is None or 0 < port < 65536):
        raise ValueError("no host")
    return ListedHost(ip_address(host).compressed if ":" in host else host, entry.startswith("*."), port)


def _encoded(name: str) -> str:
    """Return a name as it is resolved, in lower case and ASCII."""
    if name.isascii():
        return name.lower()
    try:
        import idna
    except ModuleNotFoundError:
        raise OptionError("allowed_domains: names in other scripts need pip install 'foveal[http]'") from None
    return idna.encode(name.lower()).decode()  # IDNAError is a ValueError


def is_listed(host: str, port: int, own_port: int, entries: Iterable[ListedHost]) -> bool:
    """Return whether a host is allowed by an entry.

    Parameters
    ----------
    host : str
        Lower case, IDNA-encoded, without a dot at the end.
    port, own_port : int
        Of the URL, and of its scheme.
    entries : iterable of ListedHost
    """
    return any(port == (entry.port or own_port) and is_named(host, [entry]) for entry in entries)


def is_named(host: str, entries: Iterable[ListedHost]) -> bool:
    """Return whether an entry names a host, whatever its port."""
    return any(host.endswith(f".{entry.host}") if entry.below else host == entry.host for entry in entries)


def address_allowed(address: str, allow_private: bool) -> bool:
    """Return whether a connection may be made to an address.

    Parameters
    ----------
    address : str
        IPv4 or IPv6, as a resolver returns it. Mapped and NAT64 addresses are judged by the IPv4 address inside.
    allow_private : bool
        Opens loopback, private, shared, link-local and unique local addresses; never those of metadata services.
    """
    inner = _inner(ip_address(address))
    if any(inner in network for network in _METADATA + _RESERVED):
        return False
    if any(inner in network for network in _OWN):
        return allow_private
    return inner.version == 4 or inner in _GLOBAL


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if any(address in network for network in _HOLDS_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
