"""``GET /catalog/resolve``: how a request would be routed, or who may use a model at all."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Query
from starlette.responses import Response

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.fields import list_fields
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.snapshot import Model, PresentedKey, Snapshot
from relay_gateway.catalog.values import MAX_MODEL_NAME
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import EntityNotFoundError, RequestRefusedError
from relay_gateway.ids import is_id
from relay_gateway.pipeline.explain import Question, users_of
from relay_gateway.pipeline.explanation import Explanation, LeftOut, Users
from relay_gateway.pipeline.route import find
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.storage import Listing

MAX_LIMIT = 100
_KEY = "relay key"
_MODEL = "model"


class Resolution(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """With a relay key: what becomes of its request. Without one: who may use the model.

    ``deprecated`` is what the catalog says of the end of the model.
    """

    explanation: Explanation | None = None
    users: Users | None = None
    deprecated: dict[str, Any] | None = None


STRUCTS = (Resolution,)

ModelName = Annotated[
    str, Query(min_length=1, max_length=MAX_MODEL_NAME, description="as callers name it")
]
KeyRef = Annotated[
    str | None,
    Query(alias="relayKeyId", max_length=63, description="id or slug; without it: who may use it"),
]
EndpointName = Annotated[
    str | None,
    Query(
        max_length=256, description="name or path; by default one that the model can be asked at"
    ),
]
FormatName = Annotated[
    str | None, Query(alias="wireFormat", max_length=128, description="instead of an endpoint")
]
HostSlug = Annotated[
    str | None, Query(max_length=63, description="slug of the host that the request would pin")
]
ClientIp = Annotated[
    str | None,
    Query(alias="clientIp", max_length=64, description="by default one that the key allows"),
]


class ResolveRoutes:
    """The one route. It reads the snapshot that requests are routed by, and calls nothing."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._store = services.store
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the route to ``app``."""
        operation = Operation(
            "resolveModel",
            "Explain how a request would be routed",
            (400, 404),
            description="Step by step, or why it would be refused, by the code that routes "
            "requests; nothing is called. Without a relay key: which policies grant the model.",
        )
        app.add_api_route(
            "/catalog/resolve",
            self._resolve,
            methods=["GET"],
            tags=["operations"],
            **self._docs.describe(operation, answer="Resolution"),
        )

    async def _resolve(
        self,
        model: ModelName,
        key: KeyRef = None,
        endpoint: EndpointName = None,
        wire_format: FormatName = None,
        host: HostSlug = None,
        client_ip: ClientIp = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 25,
        cursor: Annotated[str | None, Query(max_length=36)] = None,
    ) -> Response:
        snapshot = self._snapshot()
        if key is None:
            return await self._users(snapshot, model, host, limit, _checked_cursor(cursor))
        row = await self._store.get(_KEY, key)
        found = presented_key(snapshot, row)
        question = Question(
            model=model,
            served=self._served(snapshot, model, endpoint, wire_format),
            slug=row.slug,
            key=found.key if found is not None else None,
            unknown="" if found is not None else _absence(snapshot, row),
            pin=host,
            address=_checked_address(client_ip),
        )
        explanation = await self._services.explainer.explain(snapshot, question)
        meant, _ = snapshot.find_model(model)
        entity = await self._model_row(snapshot, model)
        left_out = tuple(await self._left_out(snapshot, entity, meant)) if entity else ()
        return _answer(
            Resolution(
                explanation=msgspec.structs.replace(explanation, left_out=left_out),
                deprecated=entity.spec.get("deprecated") if entity else None,
            )
        )

    async def _users(
        self, snapshot: Snapshot, name: str, host: str | None, limit: int, after: str
    ) -> Response:
        try:
            model, _ = find(snapshot, name, host)
        except RequestRefusedError as error:
            raise RefusedError(404, "not_found", error.message) from error
        users = await asyncio.to_thread(users_of, snapshot, model, after, limit)
        row = await self._model_row(snapshot, name)
        return _answer(
            Resolution(users=users, deprecated=row.spec.get("deprecated") if row else None)
        )

    def _snapshot(self) -> Snapshot:
        live = self._services.live
        if not live.serves:
            raise RefusedError(
                503,
                "not_ready",
                "there is no catalog to explain yet; GET /readyz says why",
                headers={"Retry-After": "1"},
            )
        return live.current

    def _served(
        self, snapshot: Snapshot, model: str, endpoint: str | None, wire_format: str | None
    ) -> ServedEndpoint:
        """The endpoint that is asked about; without any, one whose format a host of the model
        speaks."""
        endpoints = self._services.endpoints
        if endpoint is not None or wire_format is not None:
            for served in endpoints:
                named = endpoint in (None, served.endpoint.name, served.endpoint.path)
                if named and wire_format in (None, served.wire_format.name):
                    return served
            known = ", ".join(
                sorted(f"{e.endpoint.name} ({e.wire_format.name})" for e in endpoints)
            )
            raise RefusedError(
                400, "invalid_parameter", f"no such endpoint is served; there are: {known}"
            )
        found, _ = snapshot.find_model(model)
        spoken = {name for one in (found.bindings if found else ()) for name in one.wire_formats}
        for served in endpoints:
            if served.wire_format.name in spoken:
                return served
        return endpoints[0]

    async def _model_row(self, snapshot: Snapshot, name: str) -> EntityRow | None:
        """What the catalog has under this name, be it of use to requests or not."""
        found, _ = snapshot.find_model(name)
        if found is not None:
            try:
                return await self._store.get(_MODEL, found.id)
            except EntityNotFoundError:
                return None
        listing = Listing(filters=((list_fields(KINDS[_MODEL])["name"], [name]),))
        page = await self._store.page(_MODEL, limit=1, listing=listing)
        return page.items[0] if page.items else None

    async def _left_out(
        self, snapshot: Snapshot, row: EntityRow, model: Model | None
    ) -> list[LeftOut]:
        """Bindings of the model that the snapshot does not have, and why."""
        served = {one.host.id for one in model.bindings} if model is not None else set()
        reason = None if model is not None else reason_of_absence(snapshot, row)
        left_out = []
        for binding in row.spec.get("bindings", ()):
            host_id = str(binding.get("hostId"))
            if host_id in served:
                continue
            host = await self._store.get("host", host_id)
            why = reason or reason_of_absence(snapshot, host)
            left_out.append(
                LeftOut(
                    host.slug, "the binding is disabled" if binding.get("enabled") is False else why
                )
            )
        return left_out


def presented_key(snapshot: Snapshot, row: EntityRow) -> PresentedKey | None:
    """What a caller with the present plaintext of the relay key in ``row`` is taken for."""
    digest = row.sealed.get("digest")
    return snapshot.relay_keys.get(bytes.fromhex(digest)) if isinstance(digest, str) else None


def _absence(snapshot: Snapshot, row: EntityRow) -> str:
    """Why no request can come with the relay key in ``row``."""
    revoked = row.spec.get("revokedAt")
    if revoked is not None:
        return f"the key was revoked at {revoked}"
    return reason_of_absence(snapshot, row)


def reason_of_absence(snapshot: Snapshot, row: EntityRow) -> str:
    """Why the entity in ``row`` is not part of ``snapshot``."""
    if row.spec.get("enabled") is False:
        return f"the {row.kind} {row.slug!r} is disabled"
    for bad in snapshot.quarantined:
        if bad.id == row.id:
            return f"the {row.kind} {row.slug!r} is left out: {bad.reason}"
    return f"the {row.kind} {row.slug!r} is not part of the catalog of revision {snapshot.revision}"


def _checked_address(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise RefusedError(
            400, "invalid_parameter", "clientIp: must be an IPv4 or IPv6 address"
        ) from error


def _checked_cursor(cursor: str | None) -> str:
    if cursor is not None and not is_id(cursor):
        raise RefusedError(
            400, "invalid_parameter", "cursor: is not one that a page of this list ended with"
        )
    return cursor or ""


def _answer(body: Resolution) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
