"""``GET /metrics``: what Prometheus scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from fastapi import FastAPI
from starlette.responses import Response

from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.observe.series import Series

PATH = "/metrics"


class MetricsRoutes:
    """The one route; public where the settings say so."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the route to ``app``."""
        public = self._services.access.metrics_public
        operation = Operation(
            "getMetrics",
            "Metrics in the text format of Prometheus",
            public=public,
            description="Of all processes of this instance.",
        )
        documented = self._docs.describe(operation)
        text = {"schema": {"type": "string"}}
        documented["responses"][200] = {
            "description": "The metrics of all processes of this instance.",
            "content": {"text/plain": text},
        }
        app.add_api_route(
            PATH,
            self._metrics,
            methods=["GET"],
            response_class=Response,
            tags=["operations"],
            **documented,
        )

    async def _metrics(self) -> Response:
        # In threads, because the loop may have requests to carry: the library is loaded by who is
        # scraped only, and there may be many lines.
        write = await asyncio.to_thread(_writer)
        return await asyncio.to_thread(write, await self._services.metrics())


def _writer() -> Callable[[Iterable[Series]], Response]:
    from relay_gateway.observe.exposition import CONTENT_TYPE, render

    return lambda series: Response(render(series), headers={"content-type": CONTENT_TYPE})
