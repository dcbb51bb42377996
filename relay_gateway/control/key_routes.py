"""What relay keys and host keys can do besides being stored: rotate, revoke, status, reset."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Request
from msgspec.structs import replace
from pydantic import Field, create_model
from starlette.responses import JSONResponse, Response

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.specs import RelayKeySpec
from relay_gateway.control import relay_keys
from relay_gateway.control.bodies import read_object, validate
from relay_gateway.control.crud import (
    TEXTS,
    ById,
    CreateKeyHeader,
    DryRun,
    EntityRoutes,
    Force,
    IfMatch,
    check_create_key,
    parse_version,
)
from relay_gateway.control.entities import entity_response, shown, write_headers
from relay_gateway.control.host_keys import HostKeyRules
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.rules import Prepared
from relay_gateway.control.services import ControlServices
from relay_gateway.control.writes import Made, Terms, check_manager
from relay_gateway.errors import EntityNotFoundError, InvalidEntityError
from relay_gateway.ids import is_id
from relay_gateway.plugin import CatalogModel
from relay_gateway.security.relay_keys import MintedKey, mint_relay_key
from relay_gateway.storage import EntityChange

MAX_GRACE_SECONDS = 31_622_400


class RotateRelayKey(CatalogModel):
    """How long the old plaintext stays valid, in seconds."""

    grace_seconds: Annotated[int, Field(ge=0, le=MAX_GRACE_SECONDS)] = 0


class RotateHostKey(CatalogModel):
    """The new ``valueFrom`` of a host key."""

    value_from: dict[str, Any]


class HostKeyStatus(CatalogModel):
    """Run-time state of a host key on this instance: where its credential is from, how old it is,
    when it is fetched again, what went wrong last; of several processes also each by itself."""

    status: dict[str, Any]


class RelayKeyRoutes:
    """Create with the plaintext shown once, rotate, revoke."""

    def __init__(
        self, services: ControlServices, docs: Documentation, entities: EntityRoutes
    ) -> None:
        self._services = services
        self._docs = docs
        self._entities = entities
        self._writer = entities.writer

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        issued = _issued_model(self._entities.forms.entity)
        creating = replace(
            self._entities.operation("create", "Create a {}", 409, 413, 415, 422),
            description=TEXTS["issue"],
        )
        app.add_api_route(
            "/relay-keys",
            self._create,
            methods=["POST"],
            status_code=201,
            response_model=issued,
            tags=["relay-keys"],
            **self._docs.describe(
                creating, body=self._entities.forms.documented_create, versioned=201
            ),
        )
        rotating = replace(
            self._entities.operation(
                "rotate", "Give a {} a new plaintext", 404, 412, 413, 415, 422
            ),
            description=TEXTS["reissue"],
        )
        app.add_api_route(
            "/relay-keys/by-id/{id}/rotate",
            self._rotate,
            methods=["POST"],
            response_model=issued,
            tags=["relay-keys"],
            **self._docs.describe(rotating, body=RotateRelayKey, optional_body=True, versioned=200),
        )
        app.add_api_route(
            "/relay-keys/by-id/{id}/revoke",
            self._revoke,
            methods=["POST"],
            response_model=self._entities.forms.entity,
            tags=["relay-keys"],
            **self._docs.describe(
                self._entities.operation("revoke", "End a {} at once", 400, 404, 412),
                versioned=200,
            ),
        )

    async def _create(
        self, request: Request, *, dry_run: DryRun = False, key: CreateKeyHeader = None
    ) -> Response:
        check_create_key(key)
        minted = mint_relay_key()

        async def prepare(_id: str, spec: RelayKeySpec) -> Prepared:
            return relay_keys.issued(spec, minted)

        made = await self._writer.create(
            await read_object(request), Terms(dry_run=dry_run), key=key, prepare=prepare
        )
        if dry_run or made.replayed:
            return await self._withheld(made, 201, dry_run=dry_run)
        return await self._issued(minted, made.row, 201)

    async def _rotate(
        self,
        request: Request,
        entity_id: ById,
        *,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Response:
        body, problems = validate(RotateRelayKey, await read_object(request, optional=True))
        if body is None:
            raise InvalidEntityError(problems)
        minted = mint_relay_key()
        grace = body.grace_seconds

        async def change(row: EntityRow) -> EntityChange:
            return relay_keys.rotate(row, minted, grace, relay_keys.utc_now())

        terms = Terms(dry_run=dry_run, expected=parse_version(if_match))
        row = await self._writer.amend(entity_id, change, terms)
        if dry_run:
            return await self._withheld(Made(row), 200, dry_run=True)
        return await self._issued(minted, row, 200)

    async def _revoke(
        self, entity_id: ById, *, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> Response:
        async def change(row: EntityRow) -> EntityChange:
            return relay_keys.revoke(row, relay_keys.utc_now())

        terms = Terms(dry_run=dry_run, expected=parse_version(if_match))
        row = await self._writer.amend(entity_id, change, terms)
        return await entity_response(row, self._entities.rules, dry_run=dry_run)

    async def _issued(self, minted: MintedKey, row: EntityRow, status: int) -> Response:
        (shown_key,) = await shown([row], self._entities.rules)
        body = {"plaintext": minted.plaintext.reveal(), "relayKey": shown_key}
        return JSONResponse(body, status, headers=write_headers(row))

    async def _withheld(self, made: Made, status: int, *, dry_run: bool) -> Response:
        """Without the plaintext: it was shown before, or there is none."""
        row = relay_keys.unissued(made.row) if dry_run else made.row
        headers = write_headers(row, dry_run=dry_run, replayed=made.replayed)
        (shown_key,) = await shown([row], self._entities.rules)
        return JSONResponse({"relayKey": shown_key}, status, headers)


class HostKeyRoutes:
    """Rotate to another value, run-time status, reset."""

    def __init__(
        self,
        services: ControlServices,
        docs: Documentation,
        entities: EntityRoutes,
        rules: HostKeyRules,
    ) -> None:
        self._services = services
        self._docs = docs
        self._entities = entities
        self._rules = rules

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        rotating = self._entities.operation(
            "rotate", "Give a {} another value", 400, 404, 409, 412, 413, 415, 422
        )
        app.add_api_route(
            "/host-keys/by-id/{id}/rotate",
            self._rotate,
            methods=["POST"],
            response_model=self._entities.forms.entity,
            tags=["host-keys"],
            **self._docs.describe(rotating, body=_rotate_model(self._rules), versioned=200),
        )
        showing = Operation(
            "getHostKeyStatus",
            "Run-time state of a host key",
            (404,),
            description="As this instance sees it: others may have benched it, or not. `models` "
            "are those for which alone it is left out, `host` says whether its host is left alone "
            "(`ejected`), tried by one request (`half-open`) or `available`.",
        )
        app.add_api_route(
            "/host-keys/by-id/{id}/status",
            self._status,
            methods=["GET"],
            response_model=HostKeyStatus,
            tags=["host-keys"],
            **self._docs.describe(showing),
        )
        resetting = Operation(
            "resetHostKey",
            "Put a benched host key back to use",
            (404,),
            description="In every process of this instance. Its credential is asked for at once, "
            "and its host is tried again at once, too, if it was left alone for its failures.",
            no_dry_run="nothing stored is changed",
        )
        app.add_api_route(
            "/host-keys/by-id/{id}/reset",
            self._reset,
            methods=["POST"],
            response_model=HostKeyStatus,
            tags=["host-keys"],
            **self._docs.describe(resetting),
        )

    async def _rotate(
        self,
        request: Request,
        entity_id: ById,
        *,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> Response:
        data = await read_object(request)
        body, problems = validate(RotateHostKey, data)
        if body is None:
            raise InvalidEntityError(problems)

        terms = Terms(dry_run=dry_run, expected=parse_version(if_match), forced=force)

        async def change(row: EntityRow) -> EntityChange:
            check_manager(row, terms)
            prepared = await self._rules.rotate(data, row)
            return EntityChange(
                display_name=row.display_name,
                description=row.description,
                labels=row.labels,
                spec=prepared.spec,
                sealed=prepared.sealed,
            )

        row = await self._entities.writer.amend(entity_id, change, terms)
        return await entity_response(row, self._entities.rules, dry_run=dry_run)

    async def _status(self, entity_id: ById) -> Response:
        row = await self._row(entity_id)
        return await self._status_of(row.id)

    async def _reset(self, entity_id: ById) -> Response:
        row = await self._row(entity_id)
        await self._services.reset_host_key(row.id)
        return await self._status_of(row.id)

    async def _status_of(self, entity_id: str) -> Response:
        statuses = await self._services.host_key_statuses([entity_id])
        return JSONResponse({"status": dict(statuses[entity_id])})

    async def _row(self, entity_id: str) -> EntityRow:
        if not is_id(entity_id):
            raise EntityNotFoundError("host key", entity_id)
        return await self._services.store.get("host key", entity_id)


def _issued_model(entity: Any) -> Any:
    return create_model(
        "IssuedRelayKey",
        __base__=CatalogModel,
        __doc__="A relay key with its plaintext, which no other answer ever shows; a dry run and "
        "the repeat of a create have none.",
        plaintext=(str | None, None),
        relay_key=(entity, ...),
    )


def _rotate_model(rules: HostKeyRules) -> Any:
    field = rules.documented_input.model_fields["value_from"]
    return create_model(
        "RotateHostKey",
        __base__=RotateHostKey,
        __doc__=RotateHostKey.__doc__,
        value_from=(field.rebuild_annotation(), ...),
    )
