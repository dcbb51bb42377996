"""``POST /hosts/by-id/{id}/test``: one real call to a host, with what came of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import JSONResponse, Response

from relay_gateway.catalog.snapshot import Host, HostKey, Snapshot
from relay_gateway.control.crud import ById
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.resolve import reason_of_absence
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import EntityNotFoundError
from relay_gateway.ids import is_id
from relay_gateway.pipeline.probe import ProbeReport
from relay_gateway.plugin import CatalogModel
from relay_gateway.storage.audit import AuditEvent

TESTS_PER_MINUTE = 30
KIND = "host"
HostKeyRef = Annotated[
    str | None,
    Query(
        alias="hostKeyId",
        max_length=36,
        description="id of the key to test with; by default the first one of the host",
    ),
]


class HostTest(CatalogModel):
    """What came of a test. ``ok`` says that the host answered as it should, ``reachable`` that it
    answered at all, ``status`` with what. ``error`` is a stable code, ``message`` says what to do.
    """

    ok: bool
    reachable: bool
    latency_ms: float
    status: int | None = None
    error: str | None = None
    message: str
    host_key_id: str | None = None


class HostTestRoutes:
    """The one route. A test is recorded in the audit log before it is made."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs
        self._pace = Pace(TESTS_PER_MINUTE, services.clock.monotonic)

    def add_to(self, app: FastAPI) -> None:
        """Adds the route to ``app``."""
        operation = Operation(
            "testHost",
            "Ask a host something that costs nothing",
            (400, 404, 409, 429),
            description="One real request, the cheapest that the provider plugin declares, with "
            "what came of it. Nothing that the host sent is in the answer.",
            no_dry_run="nothing is changed",
        )
        app.add_api_route(
            "/hosts/by-id/{id}/test",
            self._test,
            methods=["POST"],
            response_model=HostTest,
            tags=["hosts"],
            **self._docs.describe(operation),
        )

    async def _test(self, entity_id: ById, key_id: HostKeyRef = None) -> Response:
        if not is_id(entity_id):
            raise EntityNotFoundError(KIND, entity_id)
        row = await self._services.store.get(KIND, entity_id)
        snapshot = self._services.live.current
        host = snapshot.hosts.get(row.id)
        if host is None:
            raise RefusedError(
                409,
                "host_not_in_use",
                f"{reason_of_absence(snapshot, row)}; there is nothing to test",
            )
        key = _key(snapshot, host, key_id)
        wait = self._pace.begin()
        if wait is not None:
            raise _too_many(wait)
        await self._services.audit.record(
            AuditEvent(
                action="test",
                kind=KIND,
                target=host.id,
                slug=host.slug,
                detail={"hostKeyId": key.id if key else None},
            )
        )
        return _answer(await self._services.prober.probe(host, key), key)


class Pace:
    """Lets a number of things happen within any minute; ``monotonic`` gives seconds."""

    def __init__(self, per_minute: int, monotonic: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._monotonic = monotonic
        self._begun: deque[float] = deque()

    def begin(self) -> float | None:
        """Counts one; or the seconds to wait before one, and nothing is counted."""
        now = self._monotonic()
        while self._begun and self._begun[0] <= now - 60:
            self._begun.popleft()
        if len(self._begun) >= self._per_minute:
            return self._begun[0] + 60 - now
        self._begun.append(now)
        return None


def _key(snapshot: Snapshot, host: Host, key_id: str | None) -> HostKey | None:
    keys = snapshot.keys_by_host.get(host.id, ())
    if key_id is None:
        return None if host.no_auth or not keys else keys[0]
    for key in keys:
        if key.id == key_id.lower():
            return key
    raise RefusedError(
        404, "not_found", f"host {host.slug!r} has no host key in use with the id {key_id!r}"
    )


def _answer(report: ProbeReport, key: HostKey | None) -> Response:
    body = HostTest(
        ok=report.ok,
        reachable=report.reachable,
        latency_ms=report.latency_ms,
        status=report.status,
        error=report.error,
        message=report.message,
        host_key_id=key.id if key else None,
    )
    return JSONResponse(body.model_dump(mode="json", by_alias=True))


def _too_many(wait: float) -> RefusedError:
    seconds = math.ceil(wait)
    return RefusedError(
        429,
        "too_many_tests",
        f"hosts were tested {TESTS_PER_MINUTE} times within a minute; try again in {seconds} s",
        headers={"Retry-After": str(seconds)},
    )
