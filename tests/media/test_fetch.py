import asyncio
import gc
import gzip
import random
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from pathlib import Path

import httpcore
import pytest
from serving import Names, Site, Threaded, redirect, response

from foveal.errors import CorruptImage, FetchFailed, HostNotAllowed, MediaError, MediaTooLarge, OptionError
from foveal.media import fetch as module
from foveal.media import http_client
from foveal.media.fetch import Fetcher, load_url, load_urls
from foveal.media.urls import FetchSettings, url_scheme

MANY = 1 << 20
CERTIFICATE = Path(__file__).with_name("picture_test.pem")
PUBLIC, OTHER = "93.184.216.34", "151.101.1.1"
SECRETS = ("token", "s3cret", "hunter2", "127.0.0.1", PUBLIC, "169.254")


def local(**fields):
    """Settings under which the loopback interface may be fetched from."""
    return FetchSettings(allow_private_hosts=True, **{"total_timeout": 5.0, **fields})


async def fetch(url, settings, limit=MANY):
    async with Fetcher(settings) as fetcher:
        return await fetcher.load(url, limit)


def fetched(answers, path="/", settings=None, limit=MANY):
    """Serve, and fetch one path; nothing may stay behind."""

    async def main():
        async with Site(answers) as site:
            data = await fetch(site.url(path), settings or local(), limit)
            await site.all_closed()
            assert len(asyncio.all_tasks()) == 1
            return data

    return asyncio.run(main())


def refused(kind, text, url, settings, limit=MANY):
    """Fetch, and return the message of the error."""
    with pytest.raises(kind, match=text) as caught:
        asyncio.run(fetch(url, settings, limit))
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 200
    assert not any(secret in message for secret in SECRETS)
    return message


def failed(kind, text, answers, path="/", settings=None, limit=MANY):
    """Serve, and fetch what fails."""
    with pytest.raises(kind, match=text) as caught:
        fetched(answers, path, settings, limit)
    assert not any(secret in str(caught.value) for secret in SECRETS)


@pytest.fixture
def names(monkeypatch):
    """Three public hosts, and one inside."""
    names = Names(
        {
            "picture.test": [[PUBLIC]],
            "other.test": [[OTHER]],
            "xn--bcher-kva.test": [[PUBLIC]],
            "inside.test": [["10.0.0.7"]],
        }
    )
    names.install(monkeypatch, http_client, httpcore.AnyIOBackend)
    return names


def public(names, answers, url, settings=None, limit=MANY):
    """Fetch a URL of a name; whatever is public leads to one site."""

    async def main():
        async with Site(answers) as site:
            names.port = site.port
            try:
                return await fetch(url, settings or FetchSettings(total_timeout=5.0), limit)
            finally:
                await site.all_closed()
                public.requests = site.requests

    return asyncio.run(main())


# What is fetched


def test_a_body():
    assert fetched({"/cat.png?a=b": response(body=b"cat")}, "/cat.png?a=b#fragment") == b"cat"


def test_headers_say_little(names):
    answers = {"/": response(body=b"cat", Set_Cookie="a=b")}

    async def main():
        async with Site(answers) as site, Fetcher(FetchSettings()) as fetcher:
            names.port = site.port
            for _ in range(2):
                await fetcher.load("http://Picture.TEST.:8080", MANY)
            return site.requests, site.connections

    requests, connections = asyncio.run(main())
    expected = "GET / HTTP/1.1\r\nHost: picture.test:8080\r\nUser-Agent: foveal\r\n"
    assert requests == [f"{expected}Accept: */*\r\nAccept-Encoding: identity\r\n\r\n"] * 2
    assert connections == 1


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetched({"/": response(body=b"cat")}) == b"cat"


def test_every_scheme(tmp_path):
    (tmp_path / "a").write_bytes(b"cat")

    async def main():
        settings = local(file_root=str(tmp_path))
        async with Site({"/": response(body=b"cat")}) as site, Fetcher(settings) as fetcher:
            urls = ["data:;base64,Y2F0", site.url(), f"file://{tmp_path}/a", f" {site.url().upper()}\n"]
            return await fetcher.load_all(urls, MANY)

    assert asyncio.run(main()) == [b"cat"] * 4


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "gopher://a", "javascript://a", "a/b.png", "", "http:/a", "s3://token@b/c"]
)
def test_other_schemes(url):
    assert "are not read" in refused(HostNotAllowed, "scheme", url, FetchSettings())


