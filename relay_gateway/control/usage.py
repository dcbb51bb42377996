"""``/usage``: totals, totals over time, and every record for whoever reckons elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

import msgspec
from fastapi import FastAPI, Query, Request
from starlette.responses import Response, StreamingResponse

from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices
from relay_gateway.control.usage_answers import answer_with, asked, readable
from relay_gateway.control.usage_export import FORMATS, Format
from relay_gateway.control.usage_parameters import (
    TOP,
    Filter,
    GroupBy,
    Moment,
    Since,
    Tags,
    Top,
    filter_parameter,
    read_dimensions,
    read_filters,
    read_moment,
    read_start,
    read_tags,
    read_text,
)
from relay_gateway.plugin import (
    LOG_FILTERS,
    Interval,
    LogPage,
    LogQuery,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageReader,
    UsageRow,
)

EXPORT_PAGE = 1000


class UsageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals per group, largest number of requests first."""

    items: tuple[UsageRow, ...]


class UsageSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Totals per step and group, oldest step first; steps without a request are left out.

    Points whose ``other`` is true have all groups that are not among the largest.
    """

    items: tuple[UsagePoint, ...]


STRUCTS = (UsageSummary, UsageSeries)
_FILE = {
    "description": "The records, as they are read.",
    "content": {
        one.content_type.partition(";")[0]: {"schema": {"type": "string"}}
        for one in FORMATS.values()
    },
}


class UsageRoutes:
    """The routes below ``/usage``. Without a sink that can be read they answer 501."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        filters = [filter_parameter(name) for name in sorted(LOG_FILTERS)]
        for path, endpoint, answer, operation in (
            ("/usage/summary", self._summarize, "UsageSummary",
             Operation("summarizeUsage", "Totals per group", (501,),
                       description="Requests, errors, tokens, cost and durations.")),
            ("/usage/timeseries", self._series, "UsageSeries",
             Operation("readUsageSeries", "Totals over time", (501,),
                       description="As the summary, in steps of whole UTC minutes, hours or "
                       "days, and of the largest groups: all others are one point per step, "
                       "whose `other` is true and whose `group` is empty.")),
            ("/usage/export", self._export, None,
             Operation("exportUsage", "Every record that matches, as a stream", (501,),
                       description="Newest first, as JSON lines or as CSV. A text that a "
                       "spreadsheet would take for a formula begins with an apostrophe in CSV.")),
        ):  # fmt: skip
            documented = self._docs.describe(operation, answer=answer)
            documented["openapi_extra"]["parameters"] = filters
            if answer is None:
                documented["responses"][200] = dict(_FILE)
                documented["response_class"] = Response
            app.add_api_route(path, endpoint, methods=["GET"], tags=["logs"], **documented)

    def _reader(self) -> UsageReader:
        return readable(self._services.usage_reader)

    async def _summarize(
        self,
        request: Request,
        group_by: GroupBy = "",
        since: Since = None,
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
        tag: Tags = None,
    ) -> Response:
        query = UsageQuery(
            group_by=read_dimensions(group_by),
            start=read_start(since, from_),
            end=read_moment("to", to),
            equals=read_filters(request.query_params),
            tags=read_tags(tag or []),
        )
        rows = await asked(self._reader().summarize(query))
        return answer_with(UsageSummary(items=tuple(rows)))

    async def _series(
        self,
        request: Request,
        interval: Interval = "hour",
        top: Top = TOP,
        group_by: GroupBy = "",
        since: Since = None,
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
        tag: Tags = None,
    ) -> Response:
        query = SeriesQuery(
            interval=interval,
            top=top,
            group_by=read_dimensions(group_by),
            start=read_start(since, from_),
            end=read_moment("to", to),
            equals=read_filters(request.query_params),
            tags=read_tags(tag or []),
        )
        try:
            points = await asked(self._reader().timeseries(query))
        except NotImplementedError:
            raise RefusedError(
                501,
                "usage_not_readable",
                "the usage sink that is read has no totals over time",
            ) from None
        return answer_with(UsageSeries(items=tuple(points)))

    async def _export(
        self,
        request: Request,
        format: Annotated[  # noqa: A002 - the name of the parameter
            Literal["csv", "jsonl"], Query(description="`jsonl`: one record as JSON per line")
        ] = "jsonl",
        since: Since = None,
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
        q: Filter = None,
        tag: Tags = None,
    ) -> Response:
        query = LogQuery(
            limit=EXPORT_PAGE,
            equals=read_filters(request.query_params),
            tags=read_tags(tag or []),
            start=read_start(since, from_),
            end=read_moment("to", to),
            text=q if q is None else read_text("q", q),
        )
        reader, wanted = self._reader(), FORMATS[format]
        # Before the answer begins, because what fails here can still be said.
        first = await asked(reader.query(query))
        headers = {"Content-Disposition": f'attachment; filename="usage.{format}"'}
        return StreamingResponse(
            _pages(reader, query, first, wanted), 200, headers, wanted.content_type
        )


async def _pages(
    reader: UsageReader, query: LogQuery, page: LogPage, wanted: Format
) -> AsyncIterator[bytes]:
    yield wanted.head
    while True:
        yield b"".join(wanted.line(record) for record in page.items)
        if page.next_cursor is None:
            return
        page = await reader.query(msgspec.structs.replace(query, cursor=page.next_cursor))
