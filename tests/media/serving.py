"""A web server on the loopback interface that answers as tests want it, and names that lead to it."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def response(status: int = 200, body: bytes = b"", **fields: object) -> bytes:
    """Return a response with a Content-Length, unless fields name another or another framing."""
    names = {name.replace("_", "-"): value for name, value in fields.items()}
    if not names.keys() & {"Content-Length", "Transfer-Encoding"}:
        names["Content-Length"] = len(body)
    head = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in names.items()), "", ""]
    return "\r\n".join(head).encode() + body


def redirect(location: str, status: int = 302) -> bytes:
    return response(status, b"elsewhere", Location=location)


class Site:
    """Answers by path; counts what is asked and what is open.

    An answer is the bytes of a response, or a coroutine function that writes one.
    """

    def __init__(self, answers: dict[str, bytes | Answer], tls: ssl.SSLContext | None = None):
        self.answers, self.tls = answers, tls
        self.requests: list[str] = []
        self.connections = self.open = self.busy = self.busiest = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error):
        self.server.close()
        await self.all_closed()
        await self.server.wait_closed()

    async def all_closed(self, but: int = 0):
        """Wait until clients have closed every connection but some; fail if they do not."""
        async with asyncio.timeout(2):
            while self.open > but:
                await asyncio.sleep(0.005)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    request = (await reader.readuntil(b"\r\n\r\n")).decode()
                    self.requests.append(request)
                    self.busy += 1
                    self.busiest = max(self.busiest, self.busy)
                    try:
                        await self.answer(request.split(" ")[1], reader, writer)
                    finally:
                        self.busy -= 1
        finally:
            self.open -= 1
            writer.close()

    async def answer(self, path, reader, writer):
        answer = self.answers[path]
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(reader, writer)


class Threaded:
    """A site that is served by a loop in another thread."""

    def __init__(self, answers):
        self.site, self.loop = Site(answers), asyncio.new_event_loop()

    def __enter__(self):
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        return self.run(self.site.__aenter__())

    def __exit__(self, *error):
        self.run(self.site.__aexit__())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(5)


class Names:
    """Stands for the internet: names, the addresses that they have, and where public addresses lead.

    Attributes
    ----------
    addresses : dict of list of list of str
        What each look-up of a name answers, one after the other; the last one stays.
    port : int
        On the loopback interface, where connections to public addresses are made.
    looked_up, dialled : list
        What happened.
    """

    def __init__(self, addresses: dict[str, list[list[str]]]):
        self.addresses, self.port = addresses, 0
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    def resolve(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        answers = self.addresses.get(host)
        if answers is None:
            raise OSError("no such host")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def install(self, monkeypatch, http_client, backend):
        real = backend.connect_tcp

        async def connect(network, host, port, *rest):
            self.dialled.append((host, port))
            public = host not in ("127.0.0.1", "::1")
            return await real(network, "127.0.0.1" if public else host, self.port if public else port, *rest)

        monkeypatch.setattr(http_client, "resolve", self.resolve)
        monkeypatch.setattr(backend, "connect_tcp", connect)
