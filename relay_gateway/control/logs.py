"""Logs and usage: what the configured usage sink gives back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import FastAPI, Query, Request
from starlette.datastructures import QueryParams
from starlette.responses import Response

from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.plugin import (
    LOG_DIMENSIONS,
    LOG_FILTERS,
    LogQuery,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
)

MAX_LIMIT = 1000
T = TypeVar("T")
_AGE = re.compile(r"(\d{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_BOOLEANS = {"true": True, "false": False}
_NUMBERS = frozenset({"status"})
_FLAGS = frozenset({"streamed", "unpriced"})

Filter = Annotated[str | None, Query(max_length=512)]
Moment = Annotated[
    str | None, Query(max_length=64, description="RFC 3339, with its offset from UTC")
]
Tags = Annotated[list[str] | None, Query(max_length=16, description="`name:value`, repeatable")]


class LogList(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Part of the log, newest first; ``nextCursor`` leads to older records."""

    items: tuple[UsageRecord, ...]
    next_cursor: str | None = None


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One logged request."""

    log: UsageRecord


class UsageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals per group, largest number of requests first."""

    items: tuple[UsageRow, ...]


STRUCTS = (LogList, LogEntry, UsageSummary)


class LogRoutes:
    """``/logs`` and ``/usage``. Without a sink that can be read they answer 501."""

    def __init__(self, reader: UsageReader | None, docs: Documentation) -> None:
        self._configured = reader
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        filters = [_filter_parameter(name) for name in sorted(LOG_FILTERS)]
        for path, endpoint, answer, operation, extra in (
            ("/logs", self._list, "LogList",
             Operation("listLogs", "List logged requests, newest first", (400, 501)), filters),
            ("/logs/{request_id}", self._get, "LogEntry",
             Operation("getLog", "Read one logged request", (404, 501)), []),
            ("/usage/summary", self._summarize, "UsageSummary",
             Operation("summarizeUsage", "Totals per group", (400, 501)), filters),
        ):  # fmt: skip
            documented = self._docs.describe(operation, answer=answer)
            documented["openapi_extra"]["parameters"] = extra
            app.add_api_route(path, endpoint, methods=["GET"], tags=["logs"], **documented)

    async def _list(
        self,
        request: Request,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        cursor: Annotated[str | None, Query(max_length=512)] = None,
        since: Annotated[
            str | None, Query(max_length=64, description="an age (`15m`, `24h`, `7d`) or a time")
        ] = None,
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
        q: Filter = None,
        tag: Tags = None,
    ) -> Response:
        if since is not None and from_ is not None:
            raise _refused("since and from cannot be combined; use one of them")
        query = LogQuery(
            limit=limit,
            cursor=cursor,
            equals=_equals(request.query_params),
            tags=_tags(tag or []),
            start=_since(since) if since is not None else read_moment("from", from_),
            end=read_moment("to", to),
            text=q,
        )
        page = await _asked(self._reader().query(query))
        return _answer(LogList(items=tuple(page.items), next_cursor=page.next_cursor))

    async def _get(self, request_id: str) -> Response:
        record = await self._reader().get(request_id)
        if record is None:
            raise RefusedError(404, "not_found", f"no logged request has the id {request_id!r}")
        return _answer(LogEntry(log=record))

    async def _summarize(
        self,
        request: Request,
        group_by: Annotated[
            str,
            Query(
                alias="groupBy",
                max_length=512,
                description=f"comma-separated: {', '.join(LOG_DIMENSIONS)}, tag:NAME",
            ),
        ] = "",
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
    ) -> Response:
        query = UsageQuery(
            group_by=_dimensions(group_by),
            start=read_moment("from", from_),
            end=read_moment("to", to),
            equals=_equals(request.query_params),
        )
        rows = await _asked(self._reader().summarize(query))
        return _answer(UsageSummary(items=tuple(rows)))

    def _reader(self) -> UsageReader:
        if self._configured is None:
            raise RefusedError(
                501,
                "usage_not_readable",
                "none of the configured usage sinks can be read; "
                "add one that can to usage_logging.sinks",
            )
        return self._configured


def _filter_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "integer"} if name in _NUMBERS else {"type": "string"}
    if name in _FLAGS:
        schema = {"type": "boolean"}
    return {"name": name, "in": "query", "required": False, "schema": schema}


async def _asked(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except ValueError as error:
        raise RefusedError(400, "invalid_parameter", str(error)) from error


def _answer(body: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


def _equals(parameters: QueryParams) -> Mapping[str, str | int | bool]:
    return {
        name: _filter_value(name, value)
        for name, value in parameters.items()
        if name in LOG_FILTERS
    }


def _filter_value(name: str, value: str) -> str | int | bool:
    if name in _NUMBERS:
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise _refused(f"{name}: must be a whole number")
        return int(value)
    if name in _FLAGS:
        if value not in _BOOLEANS:
            raise _refused(f"{name}: must be true or false")
        return _BOOLEANS[value]
    if "\0" in value:
        raise _refused(f"{name}: must not contain a NUL character")
    return value


def _tags(pairs: Sequence[str]) -> Mapping[str, str]:
    tags = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not name or not colon or "\0" in pair:
            raise _refused(f"tag: must be name:value, not {pair!r}")
        tags[name] = value
    return tags


def _dimensions(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in LOG_DIMENSIONS and not (name.startswith("tag:") and len(name) > 4):
            known = ", ".join(LOG_DIMENSIONS)
            raise _refused(f"groupBy: {name!r} is no dimension; there are: {known}, tag:NAME")
    return names


def _since(text: str) -> str | None:
    age = _AGE.fullmatch(text)
    if age is None:
        return read_moment("since", text)
    try:
        return _text(datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])}))
    except OverflowError:
        raise _refused(f"since: {text!r} lies before the year 1") from None


def read_moment(name: str, text: str | None) -> str | None:
    """A time of a parameter as RFC 3339 in UTC. Raises :class:`RefusedError` (400)."""
    if text is None:
        return None
    try:
        # In a query string an unescaped "+" arrives as a space.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return _text(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise _refused(f"{name}: must be a time like 2026-01-31T12:00:00Z, not {text!r}") from None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _refused(message: str) -> RefusedError:
    return RefusedError(400, "invalid_parameter", message)
