"""Happy eyeballs (RFC 8305): the first of several addresses that answers is used."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address

from relay_gateway.http.egress import Address

STAGGER_SECONDS = 0.25
MAX_ADDRESSES = 16


async def connect_first(addresses: Sequence[Address], port: int) -> socket.socket:
    """A connected socket to one of ``addresses``; attempts start 0.25 s apart, or when one fails.

    Raises the last ``OSError`` when none answers.
    """
    if len(addresses) == 1:
        return await _connect(addresses[0], port)
    waiting = interleave(addresses)[:MAX_ADDRESSES]
    running: set[asyncio.Task[socket.socket]] = set()
    failure: OSError = OSError("no address to connect to")
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(_connect(waiting.pop(0), port)))
            finished, _ = await asyncio.wait(
                running,
                timeout=STAGGER_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in finished:
                running.discard(attempt)
                error = attempt.exception()
                if error is None:
                    running |= finished - {attempt}
                    return attempt.result()
                if not isinstance(error, OSError):
                    raise error
                failure = error
        raise failure
    finally:
        for attempt in running:
            attempt.cancel()
            attempt.add_done_callback(_close_late_winner)


def interleave(addresses: Sequence[Address]) -> list[Address]:
    """The two families in turn, beginning with the family of the first address."""
    first = [address for address in addresses if address.version == addresses[0].version]
    second = [address for address in addresses if address.version != addresses[0].version]
    pairs = itertools.zip_longest(first, second)
    return [address for pair in pairs for address in pair if address is not None]


async def _connect(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late_winner(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