def test_schemes():
    assert [url_scheme(text) for text in ("DATA:,", " \n data:x", "File:///a", "HTTP://a", "s3://a")] == [
        *("data", "data", "file", "http", "s3")
    ]
    assert [url_scheme(text) for text in ("a.png", "/a", "c:\\a", "database", "http:a", "", "1a://b")] == [None] * 7


@pytest.mark.parametrize("before", ["\ufeff", "\xa0", "\u2003\ufeff \n", "\x00"])
def test_what_may_stand_before_a_url(before, tmp_path):
    """As programs and documents that text was copied from leave it."""
    (tmp_path / "a").write_bytes(b"cat")
    with Threaded({"/": response(body=b"cat")}) as site:
        urls = [site.url(), "data:;base64,Y2F0", f"file://{tmp_path}/a"]
        assert load_urls([before + url for url in urls], MANY, local(file_root=str(tmp_path))) == [b"cat"] * 3
        assert [url_scheme(before + url) for url in urls] == ["http", "data", "file"]


def test_outcomes_stand_in_order():
    answers = {f"/{number}": response(body=b"%d" % number) for number in range(0, 30, 2)}
    answers |= {f"/{number}": response(404) for number in range(1, 30, 2)}

    async def main():
        async with Site(answers) as site, Fetcher(local()) as fetcher:
            return await fetcher.load_all([site.url(f"/{number}") for number in range(30)], MANY)

    outcomes = asyncio.run(main())
    assert outcomes[::2] == [b"%d" % number for number in range(0, 30, 2)]
    assert [str(error) for error in outcomes[1::2]] == ["the http URL: the server answered 404"] * 15


# Which hosts are allowed


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.1",
            "127.0.0.1.",
            "127\u30020\u30020\u30021",
            "localhost",
            "LOCALHOST.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
        ),
        *("0.0.0.0", "[::]", "10.1.2.3", "192.168.0.1", "100.64.0.1", "169.254.169.254", "[fd00:ec2::254]"),
        *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fc00::1]", "224.0.0.1", "255.255.255.255"),
    ],
)
def test_inner_addresses_are_refused(host):
    for url in (f"http://{host}:1/token", f"https://{host}/"):
        message = refused(
            HostNotAllowed, r"an address that is not public \(allow_private_hosts\)", url, FetchSettings()
        )
        assert host.strip("[].") not in message or "localhost" in host.lower()


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "2130706433", "0x7f000001", "0X7F.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.01", "0"),
        *("\uff11\uff12\uff17.0.0.1", "%31%32%37.0.0.1", "[::1%25lo]", "[fe80::1%lo]", "[::1", "::1", "a..b", ""),
        *("a b", "a\\b", "a" * 64, "a:0", "a:65536", "a:-1", "a:x", "a:80:80", "a\tb", "\ud800", "[127.0.0.1]"),
    ],
)
def test_other_forms_of_addresses_are_no_hosts(host):
    for settings in (FetchSettings(), local()):
        refused(FetchFailed, "the URL is not valid", f"http://{host}/token", settings)


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]"]
)
def test_metadata_is_refused_always(address):
    refused(HostNotAllowed, "not public", f"http://{address}/latest/token", local())


@pytest.mark.parametrize("user", ["user:hunter2@", "user@", "picture.test@", "picture.test\\@", "%40@"])
def test_users_are_refused(names, user):
    refused(HostNotAllowed, "user name or password", f"http://{user}other.test/", FetchSettings())
    assert names.looked_up == []


def test_a_long_url_is_refused():
    refused(FetchFailed, "9014 characters, more than 8192", "http://a.test/" + "token" * 1800, FetchSettings())


def test_names_that_lead_inside_are_refused(names):
    names.addresses |= {"mixed.test": [[PUBLIC, "10.0.0.7"]], "mapped.test": [["::ffff:10.0.0.7"]]}
    for host in ("inside.test", "mixed.test", "mapped.test"):
        message = refused(HostNotAllowed, "not public", f"http://{host}/token", FetchSettings())
        assert message.startswith(f"http://{host}: ")
        assert "10.0.0.7" not in message
    assert names.dialled == []


