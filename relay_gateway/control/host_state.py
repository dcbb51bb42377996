"""Whether a host is asked at all: its run-time state, and putting it back to use."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response

from relay_gateway.control.crud import ById
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import EntityNotFoundError
from relay_gateway.ids import is_id
from relay_gateway.plugin import CatalogModel

KIND = "host"


class HostStatus(CatalogModel):
    """Run-time state of a host on this instance; of several processes also each by itself."""

    status: dict[str, Any]


class HostStateRoutes:
    """Status and reset of one host."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        showing = Operation(
            "getHostStatus",
            "Run-time state of a host",
            (404,),
            description="As this instance sees it. `state` is `available`; `ejected`, when the "
            "host failed again and again and is left alone for `secondsLeft`; `half-open`, when "
            "that time is over and one request at a time tries it; or `partly-ejected`, when its "
            "processes differ. `ejections` counts how often in a row it was ejected.",
        )
        app.add_api_route(
            "/hosts/by-id/{id}/status",
            self._status,
            methods=["GET"],
            response_model=HostStatus,
            tags=["hosts"],
            **self._docs.describe(showing),
        )
        resetting = Operation(
            "resetHost",
            "Have an ejected host asked again",
            (404,),
            description="In every process of this instance, as if it had never failed. Its host "
            "keys keep their own states.",
            no_dry_run="nothing stored is changed",
        )
        app.add_api_route(
            "/hosts/by-id/{id}/reset",
            self._reset,
            methods=["POST"],
            response_model=HostStatus,
            tags=["hosts"],
            **self._docs.describe(resetting),
        )

    async def _status(self, entity_id: ById) -> Response:
        return await self._status_of(await self._known(entity_id))

    async def _reset(self, entity_id: ById) -> Response:
        host_id = await self._known(entity_id)
        await self._services.reset_host(host_id)
        return await self._status_of(host_id)

    async def _status_of(self, host_id: str) -> Response:
        statuses = await self._services.host_statuses([host_id])
        return JSONResponse({"status": dict(statuses[host_id])})

    async def _known(self, entity_id: str) -> str:
        if not is_id(entity_id):
            raise EntityNotFoundError(KIND, entity_id)
        row = await self._services.store.get(KIND, entity_id)
        return row.id
