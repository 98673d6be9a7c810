"""Bodies over HTTP, bounded in bytes, seconds and redirects. The only module that needs httpx, and so `foveal[http]`.

A name is resolved where its connection is made: the addresses that are checked are those that are connected to, while
TLS and the Host header keep the name, and a connection is used again for its name only. httpx's client has no place for
that, so connections of httpcore, which lies below it, are used. Nor is there anything else of a client then that would
have to be switched off: cookies, proxies, .netrc, redirects, decompression without a limit.
"""

import asyncio
import io
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

import httpcore
import httpx

from foveal.errors import FetchFailed, HostNotAllowed, MediaError, MediaTooLarge
from foveal.media.hosts import address_allowed, is_address, is_host, is_listed, is_named, listed_host
from foveal.media.urls import Allowance, FetchSettings, trimmed

__all__ = ["HttpClient"]

_URL_LENGTH = 8192
_SHOWN_LENGTH = 80
_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}
_KEPT_SECONDS = 5.0

# Pictures are compressed already; what a server compresses nevertheless is decompressed with a limit.
_HEADERS = [(b"User-Agent", b"foveal"), (b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]


class Target(NamedTuple):
    """A URL that is well formed.

    Attributes
    ----------
    scheme : str
    host : str
        Lower case, IDNA-encoded, without a dot at the end; addresses in their shortest form.
    port : int
    path : bytes
        With the query.
    """

    scheme: str
    host: str
    port: int
    path: bytes

    @property
    def host_header(self) -> bytes:
        """What the server is called."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}").encode()

    @property
    def shown(self) -> str:
        """Scheme and host as they may appear in a message; addresses do not."""
        return f"the {self.scheme} URL" if is_address(self.host) else f"{self.scheme}://{self.host[:_SHOWN_LENGTH]}"


class HttpClient:
    """GET, within settings.

    Parameters
    ----------
    settings : FetchSettings
    """

    def __init__(self, settings: FetchSettings) -> None:
        domains = settings.allowed_domains
        self._settings = settings
        self._listed = None if domains is None else [listed_host(entry) for entry in domains]
        self._connections = Connections(settings)

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()

    async def get(self, url: str, max_bytes: int, allowance: Allowance) -> bytes:
        """Return the body that a URL leads to.

        Raises
        ------
        FetchFailed, HostNotAllowed, MediaTooLarge
        """
        target = _parsed(trimmed(url))
        seconds = self._settings.total_timeout
        with _named(target.shown):
            try:
                async with asyncio.timeout(seconds):
                    return await self._follow(target, max_bytes, allowance)
            except TimeoutError:
                raise FetchFailed(f"not complete after {seconds:g} s (total_timeout)") from None

    def _check_listed(self, target: Target) -> None:
        own_port = _PORTS[target.scheme]
        if self._listed is None or is_listed(target.host, target.port, own_port, self._listed):
            return
        if is_named(target.host, self._listed):
            raise HostNotAllowed(f"the host is listed, but not its port {target.port} (allowed_domains, as host:port)")
        raise HostNotAllowed("the host is not listed (allowed_domains)")

    async def _follow(self, target: Target, max_bytes: int, allowance: Allowance) -> bytes:
        answer = await self._ask(target, max_bytes, allowance)
        hops, limit = 0, self._settings.max_redirects
        while isinstance(answer, str):
            hops += 1
            if hops > limit:
                raise FetchFailed(f"more than {limit} redirects (max_redirects)")
            with _named(f"redirect {hops}"):
                answer = await self._ask(_parsed(answer), max_bytes, allowance)
        return answer

    async def _ask(self, target: Target, max_bytes: int, allowance: Allowance) -> bytes | str:
        """Return the body, or the URL where it is to be found."""
        self._check_listed(target)
        connect, read = self._settings.connect_timeout, self._settings.read_timeout
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        with _failures(self._settings):
            async with (
                self._connections.to(url.origin) as connection,
                connection.stream(
                    "GET",
                    url,
                    headers=[(b"Host", target.host_header), *_HEADERS],
                    extensions={"timeout": {"connect": connect, "read": read, "write": read}},
                ) as response,
            ):
                headers = {name.lower(): value for name, value in response.headers}
                if response.status in _REDIRECTS:
                    return _redirected(target, headers.get(b"location"))
                if not 200 <= response.status < 300:
                    raise FetchFailed(f"the server answered {response.status}")
                return await _body(headers, response.aiter_stream(), max_bytes, allowance)


class Connections:
    """Connections, each used again for its own scheme, name and port.

    Instead of httpcore's pool, which in 1.0.9 loses a place for good when a request is cancelled before it connects
    (encode/httpcore issue 1093).
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._connector = Connector(settings)
        self._most = settings.concurrency
        self._busy = 0
        self._idle: list[httpcore.AsyncHTTPConnection] = []

    @asynccontextmanager
    async def to(self, origin: httpcore.Origin) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """Lend a connection; one that was not used to its end is closed."""
        self._busy += 1
        connection = None
        try:
            connection = await self._idle_one(origin) or self._new_one(origin)
            yield connection
        finally:
            self._busy -= 1
            if connection is not None and connection.is_available():
                self._idle.append(connection)
            elif connection is not None:
                await connection.aclose()

    async def close(self) -> None:
        """Close what is not in use."""
        await self._close(self._idle)
        self._connector.close()

    async def _idle_one(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection | None:
        """Take the connection that was used last; close those that are of no more use, or in the way of a new one."""
        await self._close([connection for connection in self._idle if connection.has_expired()])
        for connection in reversed(self._idle):
            if connection.can_handle_request(origin):
                self._idle.remove(connection)
                return connection
        await self._close(self._idle[: max(0, self._busy + len(self._idle) - self._most)])
        return None

    def _new_one(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        return httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=_trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=self._connector,
        )

    async def _close(self, connections: list[httpcore.AsyncHTTPConnection]) -> None:
        for connection in list(connections):
            if connection in self._idle:  # not lent meanwhile
                self._idle.remove(connection)
                await connection.aclose()


class Connector(httpcore.AsyncNetworkBackend):
    """Connects to the addresses of a host, all of which the settings must allow."""

    def __init__(self, settings: FetchSettings) -> None:
        self._allow_private = settings.allow_private_hosts
        self._network = httpcore.AnyIOBackend()
        # Threads of our own, since a resolver cannot be interrupted: a loop that ends would wait for its own threads.
        # Eight for each URL, as one that was given up goes on for up to 40 s, and new ones must not wait for it.
        self._threads = ThreadPoolExecutor(8 * settings.concurrency, "foveal-resolve")

    def close(self) -> None:
        """Let the threads end, without waiting for resolvers that were given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve a host once, check what it has, and connect to that; one address after the other."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        addresses = await self._addresses(host, port, timeout)
        for left in range(len(addresses), 0, -1):
            seconds = None if timeout is None else max(0.0, timeout - (loop.time() - begin)) / left
            try:
                return Stream(
                    await self._network.connect_tcp(addresses[-left], port, seconds, local_address, socket_options)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
        raise httpcore.ConnectError

    async def _addresses(self, host: str, port: int, timeout: float | None) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                addresses = await loop.run_in_executor(self._threads, resolve, host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except (OSError, UnicodeError):
            raise FetchFailed("the host cannot be found") from None
        if not all(address_allowed(address, self._allow_private) for address in addresses):
            raise HostNotAllowed("the host has an address that is not public (allow_private_hosts)")
        return addresses


class Stream(httpcore.AsyncNetworkStream):
    """A connection that is closed where its TLS handshake is cancelled; httpcore 1.0.9 forgets it, open."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived."""
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        """Return what is known about the socket."""
        return self._stream.get_extra_info(info)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Return the encrypted connection."""
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException as error:
            await self._stream.aclose()
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise FetchFailed("the server's certificate is not valid") from None
            raise


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the order in which they should be tried."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _parsed(text: str) -> Target:
    if len(text) > _URL_LENGTH:
        raise FetchFailed(f"the URL has {len(text)} characters, more than {_URL_LENGTH}")
    try:
        url = httpx.URL(text)
        host = _host(url)
    except (httpx.InvalidURL, ValueError):
        raise FetchFailed("the URL is not valid") from None
    if url.scheme not in _PORTS:
        raise HostNotAllowed("only http and https URLs are fetched")
    if url.userinfo:
        raise HostNotAllowed("the URL has a user name or password")
    return Target(url.scheme, host, url.port or _PORTS[url.scheme], url.raw_path)


def _redirected(target: Target, location: bytes | None) -> str:
    if location is None:
        raise FetchFailed("the server redirects to nowhere")
    base = f"{target.scheme}://{target.host_header.decode()}{target.path.decode()}"
    try:
        return str(httpx.URL(base).join(location.decode("utf-8", "replace")))
    except (httpx.InvalidURL, ValueError):
        raise FetchFailed("the server redirects to a URL that is not valid") from None


def _host(url: httpx.URL) -> str:
    """Return the host of a URL in the one form that is compared, shown and resolved."""
    host = url.raw_host.decode().removesuffix(".")
    if not is_host(host) or not (url.port is None or 0 < url.port < 65536):
        raise ValueError
    return ip_address(host).compressed if ":" in host else host


async def _body(
    headers: dict[bytes, bytes], chunks: AsyncIterator[bytes], max_bytes: int, allowance: Allowance
) -> bytes:
    """Read a body that never takes more than `max_bytes` and a chunk, nor more than is left of the allowance."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    decoder = _Decoder(headers.get(b"content-encoding", b"identity"))
    body, received = io.BytesIO(), 0
    async for chunk in chunks:
        received += len(chunk)
        if received > max_bytes:
            raise _too_large(max_bytes)
        allowance.take(body.write(decoder.decode(chunk, max_bytes - body.tell() + 1)))
        if body.tell() > max_bytes:
            raise _too_large(max_bytes)
    decoder.finish()
    return body.getvalue()


class _Decoder:
    """Content encodings, as far as they can be decoded with a limit."""

    def __init__(self, encoding: bytes) -> None:
        name = encoding.strip().lower()
        if name not in (b"", b"identity", b"gzip", b"x-gzip", b"deflate"):
            raise FetchFailed("the body is compressed in a way that was not asked for")
        self._inflate = zlib.decompressobj(wbits=47) if name not in (b"", b"identity") else None  # gzip or zlib

    def decode(self, chunk: bytes, room: int) -> bytes:
        """Return at most `room` bytes; what did not fit is lost."""
        if self._inflate is None:
            return chunk
        try:
            data = self._inflate.decompress(chunk, room)
        except zlib.error:
            raise FetchFailed("the compressed body is corrupt") from None
        if self._inflate.unused_data:  # zlib would copy it with every chunk that follows
            raise FetchFailed("the compressed body goes on behind its end")
        return data

    def finish(self) -> None:
        """Refuse a body that ended too early."""
        if self._inflate is not None and not self._inflate.eof:
            raise FetchFailed("the compressed body is truncated")


def _too_large(max_bytes: int) -> MediaTooLarge:
    return MediaTooLarge(f"the body has more bytes than the limit of {max_bytes} (Limits.input_bytes)")


@lru_cache(maxsize=1)
def _trusted(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Return the certificates that are trusted: certifi's, or those that the environment names.

    Reading them takes 70 ms.
    """
    return httpx.create_ssl_context()


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Put a place before the messages of the block."""
    try:
        yield
    except MediaError as error:
        if not place:
            raise
        raise type(error)(f"{place}: {error}") from error.__cause__


@contextmanager
def _failures(settings: FetchSettings) -> Iterator[None]:
    """Turn what happens on the network into errors; what is below them may name addresses, and is dropped."""
    try:
        yield
    except httpcore.ConnectTimeout:
        reason = f"no connection within {settings.connect_timeout:g} s (connect_timeout)"
    except httpcore.TimeoutException:
        reason = f"nothing arrived within {settings.read_timeout:g} s (read_timeout)"
    except httpcore.ConnectError:
        reason = "no connection"
    except httpcore.ProtocolError:
        reason = "the answer is not HTTP, or ended early"
    except (httpcore.NetworkError, OSError):
        reason = "the connection broke"
    else:
        return
    raise FetchFailed(reason)
