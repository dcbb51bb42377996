"""``GET /instances``: all gateways on this database, what each serves and when it was last heard
of."""

from __future__ import annotations

import msgspec
from fastapi import FastAPI
from starlette.responses import Response

from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.control.usage_answers import answer_with
from relay_gateway.pipeline.settle import timestamp
from relay_gateway.storage import KnownInstance, KnownInstances

SILENT_SECONDS = 30.0
"""A process that was not heard of for so long is silent."""
LAGGING_SECONDS = 15.0
"""A process that lacks the newest revision for so long is lagging."""
MOST = 1000
"""Of so many processes at most something is said."""


class InstanceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One process of a gateway, as it said last. ``gateway`` is the name of its machine and the
    port of its inference plane, ``instance`` what usage records call the process.

    ``state`` is ``ready``, ``degraded`` (a part does not work; ``degraded`` says which and why),
    ``not-ready`` (it has no catalog to serve) or ``draining``. ``lagRevisions`` says how far it is
    behind the newest revision, and ``lagSeconds`` for how long at most; they and ``revision`` are
    ``null`` without a catalog. ``lagging`` means for more than 15 s, ``silent`` that nothing was
    heard of it for more than 30 s. Times are by the clock of the database.
    """

    gateway_id: str
    gateway: str
    process: str
    instance: str
    this_gateway: bool
    version: str
    state: str
    degraded: dict[str, str]
    revision: int | None
    lag_revisions: int | None
    lag_seconds: float | None
    lagging: bool
    silent: bool
    seen_seconds_ago: float
    last_seen_at: str
    started_at: str
    applied_at: str | None


class InstanceList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All processes that were heard of within a day and did not say good-bye, by gateway."""

    newest_revision: int
    items: tuple[InstanceView, ...]


STRUCTS = (InstanceList,)


class InstanceRoutes:
    """The route that shows who is there."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the route to ``app``."""
        operation = Operation(
            "listInstances",
            "List the gateways on this database",
            description="Each of their processes with the catalog revision that it serves, how far "
            "that is behind, and when it was last heard of. A process gives a sign of life every "
            "5 s, and within a second when its revision or its readiness changes; one that ends in "
            "order is listed no more, one that only falls silent for a day, or until another "
            "gateway has taken its name.",
        )
        app.add_api_route(
            "/instances",
            self._list,
            methods=["GET"],
            tags=["operations"],
            **self._docs.describe(operation, answer=InstanceList.__name__),
        )

    async def _list(self) -> Response:
        found = await self._services.instances.known(MOST)
        ordered = sorted(found.known, key=_place)
        items = tuple(_view(one, found, self._services.gateway_id) for one in ordered)
        return answer_with(InstanceList(newest_revision=found.newest, items=items))


def _place(one: KnownInstance) -> tuple[str, str, int, str]:
    # Of its workers the tenth after the second.
    return one.gateway, one.gateway_id, len(one.process), one.process


def _view(one: KnownInstance, among: KnownInstances, own: str) -> InstanceView:
    seen_ago = _seconds(one.seen_at, among.now)
    behind = None if one.revision is None else max(0, among.newest - one.revision)
    behind_for = 0.0 if behind == 0 else _seconds(one.current_at, among.now)
    return InstanceView(
        gateway_id=one.gateway_id,
        gateway=one.gateway,
        process=one.process,
        instance=one.instance,
        this_gateway=one.gateway_id == own,
        version=one.version,
        state=one.state,
        degraded=dict(one.degraded),
        revision=one.revision,
        lag_revisions=behind,
        lag_seconds=None if behind is None else behind_for,
        lagging=bool(behind) and behind_for > LAGGING_SECONDS,
        silent=seen_ago > SILENT_SECONDS,
        seen_seconds_ago=seen_ago,
        last_seen_at=_moment(one.seen_at),
        started_at=_moment(one.started_at),
        applied_at=None if one.applied_at is None else _moment(one.applied_at),
    )


def _seconds(since: int, now: int) -> float:
    return max(0, now - since) / 1000


def _moment(milliseconds: int) -> str:
    return timestamp(milliseconds * 1_000_000)
