"""Asking the usage sink that can be read, and answering with what it gives."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec
from starlette.responses import Response

from relay_gateway.control.problems import RefusedError
from relay_gateway.plugin import UsageReader

T = TypeVar("T")


def readable(reader: UsageReader | None) -> UsageReader:
    """The reader that is configured. Raises :class:`RefusedError` (501) where there is none."""
    if reader is None:
        raise RefusedError(
            501,
            "usage_not_readable",
            "none of the configured usage sinks can be read; "
            "add one that can to usage_logging.sinks",
        )
    return reader


async def asked(answer: Awaitable[T]) -> T:
    """What a reader answers; what it cannot be asked is 400."""
    try:
        return await answer
    except ValueError as error:
        raise RefusedError(400, "invalid_parameter", str(error)) from error


def answer_with(body: msgspec.Struct) -> Response:
    """The answer of a struct."""
    return Response(msgspec.json.encode(body), media_type="application/json")