def test_names_that_do_not_exist(names):
    refused(
        FetchFailed, "^https://absent.test: the host cannot be found$", "https://absent.test/token", FetchSettings()
    )


def test_the_checked_address_is_connected_to(names):
    names.addresses["picture.test"] = [[PUBLIC], ["127.0.0.1"]]
    answers = {"/": response(body=b"cat", Connection="close")}
    assert public(names, answers, "http://picture.test/") == b"cat"
    assert names.looked_up == ["picture.test"]
    assert names.dialled == [(PUBLIC, 80)]


def test_a_name_that_moves_inside_is_refused(names):
    names.addresses["picture.test"] = [[PUBLIC], ["127.0.0.1"]]
    answers = {"/": response(body=b"cat", Connection="close")}

    async def main():
        async with Site(answers) as site, Fetcher(FetchSettings()) as fetcher:
            names.port = site.port
            assert await fetcher.load("http://picture.test/", MANY) == b"cat"
            with pytest.raises(HostNotAllowed, match="not public"):
                await fetcher.load("http://picture.test/", MANY)

    asyncio.run(main())
    assert names.dialled == [(PUBLIC, 80)]


def test_connections_are_shared_by_name_only(names):
    names.addresses["other.test"] = [[PUBLIC]]

    async def main():
        async with Site({"/": response(body=b"cat")}) as site, Fetcher(FetchSettings()) as fetcher:
            names.port = site.port
            for host in ("picture.test", "other.test", "picture.test"):
                await fetcher.load(f"http://{host}/", MANY)
            return site.connections

    assert asyncio.run(main()) == 2


def test_each_address_is_tried(names, monkeypatch):
    names.addresses["picture.test"] = [["2a00::1", PUBLIC]]
    connect = httpcore.AnyIOBackend.connect_tcp

    async def no_ipv6(network, host, *rest):
        if ":" in host:
            await asyncio.sleep(rest[1])
            raise httpcore.ConnectTimeout
        return await connect(network, host, *rest)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", no_ipv6)
    settings = FetchSettings(connect_timeout=0.4)
    assert public(names, {"/": response(body=b"cat")}, "http://picture.test/", settings) == b"cat"


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("picture.test", "http://picture.test/"),
        ("PICTURE.test.", "http://picture.TEST./"),
        ("picture.test:8080", "http://picture.test:8080/"),
        ("picture.test", "http://picture.test:80/"),
        ("picture.test:80", "http://picture.test/"),
        ("*.test", "http://picture.test/"),
        ("bücher.test", "http://xn--bcher-kva.test/"),
        ("xn--bcher-kva.test", "http://BÜCHER.test/"),
        ("93.184.216.34", "http://93.184.216.34/"),
        ("[2A00:0::1]:81", "http://[2a00::0:1]:81/"),
    ],
)
def test_listed_hosts(names, entry, url):
    names.addresses |= {PUBLIC: [[PUBLIC]], "2a00::1": [["2a00::1"]]}
    settings = FetchSettings(allowed_domains=("absent.test", entry))
    assert public(names, {"/": response(body=b"cat")}, url, settings) == b"cat"


@pytest.mark.parametrize(
    "url",
    [
        *("http://other.test/", "http://a.picture.test/", "http://picture.test.other.test/", "http://xpicture.test/"),
        *("http://picture.test:8080/", "http://picture.test:443/", "https://picture.test:80/", "http://b.test/"),
    ],
)
def test_hosts_that_are_not_listed(names, url):
    settings = FetchSettings(allowed_domains=("picture.test", "*.b.test"))
    port = f"but not its port {url.split(':')[2][:-1]}" if "//picture.test:" in url else None
    reason = f"the host is listed, {port}" if port else "the host is not listed"
    refused(HostNotAllowed, rf"{reason} \(allowed_domains", f"{url}token", settings)
    refused(HostNotAllowed, "not listed", url, FetchSettings(allowed_domains=()))
    assert names.looked_up == []


def test_a_list_does_not_open_private_hosts(names):
    names.addresses["127.0.0.1"] = [["127.0.0.1"]]
    settings = FetchSettings(allowed_domains=("inside.test", "127.0.0.1"))
    for url in ("http://inside.test/", "http://127.0.0.1/"):
        refused(HostNotAllowed, "not public", url, settings)
    assert names.dialled == []


