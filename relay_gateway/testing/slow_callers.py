"""Callers that are slow on purpose, each until it is cut off; and honest ones beside them."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time
from dataclasses import dataclass

from relay_gateway.testing.raw_caller import RawCaller

_SMALL_BUFFER = 4096
_FIRST_READ = 100


@dataclass(frozen=True, slots=True)
class Reaped:
    """How long a slow caller was endured, in seconds, and what it was told at the end."""

    seconds: float
    told: bytes


async def dribble(
    port: int, begin: bytes, drip: bytes, *, every: float, most: float, uneven: float = 0.0
) -> Reaped:
    """Sends ``begin``, then one byte of ``drip`` after the other, ``every`` so many seconds, each
    pause shorter or longer by a share of up to ``uneven``.

    Raises ``AssertionError`` when it is still endured after ``most`` seconds.
    """
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = loop.time()
    writer.write(begin)
    told = asyncio.ensure_future(_read_to_end(reader))
    try:
        for byte in itertools.cycle(drip):
            pause = every * random.uniform(1 - uneven, 1 + uneven)  # noqa: S311 - no secret
            if (await asyncio.wait({told}, timeout=pause))[0]:
                return Reaped(loop.time() - began, told.result())
            assert loop.time() - began < most, f"still endured after {most} s"
            writer.write(bytes([byte]))
        raise AssertionError("nothing to drip")
    finally:
        told.cancel()
        writer.transport.abort()


async def stall(port: int, request: bytes, *, most: float, every: float = 0.05) -> Reaped:
    """Asks for an answer, reads its beginning and no more; looks ``every`` so many seconds whether
    it is cut off.

    Raises ``AssertionError`` when the connection is still open after ``most`` seconds.
    """
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        await loop.sock_sendall(connection, request)
        told = await loop.sock_recv(connection, _FIRST_READ)
        began = loop.time()
        while not _is_reset(connection):
            assert loop.time() - began < most, f"still open after {most} s"
            await asyncio.sleep(every)
        return Reaped(loop.time() - began, told)


async def ask_honestly(port: int, request: bytes, done: asyncio.Event) -> list[float]:
    """Asks again and again on one connection until ``done``; the seconds that each answer took.

    Raises ``AssertionError`` for one that is no success.
    """
    latencies: list[float] = []
    async with RawCaller(port) as caller:
        while not done.is_set():
            # The loop's own clock only knows milliseconds.
            began = time.perf_counter()
            answer = await caller.ask(request)
            latencies.append(time.perf_counter() - began)
            assert (answer.status, answer.complete) == (200, True), answer
            await asyncio.sleep(0.002)
    return latencies


def percentile(values: list[float], percent: int) -> float:
    """The value that ``percent`` of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _is_reset(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionResetError:
        return b""
