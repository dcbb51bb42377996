"""Exchanges with providers that answer inside the process, as if they had come over a
connection."""

from __future__ import annotations

import asyncio

from relay_gateway.errors import UpstreamClosedError, UpstreamError
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.ports import Receiver
from relay_gateway.plugin.providers import LocalAnswer, UpstreamCall, UpstreamProvider


class LocalExchange:
    """An answer of a local provider; fits the pipeline's exchange port."""

    __slots__ = ("_answer", "_flowing", "_task", "headers", "status")

    def __init__(self, answer: LocalAnswer) -> None:
        self.status = answer.status
        self.headers = Headers(answer.headers)
        self._answer = answer
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._task: asyncio.Task[None] | None = None

    def receive(self, receiver: Receiver) -> None:
        """Pumps the chunks to ``receiver`` in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._pump(receiver))

    async def read(self, limit: int) -> bytes:
        """The body up to ``limit`` bytes."""
        body = bytearray()
        async for chunk in self._answer.chunks:
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])

    def pause(self) -> None:
        """Stops before the next chunk."""
        self._flowing.clear()

    def resume(self) -> None:
        """Goes on."""
        self._flowing.set()

    def cancel(self) -> None:
        """Ends the answer now."""
        if self._task is not None:
            self._task.cancel()

    async def _pump(self, receiver: Receiver) -> None:
        try:
            async for chunk in self._answer.chunks:
                await self._flowing.wait()
                receiver.data(chunk)
        except UpstreamError as error:
            receiver.failed(error)
        except Exception as error:  # noqa: BLE001 - a provider's mistake ends only this answer
            receiver.failed(UpstreamClosedError(f"the provider failed: {type(error).__name__}"))
        else:
            receiver.end()


async def ask_locally(provider: UpstreamProvider, call: UpstreamCall) -> LocalExchange:
    """One call of a local provider."""
    return LocalExchange(await provider.answer(call))