@pytest.mark.parametrize(
    "entry", ["", "*.", "http://a", "a/b", "a b", "u@a", "a?b", "a#b", "*", "127.1", "a:99999", "*.*.a"]
)
def test_entries_that_are_no_hosts(entry):
    said = r"^FetchSettings.allowed_domains: entry 1 is not a host, \*.host or host:port$"
    with pytest.raises(OptionError, match=said):
        FetchSettings(allowed_domains=("a", entry))


def test_entries_in_other_scripts_need_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "idna", None)
    assert FetchSettings(allowed_domains=("xn--bcher-kva.test",))
    with pytest.raises(OptionError, match=r"pip install 'foveal\[http\]'"):
        FetchSettings(allowed_domains=("bücher.test",))


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(names, status):
    answers = {
        "/a/b?c": redirect("../d", status),
        "/d": redirect("//other.test/e", status),
        "/e": redirect("http://picture.test:8080/f?g=%20ä#h", status),
        "/f?g=%20%C3%A4": redirect("?i", status),
        "/f?i": response(body=b"cat"),
    }
    assert public(names, answers, "http://picture.test/a/b?c") == b"cat"
    assert [port for _, port in names.dialled] == [80, 80, 80, 8080, 8080][: len(names.dialled)]


@pytest.mark.parametrize(
    ("location", "kind", "text"),
    [
        ("http://127.0.0.1/token", HostNotAllowed, "not public"),
        ("http://inside.test/token", HostNotAllowed, "not public"),
        ("http://169.254.169.254/latest", HostNotAllowed, "not public"),
        ("//[::1]/token", HostNotAllowed, "not public"),
        ("http://user:hunter2@other.test/", HostNotAllowed, "user name or password"),
        ("file:///etc/passwd", FetchFailed, "not valid"),
        ("file://localhost/etc/passwd", HostNotAllowed, "only http and https"),
        ("ftp://other.test/", HostNotAllowed, "only http and https"),
        ("data:;base64,Y2F0", FetchFailed, "not valid"),
        ("http://127.1/token", FetchFailed, "not valid"),
        ("http://[token", FetchFailed, "not valid"),
        ("http://a.test:99999/", FetchFailed, "not valid"),
        ("/" + "token" * 2000, FetchFailed, "more than 8192"),
    ],
)
def test_redirects_are_checked(names, location, kind, text):
    names.addresses |= {host: [[host]] for host in ("127.0.0.1", "169.254.169.254", "::1")}
    with pytest.raises(kind, match=text) as caught:
        public(names, {"/": redirect(location)}, "http://picture.test/")
    assert str(caught.value).startswith("http://picture.test: redirect 1: ")
    assert not any(secret in str(caught.value) for secret in (*SECRETS, "inside"))
    assert names.dialled == [(PUBLIC, 80)]


def test_redirects_to_hosts_that_are_not_listed(names):
    settings = FetchSettings(allowed_domains=("picture.test",))
    locations = {"http://other.test/": "not listed ", "http://picture.test:8080/": "listed, but not its port 8080 "}
    for location, reason in locations.items():
        with pytest.raises(HostNotAllowed, match=rf"^http://picture\.test: redirect 1: the host is {reason}"):
            public(names, {"/": redirect(location)}, "http://picture.test/", settings)
    assert set(names.looked_up) == {"picture.test"}


def test_redirects_are_bounded():
    answers = {f"/{number}": redirect(f"/{number + 1}") for number in range(6)} | {"/5": response(body=b"cat")}
    assert fetched(answers, "/0") == b"cat"
    failed(FetchFailed, r"more than 4 redirects \(max_redirects\)", answers, "/0", local(max_redirects=4))
    failed(FetchFailed, "more than 0 redirects", answers, "/4", local(max_redirects=0))
    failed(FetchFailed, "more than 5 redirects", {"/": redirect("/")})
    failed(FetchFailed, "redirects to nowhere", {"/": response(302)})


# How much


def chunked(*chunks):
    framed = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b"")]
    return response(Transfer_Encoding="chunked") + b"".join(framed)


