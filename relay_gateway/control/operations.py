"""Operations: health, version, who am I, reload, the OpenAPI document."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response

from relay_gateway.control.application import ControlApplication
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.plugin import CatalogModel


class Version(CatalogModel):
    """The build."""

    version: str
    commit: str | None = None


class Health(CatalogModel):
    """The process answers."""

    status: Literal["ok"]


class ReadinessAnswer(CatalogModel):
    """Whether traffic should come here, and which parts do not work."""

    ready: bool
    snapshot_loaded: bool
    draining: bool
    revision: int | None = None
    degraded: dict[str, str]


class Reloaded(CatalogModel):
    """A snapshot rebuilt from the database."""

    revision: int
    entities: int
    duration_ms: float


class OperationRoutes:
    """The routes that are not about entities."""

    def __init__(
        self, services: ControlServices, docs: Documentation, app: ControlApplication
    ) -> None:
        self._services = services
        self._docs = docs
        self._app = app
        self._document: bytes | None = None
        self._documenting = asyncio.Lock()

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        routes: tuple[tuple[str, str, Any, Any, Operation], ...] = (
            ("GET", "/version", self._version, Version,
             Operation("getVersion", "Build version", public=True,
                       description="Says nothing about the machine or the configuration.")),
            ("GET", "/healthz", self._health, Health,
             Operation("getHealth", "Whether the process answers", public=True,
                       description="Nothing is asked of database or catalog: a process that "
                       "answers this should not be restarted.")),
            ("GET", "/readyz", self._readiness, ReadinessAnswer,
             Operation("getReadiness", "Whether the instance can serve", public=True,
                       description="503 while no catalog is loaded or the instance ends. A part "
                       "that does not work is under `degraded` and leaves the instance ready.")),
            ("POST", "/reload", self._reload, Reloaded,
             Operation("reload", "Rebuild the snapshot from the database",
                       description="A manual fallback: every instance follows the database by "
                       "itself.", no_dry_run="nothing stored is changed")),
            ("GET", "/openapi.json", self._openapi, dict[str, Any],
             Operation("getOpenApi", "This document",
                       description="With the models of the plugins that are installed.")),
        )  # fmt: skip
        for method, path, endpoint, model, operation in routes:
            documented = self._docs.describe(operation)
            if model is ReadinessAnswer:
                documented["responses"][503] = {
                    "model": ReadinessAnswer,
                    "description": "Not ready; the body says why.",
                }
            app.add_api_route(
                path,
                endpoint,
                methods=[method],
                response_model=model,
                tags=["operations"],
                **documented,
            )

    async def _version(self) -> Response:
        body = {"version": self._services.version}
        if self._services.commit:
            body["commit"] = self._services.commit
        return JSONResponse(body)

    async def _health(self) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readiness(self) -> Response:
        readiness = self._services.readiness()
        body = ReadinessAnswer(
            ready=readiness.ready,
            snapshot_loaded=readiness.snapshot_loaded,
            draining=readiness.draining,
            revision=readiness.revision,
            degraded=dict(readiness.degraded),
        )
        return _answer(body, 200 if readiness.ready else 503)

    async def _reload(self) -> Response:
        report = await self._services.reload()
        return _answer(
            Reloaded(
                revision=report.revision,
                entities=report.entities,
                duration_ms=report.duration_ms,
            )
        )

    async def _openapi(self) -> Response:
        async with self._documenting:
            if self._document is None:
                # It takes a third of a second, in which callers of both planes would wait.
                self._document = await asyncio.to_thread(self._make_document)
        return Response(self._document, media_type="application/json")

    def _make_document(self) -> bytes:
        return bytes(JSONResponse(self._docs.build(self._app)).body)


def _answer(body: CatalogModel, status: int = 200) -> Response:
    return JSONResponse(body.model_dump(mode="json", by_alias=True), status)
