"""``GET /audit``: who changed what, newest first, and whether the log is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Query
from starlette.responses import Response

from relay_gateway.control.lists import STORABLE
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.usage_parameters import Moment, read_moment
from relay_gateway.storage.audit import AuditLog, AuditQuery, AuditRecord

MAX_LIMIT = 1000
Filter = Annotated[str | None, Query(max_length=256, json_schema_extra=STORABLE)]


class AuditList(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Part of the audit log, newest first; ``nextCursor`` leads to older records."""

    items: tuple[AuditRecord, ...]
    next_cursor: str | None = None


class AuditVerification(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Whether every record follows from the one before it. ``records`` were read, ``pruned`` were
    removed before by retention; ``problem`` says what does not fit, with the first record."""

    intact: bool
    records: int
    pruned: int
    problem: str | None = None


STRUCTS = (AuditList, AuditVerification)


class AuditRoutes:
    """The routes of the audit log: nothing can be written through them."""

    def __init__(
        self, log: AuditLog, docs: Documentation, is_signed: Callable[[bytes, str], bool]
    ) -> None:
        self._log = log
        self._docs = docs
        self._is_signed = is_signed

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        operation = Operation(
            "listAuditRecords",
            "List who changed what, newest first",
            description="Writes, logins, failures, changes of settings. Nothing is written or "
            "removed here; `relay-gateway audit verify` checks the chain.",
        )
        app.add_api_route(
            "/audit",
            self._list,
            methods=["GET"],
            tags=["audit"],
            **self._docs.describe(operation, answer="AuditList"),
        )
        verification = Operation(
            "verifyAuditLog",
            "Read the whole audit log and tell whether it is whole",
            description="As `relay-gateway audit verify`: whether a record was changed, added or "
            "taken away.",
        )
        app.add_api_route(
            "/audit/verify",
            self._verify,
            methods=["GET"],
            tags=["audit"],
            **self._docs.describe(verification, answer="AuditVerification"),
        )

    async def _verify(self) -> Response:
        report = await self._log.verify(self._is_signed)
        body = AuditVerification(
            intact=report.problem is None,
            records=report.records,
            pruned=report.pruned,
            problem=report.problem,
        )
        return Response(msgspec.json.encode(body), media_type="application/json")

    async def _list(
        self,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        cursor: Annotated[str | None, Query(max_length=32)] = None,
        action: Filter = None,
        kind: Filter = None,
        target: Annotated[
            str | None,
            Query(
                max_length=256,
                description="id of an entity, section, or name of a user",
                json_schema_extra=STORABLE,
            ),
        ] = None,
        slug: Filter = None,
        actor: Filter = None,
        method: Filter = None,
        address: Filter = None,
        request_id: Annotated[
            str | None, Query(alias="requestId", max_length=256, json_schema_extra=STORABLE)
        ] = None,
        from_: Annotated[Moment, Query(alias="from")] = None,
        to: Moment = None,
    ) -> Response:
        equal: dict[str, Any] = {
            "action": action,
            "kind": kind,
            "target": target,
            "slug": slug,
            "actor": actor,
            "method": method,
            "address": address,
            "request_id": request_id,
        }
        query = AuditQuery(
            limit=limit + 1,
            before=_sequence(cursor),
            since=read_moment("from", from_),
            until=read_moment("to", to),
            equal={name: _storable(name, value) for name, value in equal.items() if value},
        )
        found = await self._log.page(query)
        following = str(found[limit - 1].sequence) if len(found) > limit else None
        body = AuditList(items=tuple(found[:limit]), next_cursor=following)
        return Response(msgspec.json.encode(body), media_type="application/json")


def _sequence(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise RefusedError(
            400, "invalid_parameter", "cursor: is not one that a page of this list ended with"
        )
    return int(cursor)


def _storable(name: str, value: str) -> str:
    if "\0" in value:
        raise RefusedError(400, "invalid_parameter", f"{name}: must not contain a NUL character")
    return value