def test_the_limit_is_exact():
    until_closed = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1000

    async def close(reader, writer):
        writer.write(until_closed)
        writer.close()

    packed = response(body=gzip.compress(b"x" * 1000), Content_Encoding="gzip")
    answers = {"/a": response(body=b"x" * 1000), "/b": chunked(b"x" * 600, b"x" * 400), "/c": close, "/d": packed}
    for path in answers:
        assert fetched(answers, path, limit=1000) == b"x" * 1000
        failed(MediaTooLarge, r"more bytes than the limit of 999 \(Limits.input_bytes\)", answers, path, limit=999)


def test_a_length_is_believed_before_the_body_comes():
    async def promise(reader, writer):
        writer.write(response(Content_Length=MANY + 1))
        await reader.read()

    failed(MediaTooLarge, "limit", {"/": promise})


def test_an_endless_body_is_counted():
    sent = 0

    async def endless(reader, writer):
        nonlocal sent
        writer.write(response(Transfer_Encoding="chunked"))
        while True:
            writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            sent += 0x10000
            await writer.drain()

    failed(MediaTooLarge, "limit", {"/": endless})
    assert sent < MANY + (16 << 20)  # what the kernel's buffers hold


def test_lengths_that_lie():
    answers = {
        "/short": response(body=b"cat" + bytes(1000), Content_Length=3),
        "/many": response(body=b"cat", Content_Length="9" * 30),
        "/no_number": response(body=b"cat", Content_Length="3x"),
        "/negative": response(body=b"cat", Content_Length="-3"),
    }

    async def long(reader, writer):
        writer.write(response(body=b"cat", Content_Length=1000))
        writer.close()

    assert fetched(answers, "/short") == b"cat"
    failed(FetchFailed, "not HTTP, or ended early", {"/": long})
    for path in ("/many", "/no_number", "/negative"):
        failed(FetchFailed, "not HTTP", answers, path)


def test_compressed_bodies():
    for encoding, body in (
        ("gzip", gzip.compress(b"cat")),
        ("X-GZIP", gzip.compress(b"cat")),
        ("deflate", zlib.compress(b"cat")),
    ):
        assert fetched({"/": response(body=body, Content_Encoding=encoding)}) == b"cat"
        failed(FetchFailed, "truncated", {"/": response(body=body[:-1], Content_Encoding=encoding)})
        failed(FetchFailed, "corrupt", {"/": response(body=b"cat", Content_Encoding=encoding)})
        for tail in (b"\0", bytes(1 << 18), body):
            failed(FetchFailed, "goes on behind its end", {"/": response(body=body + tail, Content_Encoding=encoding)})
    for encoding in ("br", "zstd", "gzip, gzip", "compress"):
        failed(FetchFailed, "was not asked for", {"/": response(body=b"cat", Content_Encoding=encoding)})
    assert fetched({"/": response(body=b"cat", Content_Encoding="identity")}) == b"cat"


def test_what_follows_a_compressed_body_in_a_chunk_of_its_own():
    body = gzip.compress(b"cat")
    head, *rest = (b"%x\r\n%s\r\n" % (len(part), part) for part in (body, b"tail", b""))

    async def answer(reader, writer):
        writer.write(response(Transfer_Encoding="chunked", Content_Encoding="gzip") + head)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"".join(rest))

    failed(FetchFailed, "goes on behind its end", {"/": answer})


def test_a_bomb_does_not_go_off():
    bomb = response(body=gzip.compress(bytes(256 << 20), 1), Content_Encoding="gzip")
    assert len(bomb) > MANY
    tracemalloc.start()
    failed(MediaTooLarge, "limit", {"/": bomb}, limit=8 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 410, 429, 500, 503])
def test_other_answers(status):
    failed(FetchFailed, f"^the http URL: the server answered {status}$", {"/": response(status)})


