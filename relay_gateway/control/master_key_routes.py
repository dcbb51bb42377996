"""``/master-key``: a candidate for a new key, the state of those in use, and the rotation."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

import msgspec
from fastapi import FastAPI, Query
from starlette.responses import JSONResponse, Response

from relay_gateway.control.master_key import BackendKeys, MasterKeys
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.rewrap import Rewrap, RewrapReport
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import RelayError
from relay_gateway.plugin import CatalogModel
from relay_gateway.security.master_key import generate_master_key

DryRun = Annotated[
    bool, Query(alias="dryRun", description="Only tell what a rotation would begin with.")
]

logger = logging.getLogger(__name__)


class GeneratedKey(CatalogModel):
    """A candidate for ``RELAY_MASTER_KEY``; nothing is installed by making one."""

    key: str


class MasterKeyStatus(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """The master keys of every secret backend that seals with them, and the rotation that this
    instance has run since its start: how far it is, or ``error``, why it ended before its time."""

    backends: tuple[BackendKeys, ...]
    running: bool
    progress: RewrapReport | None = None
    error: str | None = None


STRUCTS = (MasterKeyStatus,)
ANSWER = "MasterKeyStatus"


class MasterKeyRoutes:
    """Three routes; the rotation goes on after its answer."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs
        self._keys = MasterKeys(services.master_keys, services.secret_backends)
        self._running: asyncio.Task[None] | None = None
        self._progress: RewrapReport | None = None
        self._error: str | None = None

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        app.add_api_route(
            "/master-key/generate",
            self._generate,
            methods=["POST"],
            response_model=GeneratedKey,
            tags=["operations"],
            **self._docs.describe(
                Operation(
                    "generateMasterKey",
                    "Make a candidate for the master key",
                    description="It is for `RELAY_MASTER_KEY`; nothing is installed.",
                    no_dry_run="nothing is stored",
                )
            ),
        )
        telling = Operation(
            "getMasterKeyStatus",
            "What is sealed with which master key",
            description="And how far a rotation of this instance is.",
        )
        app.add_api_route(
            "/master-key/status",
            self._status,
            methods=["GET"],
            tags=["operations"],
            **self._docs.describe(telling, answer=ANSWER),
        )
        rotating = Operation(
            "rotateMasterKey",
            "Seal everything with the current key",
            (409,),
            description="Begins, or goes on with what was broken off; the work continues after "
            "the answer. With `dryRun=true` only the status is told.",
        )
        documented = self._docs.describe(rotating, answer=ANSWER)
        documented["responses"][202] = documented["responses"][200]
        app.add_api_route(
            "/master-key/rotate",
            self._rotate,
            methods=["POST"],
            tags=["operations"],
            status_code=202,
            **documented,
        )

    async def _generate(self) -> Response:
        key = GeneratedKey(key=generate_master_key().reveal())
        return JSONResponse(key.model_dump(mode="json", by_alias=True))

    async def _status(self) -> Response:
        return await self._answer(200)

    async def _rotate(self, *, dry_run: DryRun = False) -> Response:
        """Begins a rotation, or goes on with one that was broken off; one that runs here goes on
        by itself."""
        rewrap = Rewrap(self._keys, self._services.master_keys, self._services.store)
        await rewrap.usable()
        if dry_run:
            return await self._answer(200)
        if self._running is None or self._running.done():
            self._progress, self._error = rewrap.report, None
            self._running = asyncio.get_running_loop().create_task(self._run(rewrap))
        return await self._answer(202)

    async def _run(self, rewrap: Rewrap) -> None:
        try:
            await rewrap.run()
            await self._services.refresh()
        except RelayError as error:
            self._error = str(error)
            logger.error("the rotation of the master key has stopped: %s", error)  # noqa: TRY400
        except Exception:
            self._error = "the rotation failed inside the gateway; its log says why"
            logger.exception("the rotation of the master key has stopped")
        else:
            logger.info("the rotation of the master key has ended: %s", _sentence(rewrap.report))

    async def _answer(self, status: int) -> Response:
        body = MasterKeyStatus(
            backends=tuple(await self._keys.status()),
            running=self._running is not None and not self._running.done(),
            progress=self._progress,
            error=self._error,
        )
        return Response(msgspec.json.encode(body), status, media_type="application/json")


def _sentence(report: RewrapReport) -> str:
    return f"{report.rewrapped} values sealed anew, {report.failed} could not be"
