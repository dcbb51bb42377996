"""What a wire format must be able to do here, and how errors look where it says nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.plugin import Dialect, Problem
from relay_gateway_provider_echo.reply import Reply
from relay_gateway_provider_echo.turn import Turn


class Speaker(ABC):
    """One request in its format: reads it, and words the reply.

    Construction raises :class:`RequestRefusedError` (400) for a request that the real API would
    refuse, too.
    """

    turn: Turn

    @abstractmethod
    def __init__(self, body: bytes) -> None: ...

    @abstractmethod
    def whole(self, reply: Reply) -> object:
        """The answer as one JSON value."""

    def stream(self, reply: Reply) -> Iterator[bytes]:
        """The answer as complete server-sent events; by default there is only the whole one."""
        yield msgspec.json.encode(self.whole(reply))

    @classmethod
    def refusal(cls, refused: RequestRefusedError) -> tuple[int, bytes]:
        """Status and JSON body of an error."""
        problem = Problem(refused.status, refused.code, refused.message, refused.param)
        return Dialect().error(problem)


def data_event(value: object) -> bytes:
    """A server-sent event without a name."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def named_event(name: str, value: object) -> bytes:
    """A server-sent event with a name."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