@pytest.mark.parametrize(
    "answer", [b"", b"token\r\n\r\n", b"HTTP/1.1 20\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000]
)
def test_answers_that_are_not_http(answer):
    async def say(reader, writer):
        writer.write(answer)
        writer.close()

    failed(FetchFailed, "^the http URL: (the answer is not HTTP, or ended early|the connection broke)$", {"/": say})


# How long


def timed(kind, text, *rest, most=3.0, **fields):
    begin = time.perf_counter()
    failed(kind, text, *rest, **fields)
    assert time.perf_counter() - begin < most


async def wait(reader, writer):
    await reader.read()


async def drip(reader, writer):
    writer.write(response(Content_Length=MANY))
    while not reader.at_eof():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_headers(reader, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not reader.at_eof():
        writer.write(b"a: b\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_hints(reader, writer):
    while not reader.at_eof():
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


def test_silence_ends_at_the_read_timeout():
    timed(FetchFailed, r"nothing arrived within 0.1 s \(read_timeout\)", {"/": wait}, settings=local(read_timeout=0.1))


@pytest.mark.parametrize("answer", [drip, drip_headers, drip_hints])
def test_slow_bodies_end_at_the_total_timeout(answer):
    settings = local(total_timeout=0.2)
    timed(FetchFailed, r"not complete after 0.2 s \(total_timeout\)", {"/": answer}, settings=settings)


def test_redirects_share_the_total_timeout():
    async def slow(reader, writer):
        await asyncio.sleep(0.08)
        writer.write(redirect("/"))

    settings = local(total_timeout=0.2, max_redirects=50)
    timed(FetchFailed, "total_timeout", {"/": slow}, settings=settings)


def test_a_slow_resolver_ends_at_the_connect_timeout(monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(http_client, "resolve", lambda host, port: free.wait(5) and [])
    begin = time.perf_counter()
    refused(FetchFailed, r"no connection within 0.1 s \(connect_timeout\)", "http://a.test", local(connect_timeout=0.1))
    assert time.perf_counter() - begin < 3
    free.set()


def test_nobody_listens():
    async def main():
        async with Site({}) as site:
            url = site.url("/token")
        with pytest.raises(FetchFailed, match=r"^the http URL: no connection$"):
            await fetch(url, local())

    asyncio.run(main())


# TLS


def tls():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    return context


def test_certificates_are_those_of_the_name(names, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    server_names = []
    context = tls()
    context.sni_callback = lambda socket, name, _: server_names.append(name)

    async def main():
        async with Site({"/": response(body=b"cat")}, context) as site:
            names.port = site.port
            assert await fetch("https://picture.test./", FetchSettings()) == b"cat"
            assert server_names == ["picture.test"]
            for url in ("https://other.test/", f"https://{PUBLIC}/"):
                with pytest.raises(FetchFailed, match="certificate is not valid"):
                    await fetch(url, FetchSettings())

    names.addresses[PUBLIC] = [[PUBLIC]]
    asyncio.run(main())


def test_unknown_certificates_are_refused(names):
    async def main():
        async with Site({"/": response(body=b"cat")}, tls()) as site:
            names.port = site.port
            with pytest.raises(FetchFailed, match=r"^https://picture\.test: the server's certificate is not valid$"):
                await fetch("https://picture.test/", FetchSettings())

    asyncio.run(main())


def test_a_handshake_that_never_ends_is_closed():
    async def main():
        async with Site({}) as site:
            gc.disable()
            try:
                with pytest.raises(FetchFailed, match="total_timeout"):
                    await fetch(f"https://127.0.0.1:{site.port}/", local(total_timeout=0.1))
                await site.all_closed()
            finally:
                gc.enable()

    asyncio.run(main())


# Many at a time


async def slow_cat(reader, writer):
    await asyncio.sleep(0.005)
    writer.write(response(body=b"cat"))


@pytest.mark.parametrize("concurrency", [1, 4])
def test_concurrency_is_bounded(concurrency):
    async def main():
        async with Site({"/": slow_cat}) as site, Fetcher(local(concurrency=concurrency)) as fetcher:
            assert await fetcher.load_all([site.url()] * 60, MANY) == [b"cat"] * 60
            assert site.busiest == site.connections == concurrency

    asyncio.run(main())


def test_waiting_for_a_turn_is_not_counted():
    async def main():
        async with Site({"/": slow_cat}) as site, Fetcher(local(concurrency=1, total_timeout=0.3)) as fetcher:
            assert await fetcher.load_all([site.url()] * 80, MANY) == [b"cat"] * 80

    asyncio.run(main())


def test_many_urls():
    async def main():
        async with Site({"/": response(body=b"cat")}) as site, Fetcher(local()) as fetcher:
            assert await fetcher.load_all([site.url()] * 500, MANY) == [b"cat"] * 500
            assert site.connections <= 16

    asyncio.run(main())


def test_cancelling_leaves_nothing():
    randomness = random.Random(4)

    async def slow_chunks(reader, writer):
        writer.write(response(Content_Length=10))
        for _ in range(10):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.001)

    async def main():
        answers = {"/": redirect("/a"), "/a": slow_chunks}
        async with Site(answers) as site, Fetcher(local(concurrency=4)) as fetcher:
            for _ in range(60):
                tasks = [asyncio.create_task(fetcher.load(site.url(), MANY)) for _ in range(6)]
                await asyncio.sleep(randomness.uniform(0, 0.02))
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert all(task.cancelled() or task.result() == b"x" * 10 for task in tasks)
            await site.all_closed(but=4)
            assert await fetcher.load_all([site.url()] * 8, MANY) == [b"x" * 10] * 8
        await site.all_closed()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_cancelling_frees_turns():
    async def main():
        async with Site({"/": response(body=b"cat"), "/wait": wait}) as site, Fetcher(local(concurrency=1)) as fetcher:
            tasks = [asyncio.create_task(fetcher.load(site.url("/wait"), MANY)) for _ in range(3)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            assert await fetcher.load(site.url(), MANY) == b"cat"

    asyncio.run(main())


# Without a loop, without httpx


def test_callers_without_a_loop():
    with Threaded({"/": response(body=b"cat"), "/no": response(404)}) as site:
        assert load_url(site.url(), MANY, local()) == b"cat"
        outcomes = load_urls([site.url(), site.url("/no"), "data:,cat", "data:"], MANY, local())
        assert outcomes[::2] == [b"cat"] * 2
        assert [type(error) for error in outcomes[1::2]] == [FetchFailed, CorruptImage]
        with pytest.raises(FetchFailed, match="404"):
            load_url(site.url("/no"), MANY, local())


TOO_LARGE_TOGETHER = r"^the images of URLs have more bytes together than the limit of 9 \(Limits\.encoded_bytes\)$"


def test_the_bodies_of_a_call_together(tmp_path):
    (tmp_path / "a").write_bytes(b"cat")
    settings = local(file_root=str(tmp_path), concurrency=2)
    packed = gzip.compress(b"cat" * 4)
    answers = {"/": response(body=b"cat"), "/packed": response(200, packed, Content_Encoding="gzip")}
    with Threaded(answers) as site:
        mixed = [site.url(), "data:,cat", f"file://{tmp_path}/a"]
        assert load_urls(mixed, MANY, settings, max_total=9) == [b"cat"] * 3
        for urls in (
            [*mixed, "data:,x"],
            [site.url()] * 4,
            [f"file://{tmp_path}/a"] * 4,
            ["data:,cat"] * 4,
            [site.url("/packed")],
        ):
            with pytest.raises(MediaTooLarge, match=TOO_LARGE_TOGETHER):
                load_urls(urls, MANY, settings, max_total=9)


def test_a_call_ends_early_where_the_bodies_are_too_large_together():
    async def endless(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    with Threaded({"/": endless}) as site:
        begin = time.perf_counter()
        with pytest.raises(MediaTooLarge, match=TOO_LARGE_TOGETHER):
            load_urls([site.url()] * 500, 1 << 30, local(total_timeout=60.0), max_total=9)
        assert time.perf_counter() - begin < 10


def test_callers_inside_of_a_loop():
    with Threaded({"/": response(body=b"cat"), "/no": response(404)}) as site:

        async def main():
            assert load_url(site.url(), MANY, local()) == b"cat"
            with pytest.raises(FetchFailed, match="404"):
                load_url(site.url("/no"), MANY, local())
            with pytest.raises(HostNotAllowed, match="allowed_domains"):
                load_url(site.url(), MANY, local(allowed_domains=()))

        asyncio.run(main())


def test_bodies_are_never_shown():
    """``asyncio.run`` asks for the repr of its task, and so for that of the result."""
    asked = []

    class Body(bytes):
        def __repr__(self):
            asked.append(self)
            return "body"

    async def load():
        return [Body(b"cat")]

    async def inside():
        return module._run(load)

    assert module._run(load) == [b"cat"]
    assert not asked
    assert asyncio.run(inside()) == [b"cat"]  # its own task has them as a result


def test_an_interrupt_inside_of_a_loop_ends_the_call(monkeypatch):
    from foveal.media import fetch as module

    class Interrupted(module.Future):
        def result(self, timeout=None):
            if threading.current_thread() is threading.main_thread() and not self.done():
                time.sleep(0.1)
                raise KeyboardInterrupt
            return super().result(timeout)

    with Threaded({"/": wait}) as site:

        async def main():
            monkeypatch.setattr("concurrent.futures.thread._base.Future", Interrupted)
            begin = time.perf_counter()
            with pytest.raises(KeyboardInterrupt):
                load_url(site.url(), MANY, local())
            assert time.perf_counter() - begin < 3

        asyncio.run(main())


def test_httpx_is_named_where_it_is_missing(monkeypatch, tmp_path):
    (tmp_path / "a").write_bytes(b"cat")
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "foveal.media.http_client")
    settings = FetchSettings(file_root=str(tmp_path))
    assert load_urls(["data:,cat", f"file://{tmp_path}/a"], MANY, settings) == [b"cat"] * 2
    with pytest.raises(OptionError, match=r"pip install 'foveal\[http\]'"):
        load_urls(["data:,cat", "https://picture.test/"], MANY, settings)


def test_import_does_not_load_httpx():
    code = "import sys, foveal, foveal.media.fetch; print({'httpx', 'httpcore', 'anyio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Settings


def test_settings_of_the_environment(monkeypatch):
    environment = {
        "FOVEAL_FETCH_ALLOWED_DOMAINS": " a.test, *.b.test,c.test:81 ",
        "FOVEAL_FETCH_ALLOW_PRIVATE_HOSTS": "true",
        "FOVEAL_FETCH_FILE_ROOT": "/srv/images",
        "FOVEAL_FETCH_CONNECT_TIMEOUT": "1.5",
        "FOVEAL_FETCH_MAX_REDIRECTS": "0",
        "FOVEAL_FETCH_CONCURRENCY": " ",
    }
    expected = FetchSettings(
        allowed_domains=("a.test", "*.b.test", "c.test:81"),
        allow_private_hosts=True,
        file_root="/srv/images",
        connect_timeout=1.5,
        max_redirects=0,
    )
    assert FetchSettings.default(environment) == expected
    assert FetchSettings.default({}) == FetchSettings()
    assert hash(FetchSettings(allowed_domains=["a.test"])) == hash(FetchSettings(allowed_domains=("a.test",)))
    monkeypatch.setenv("FOVEAL_FETCH_ALLOWED_DOMAINS", "a.test")
    with pytest.raises(HostNotAllowed, match="not listed"):
        load_url("http://picture.test/", MANY)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("allowed_domains", "a.test"), ("allowed_domains", [1]), ("allow_private_hosts", 1), ("file_root", "images")),
        *(("connect_timeout", 0), ("read_timeout", float("nan")), ("total_timeout", float("inf"))),
        *(("max_redirects", -1), ("max_redirects", 1.5), ("concurrency", 0), ("concurrency", "4")),
    ],
)
def test_wrong_settings(field, value):
    with pytest.raises(OptionError, match=rf"^FetchSettings\.{field}: "):
        FetchSettings(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("CONCURRENCY", "many", "expected a whole number from 1 to 10,000"),
        ("FILE_ROOT", "a/b", "expected an absolute path"),
        ("ALLOW_PRIVATE_HOSTS", "maybe", "expected true or false"),
        ("READ_TIMEOUT", "-1", "expected a number above 0 and at most 86,400"),
        ("ALLOWED_DOMAINS", "a.test,http://b.test", r"entry 1 is not a host, \*.host or host:port"),
    ],
)
def test_wrong_settings_of_the_environment(field, value, said):
    with pytest.raises(OptionError, match=f"^FOVEAL_FETCH_{field}: {said}$"):
        FetchSettings.default({f"FOVEAL_FETCH_{field}": value})


def test_errors_are_media_errors():
    for kind in (FetchFailed, HostNotAllowed, MediaTooLarge, CorruptImage):
        assert issubclass(kind, MediaError)
        assert issubclass(kind, ValueError)
