"""Listens to what HTTP clients of this process say to gateways, and to what they are answered.

For a ``conftest.py`` whose tests start gateways, so that a credential in anything that these leave
fails the run::

    WATCH = Watch()


    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
        with watching(WATCH) if item.path.is_relative_to(HERE) else nullcontext():
            return (yield)


    @pytest.fixture(scope="session", autouse=True)
    def watch() -> Iterator[Watch]:
        yield WATCH
        WATCH.judge()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.watch import Answer, Watch


@dataclass(slots=True)
class Heard(httpx.SyncByteStream):
    """A body that is noted while it is read."""

    stream: httpx.SyncByteStream
    answer: Answer

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.stream:
            self.answer.body += piece
            yield piece

    def close(self) -> None:
        """Closes what it listens to."""
        self.stream.close()


@dataclass(slots=True)
class HeardAsync(httpx.AsyncByteStream):
    """The same, for the other kind of client."""

    stream: httpx.AsyncByteStream
    answer: Answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            self.answer.body += piece
            yield piece

    async def aclose(self) -> None:
        """Closes what it listens to."""
        await self.stream.aclose()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Shows ``watch`` the gateways that begin meanwhile, and all that is said to them."""
    watch.mark()
    GatewayProcess.observers.append(watch)
    try:
        with tapped(watch):
            yield
    finally:
        GatewayProcess.observers.remove(watch)


@contextmanager
def tapped(watch: Watch) -> Iterator[None]:
    """Tells ``watch`` of every request of httpx to a gateway, and of the answer."""
    ask, ask_async = (
        httpx.HTTPTransport.handle_request,
        httpx.AsyncHTTPTransport.handle_async_request,
    )

    def handle(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        watched = watch.asked(request)
        response = ask(transport, request)
        if watched is not None and isinstance(response.stream, httpx.SyncByteStream):
            response.stream = Heard(response.stream, watch.answered(watched, request, response))
        return response

    async def handle_async(
        transport: httpx.AsyncHTTPTransport, request: httpx.Request
    ) -> httpx.Response:
        watched = watch.asked(request)
        response = await ask_async(transport, request)
        if watched is not None and isinstance(response.stream, httpx.AsyncByteStream):
            answer = watch.answered(watched, request, response)
            response.stream = HeardAsync(response.stream, answer)
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.HTTPTransport, "handle_request", handle)
        patch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle_async)
        yield
