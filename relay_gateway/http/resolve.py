"""Name look-up for the upstream client: off the loop, shared by callers, briefly remembered."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Protocol

from relay_gateway.errors import UpstreamConnectError
from relay_gateway.http.egress import Address

MAX_NAMES = 1024


class Resolver(Protocol):
    """Turns a host name into addresses."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of ``host``, best first, at least one.

        Raises :class:`UpstreamConnectError`.
        """


class SystemResolver:
    """The machine's own resolver. One question per name is under way at a time.

    Answers are kept for ``ttl`` seconds, for at most ``MAX_NAMES`` names.
    """

    def __init__(self, *, ttl: float = 5.0) -> None:
        self._ttl = ttl
        self._answers: dict[str, tuple[float, Sequence[Address]]] = {}
        self._questions: dict[str, asyncio.Task[Sequence[Address]]] = {}

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of ``host``, best first; literals answer themselves."""
        loop = asyncio.get_running_loop()
        try:
            return (ip_address(host),)
        except ValueError:
            pass
        known = self._answers.get(host)
        if known is not None and loop.time() < known[0]:
            return known[1]
        question = self._questions.get(host)
        if question is None:
            question = loop.create_task(self._ask(host, port))
            self._questions[host] = question
            question.add_done_callback(lambda done: self._answered(host, done))
        # A caller that gives up must not take the answer away from the others.
        return await asyncio.shield(question)

    async def _ask(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        try:
            rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise UpstreamConnectError(
                f"the name {host!r} cannot be resolved: {_words(error)}", sent=False
            ) from error
        addresses = tuple(dict.fromkeys(ip_address(row[4][0]) for row in rows))
        if not addresses:
            raise UpstreamConnectError(f"the name {host!r} has no address", sent=False)
        return addresses

    def _answered(self, host: str, question: asyncio.Task[Sequence[Address]]) -> None:
        self._questions.pop(host, None)
        if question.cancelled() or question.exception() is not None:
            return
        if len(self._answers) >= MAX_NAMES:
            del self._answers[next(iter(self._answers))]
        self._answers[host] = (question.get_loop().time() + self._ttl, question.result())


def _words(error: Exception) -> str:
    return error.strerror or "unknown reason" if isinstance(error, OSError) else "not a valid name"
