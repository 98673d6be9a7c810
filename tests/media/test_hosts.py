import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.media.hosts import ListedHost, address_allowed, is_host, is_listed

PUBLIC = ["8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.167.0.1"]
PUBLIC += ["2606:2800:220:1:248:1893:25c8:1946", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
OWN = ["127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1"]
OWN += ["100.127.255.255", "169.254.0.1", "::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%2"]
OWN += ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1"]
NEVER = ["169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200"]
NEVER += ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "168.63.129.16", "192.0.0.192", "fd00:42::42"]
NEVER += ["0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "ff02::1"]
NEVER += ["192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1", "192.88.99.1"]
NEVER += ["2002:7f00:1::", "2002:808:808::", "2001:0:4136:e378::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "4000::1"]
NEVER += ["64:ff9b:1::7f00:1", "100::1", "fec0::1", "5f00::1", "::ffff:0.0.0.0"]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address):
    assert address_allowed(address, False)
    assert address_allowed(address, True)


@pytest.mark.parametrize("address", OWN)
def test_own_networks_are_allowed_when_asked_for(address):
    assert not address_allowed(address, False)
    assert address_allowed(address, True)


@pytest.mark.parametrize("address", NEVER)
def test_metadata_and_reserved_addresses_are_never_allowed(address):
    assert not address_allowed(address, False)
    assert not address_allowed(address, True)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_is_allowed_is_global(address):
    if address_allowed(str(address), False):
        inner = address.ipv4_mapped if address.version == 6 and address.ipv4_mapped else address
        assert inner.is_global or inner in ipaddress.ip_network("64:ff9b::/96")
        assert not inner.is_multicast


@given(st.ip_addresses(v=4))
def test_ipv4_inside_of_ipv6_is_judged_as_itself(address):
    for private in (False, True):
        expected = address_allowed(str(address), private)
        assert address_allowed(f"::ffff:{address}", private) == expected
        assert address_allowed(f"64:ff9b::{address}", private) == expected


@pytest.mark.parametrize(
    "host", ["a", "a.b", "xn--bcher-kva.example", "a_b.c-d", "1.example", "8.8.8.8", "::1", "a" * 63]
)
def test_hosts(host):
    assert is_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "a..b", ".a", "a.", "a b", "a%41", "a/b", "a@b", "a\\b", "a:b", "Ab", "ä", "a\n", "a\0"),
        *("127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.0x1", "127.0.0.01", "1.2.3.4.5"),
        *("a.0x", "a.1", "256.1.1.1", "fe80::1%eth0", "::1::", "a" * 64, ".".join(["a" * 50] * 6)),
    ],
)
def test_no_hosts(host):
    assert not is_host(host)


def test_lists_are_exact_but_for_stars():
    entries = [
        ListedHost("a.example", False, None),
        ListedHost("b.example", True, None),
        ListedHost("c.example", False, 8080),
        ListedHost("d.example", False, 80),
    ]
    allowed = [("a.example", 80), ("x.b.example", 80), ("x.y.b.example", 80), ("c.example", 8080), ("d.example", 80)]
    refused = [("x.a.example", 80), ("b.example", 80), ("xb.example", 80), ("c.example", 80), ("a.example", 8080)]
    refused += [("a.example.evil", 80), ("evil-a.example", 80), ("x.b.example", 8080), ("a.example", 443)]
    assert [is_listed(*host, 80, entries) for host in allowed] == [True] * len(allowed)
    assert [is_listed(*host, 80, entries) for host in refused] == [False] * len(refused)
    assert is_listed("a.example", 443, 443, entries)
    assert not is_listed("d.example", 443, 443, entries)
    assert not is_listed("a.example", 80, 80, [])
