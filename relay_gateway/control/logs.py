"""Logged requests: what the configured usage sink gives back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.payloads import Payload, PayloadDesk
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices
from relay_gateway.control.usage_answers import answer_with, asked, readable
from relay_gateway.control.usage_parameters import (
    Filter,
    Moment,
    Since,
    Tags,
    filter_parameter,
    read_filters,
    read_moment,
    read_start,
    read_tags,
    read_text,
)
from relay_gateway.plugin import LOG_FILTERS, LogQuery, UsageRecord

MAX_LIMIT = 1000


class LogList(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Part of the log, newest first; ``nextCursor`` leads to older records."""

    items: tuple[UsageRecord, ...]
    next_cursor: str | None = None


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One logged request, with its payload where one was kept; ``payloadError`` says why it is not
    known whether one was."""

    log: UsageRecord
    payload: Payload | None = None
    payload_error: str | None = None


STRUCTS = (LogList, LogEntry, Payload)


class LogRoutes:
    """``/logs``. Without a sink that can be read it answers 501."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._payloads = PayloadDesk(services)
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        filters = [filter_parameter(name) for name in sorted(LOG_FILTERS)]
        for path, endpoint, answer, operation, extra in (
            ("/logs", self._list, "LogList",
             Operation("listLogs", "List logged requests, newest first", (501,),
                       description="One record per inference request, refused ones too."),
             filters),
            ("/logs/{request_id}", self._get, "LogEntry",
             Operation("getLog", "Read one logged request", (404, 501),
                       description="By the id in the request id header of the answer. That a "
                       "payload was read is recorded in the audit log."),
             []),
        ):  # fmt: skip
            documented = self._docs.describe(operation, answer=answer)
            documented["openapi_extra"]["parameters"] = extra
            app.add_api_route(path, endpoint, methods=["GET"], tags=["logs"], **documented)

    async def _list(
        self,
        request: Request,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        cursor: Annotated[str | None, Query(max_length=512)] = None,
        since: Since = None,
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
        q: Filter = None,
        tag: Tags = None,
    ) -> Response:
        query = LogQuery(
            limit=limit,
            cursor=cursor,
            equals=read_filters(request.query_params),
            tags=read_tags(tag or []),
            start=read_start(since, from_),
            end=read_moment("to", to),
            text=q if q is None else read_text("q", q),
        )
        page = await asked(readable(self._services.usage_reader).query(query))
        return answer_with(LogList(items=tuple(page.items), next_cursor=page.next_cursor))

    async def _get(
        self,
        request_id: str,
        *,
        payload: Annotated[
            bool, Query(description="whether the payload is read, too, if one was kept")
        ] = True,
    ) -> Response:
        record = await readable(self._services.usage_reader).get(request_id)
        if record is None:
            raise RefusedError(404, "not_found", f"no logged request has the id {request_id!r}")
        found, error = await self._payloads.read(request_id) if payload else (None, None)
        return answer_with(LogEntry(log=record, payload=found, payload_error=error))
