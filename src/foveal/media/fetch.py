"""URLs to bytes: one entry for ``data:``, ``http(s)://`` and ``file://``; within an event loop and without one."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from foveal.errors import MediaError, OptionError
from foveal.media.urls import Allowance, FetchSettings, is_http, load_local, url_scheme

if TYPE_CHECKING:
    from foveal.media.http_client import HttpClient

__all__ = ["FetchSettings", "Fetcher", "load_url", "load_urls", "url_scheme"]

Result = TypeVar("Result")


class Fetcher:
    """Turns URLs into bytes, with one pool of connections.

    Belongs to the event loop in which it is entered; leaving closes every connection. ::

        async with Fetcher(FetchSettings(allowed_domains=("images.example",))) as fetcher:
            data = await fetcher.load("https://images.example/cat.png", 20 << 20)

    Parameters
    ----------
    settings : FetchSettings, optional
        By default those of the environment.
    """

    def __init__(self, settings: FetchSettings | None = None) -> None:
        self._settings = FetchSettings.default() if settings is None else settings
        self._turns = asyncio.Semaphore(self._settings.concurrency)
        self._client: HttpClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def load(self, url: str, max_bytes: int) -> bytes:
        """Return what a URL leads to.

        Parameters
        ----------
        url : str
            ``data:``, ``http://``, ``https://`` or ``file://``.
        max_bytes : int
            That are held in memory at most, however they are compressed on the way.

        Raises
        ------
        MediaTooLarge, CorruptImage, FetchFailed, HostNotAllowed
            Their text shows scheme and host of the URL at most.
        OptionError
            If the URL needs httpx, which is not installed.
        """
        return await self._load(url, max_bytes, Allowance())

    async def load_all(
        self, urls: Sequence[str], max_bytes: int, max_total: int | None = None
    ) -> list[bytes | MediaError]:
        """Return what several URLs lead to, in their order: bytes, or the error that `load` raises.

        Parameters
        ----------
        urls : sequence of str
        max_bytes : int
            As in `load`.
        max_total : int, optional
            Bytes of all bodies together, also of those that end in an error.

        Raises
        ------
        MediaTooLarge
            If the bodies are too large together.
        OptionError
            As in `load`.
        """
        if any(is_http(url) for url in urls):
            self._http_client()
        allowance = Allowance(max_total)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._outcome(url, max_bytes, allowance)) for url in urls]
        allowance.check()
        return [task.result() for task in tasks]

    async def _load(self, url: str, max_bytes: int, allowance: Allowance) -> bytes:
        if url_scheme(url) == "file":
            async with self._turns:
                return await asyncio.to_thread(load_local, url, max_bytes, self._settings, allowance)
        if not is_http(url):
            return load_local(url, max_bytes, self._settings, allowance)
        client = self._http_client()
        async with self._turns:
            allowance.check()
            return await client.get(url, max_bytes, allowance)

    async def _outcome(self, url: str, max_bytes: int, allowance: Allowance) -> bytes | MediaError:
        try:
            return await self._load(url, max_bytes, allowance)
        except MediaError as error:
            return error

    def _http_client(self) -> "HttpClient":
        if self._client is None:
            try:
                from foveal.media.http_client import HttpClient
            except ModuleNotFoundError as error:
                if error.name not in ("httpx", "httpcore"):
                    raise
                raise OptionError("http and https URLs need the package httpx: pip install 'foveal[http]'") from None
            self._client = HttpClient(self._settings)
        return self._client


def load_url(url: str, max_bytes: int, settings: FetchSettings | None = None) -> bytes:
    """Return what a URL leads to, for callers without an event loop; see `Fetcher.load`."""
    (outcome,) = load_urls([url], max_bytes, settings)
    if isinstance(outcome, MediaError):
        raise outcome
    return outcome


def load_urls(
    urls: Sequence[str], max_bytes: int, settings: FetchSettings | None = None, max_total: int | None = None
) -> list[bytes | MediaError]:
    """Return what several URLs lead to, for callers without an event loop; see `Fetcher.load_all`.

    An event loop that runs in this thread stands still meanwhile, as with every call that blocks.
    """
    chosen = FetchSettings.default() if settings is None else settings
    if not any(is_http(url) for url in urls):
        allowance = Allowance(max_total)
        outcomes = [_outcome_here(url, max_bytes, chosen, allowance) for url in urls]
        allowance.check()
        return outcomes

    async def load() -> list[bytes | MediaError]:
        async with Fetcher(chosen) as fetcher:
            return await fetcher.load_all(urls, max_bytes, max_total)

    return _run(load)


def _outcome_here(url: str, max_bytes: int, settings: FetchSettings, allowance: Allowance) -> bytes | MediaError:
    try:
        return load_local(url, max_bytes, settings, allowance)
    except MediaError as error:
        return error


def _run(make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine to its end, in a thread of its own where a loop runs in this one.

    The task itself has no result: ``asyncio.run`` ends with the repr of its task, which would take four times the bytes
    of all bodies.
    """
    results: list[Result] = []

    async def collect() -> None:
        results.append(await make())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(collect())
        return results[0]
    cancel: Future[Callable[[], object]] = Future()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        cancel.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        await collect()

    with ThreadPoolExecutor(1, "foveal-load") as thread:
        done = thread.submit(lambda: asyncio.run(main()))
        try:
            done.result()
            return results[0]
        except BaseException:  # an interrupt, as in a notebook, ends what it interrupts
            with suppress(RuntimeError):  # the loop has ended by itself
                cancel.result()()
            raise
