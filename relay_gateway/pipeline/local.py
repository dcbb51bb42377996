"""Exchanges with providers that answer inside the process, as if they had come over a
connection."""

from __future__ import annotations

import asyncio

from relay_gateway.errors import FAULTS, UpstreamClosedError, UpstreamError
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.ports import Receiver
from relay_gateway.plugin.providers import LocalAnswer, UpstreamCall, UpstreamProvider


class LocalExchange:
    """An answer of a local provider; fits the pipeline's exchange port."""

    __slots__ = (
        "_answer",
        "_flowing",
        "_held",
        "_left",
        "_task",
        "body_complete",
        "headers",
        "status",
    )

    def __init__(self, answer: LocalAnswer) -> None:
        self.status = answer.status
        self.headers = Headers(answer.headers)
        self._answer = answer
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._left = self.headers.length
        """How much of the body is still to come, where the answer says so."""
        self._task: asyncio.Task[None] | None = None
        self._held: list[bytes] = []
        self.body_complete = False

    def take(self) -> bytes:
        """What :meth:`more` has brought."""
        held, self._held = self._held, []
        return b"".join(held)

    def peek(self) -> bytes:
        """What :meth:`more` has brought."""
        return b"".join(self._held)

    async def more(self) -> None:
        """Asks the provider for the next chunk. Raises :class:`UpstreamError` where it fails."""
        try:
            self._held.append(await anext(self._answer.chunks))
        except StopAsyncIteration:
            self.body_complete = True
        except UpstreamError:
            raise
        except FAULTS as error:
            raise _failed(error) from error

    def receive(self, receiver: Receiver) -> None:
        """Pumps the chunks to ``receiver`` in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._pump(receiver))

    async def read(self, limit: int) -> bytes:
        """The body up to ``limit`` bytes."""
        body = bytearray(self.take())
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
            held = self.take()
            if held:
                self._hand_over(held, receiver)
            async for chunk in self._answer.chunks:
                await self._flowing.wait()
                self._hand_over(chunk, receiver)
        except UpstreamError as error:
            receiver.failed(error)
        except FAULTS as error:  # a provider's mistake ends only this answer
            receiver.failed(_failed(error))
        else:
            receiver.end()

    def _hand_over(self, chunk: bytes, receiver: Receiver) -> None:
        if self._left is not None:
            self._left -= len(chunk)
            self.body_complete = self._left <= 0
        receiver.data(chunk)


def _failed(error: BaseException) -> UpstreamError:
    return UpstreamClosedError(f"the provider failed: {type(error).__name__}")


async def ask_locally(provider: UpstreamProvider, call: UpstreamCall) -> LocalExchange:
    """One call of a local provider."""
    return LocalExchange(await provider.answer(call))
