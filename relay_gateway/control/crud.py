"""One router for all kinds: list, read, references, create, replace, delete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from fastapi import FastAPI, Header, Path, Query, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response

from relay_gateway.catalog import patterns
from relay_gateway.control.bodies import read_object
from relay_gateway.control.entities import (
    DRY_RUN_HEADER,
    Deleted,
    EntityForms,
    ReferrerList,
    entity_response,
    shown,
)
from relay_gateway.control.lists import MAX_VALUES, STORABLE, list_parameters, read_listing
from relay_gateway.control.naming import class_name
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.rules import KindRules
from relay_gateway.control.services import ControlServices
from relay_gateway.control.writes import EntityWriter, Terms
from relay_gateway.storage import InvalidCursorError

MAX_LIMIT = 1000
MAX_CURSOR = 8192
CURSOR = "`nextCursor` of the page before; only with the same filters and order"
SEARCH = "part of display name, slug, description, model name or alias, in any case"
ById = Annotated[
    str,
    Path(
        alias="id",
        description="The id; slugs are not taken here.",
        json_schema_extra=patterns.ID,
    ),
]
ByRef = Annotated[
    str,
    Path(alias="ref", description="The id or the slug.", json_schema_extra={"examples": ["acme"]}),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="Version that the write expects to replace; 412 when it is another one.",
        json_schema_extra={"pattern": r'^(?:\*|"[0-9]{1,10}"|[0-9]{1,10})$'},
    ),
]
DryRun = Annotated[
    bool, Query(alias="dryRun", description="Check and answer as always, but write nothing.")
]
Force = Annotated[
    bool, Query(description="Also when the entity is managed by files; 409 without it.")
]
Rebind = Annotated[
    bool,
    Query(
        alias="confirmRebind",
        description="Confirms that credentials of host keys are to be sent elsewhere; 409 names "
        "those that would be.",
    ),
]
CreateKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="With the same key and body, a create is made once and answered the same for "
        "24 hours.",
        json_schema_extra={"pattern": "^[!-~]{1,255}$"},
    ),
]
Label = Annotated[str, Field(json_schema_extra={"pattern": "^[^=\\u0000]+=[^\\u0000]*$"})]
Labels = Annotated[
    Sequence[Label],
    Query(
        description="`name=value`, repeatable: all of them must be there",
        json_schema_extra={"maxItems": MAX_VALUES},
    ),
]
DRY_RUN_TEXT = "With `dryRun=true` all checks are made and nothing is written."
_EFFECT = "It is in force on this instance when it is answered, on the others within a second."
_ONCE = "The plaintext is in this answer and never again."
TEXTS: Mapping[str, str] = {
    "list": "One page, with the number of all that match. Filters on different fields must all "
    "hold; of several values of one filter any may. Follow `nextCursor` for more.",
    "get": "The `ETag` is what `If-Match` of a write takes.",
    "listReferencesTo": "What would have to change before it can be deleted.",
    "create": "The server sets id, version and times, and makes a slug of the display name where "
    f"none is given. {DRY_RUN_TEXT} {_EFFECT}",
    "replace": "Replaces the spec and the metadata that is a client's; fields left out have their "
    "defaults again. What a read showed may be sent back as it is. `If-Match`, or "
    f"`metadata.version` in the body, keeps an update from being lost. {DRY_RUN_TEXT} {_EFFECT}",
    "delete": "Refused with 409 and the referrers while anything refers to it. "
    f"{DRY_RUN_TEXT} {_EFFECT}",
    "issue": f"{_ONCE} With an `Idempotency-Key`, the repetition of a create answers the same key "
    f"without its plaintext. {DRY_RUN_TEXT} {_EFFECT}",
    "reissue": f"{_ONCE} The old one is valid for `graceSeconds` more. {DRY_RUN_TEXT} {_EFFECT}",
    "rotate": f"The new value is used from now on; the old one is gone. {DRY_RUN_TEXT} {_EFFECT}",
    "revoke": "Ends the key and every former plaintext, for good; doing it again changes nothing. "
    f"{DRY_RUN_TEXT} {_EFFECT}",
}
"""What the operations of a kind do, in sentences."""


class EntityRoutes:
    """The routes of one kind. ``creates`` is false where the kind has a create of its own."""

    def __init__(
        self,
        services: ControlServices,
        docs: Documentation,
        rules: KindRules,
        *,
        creates: bool = True,
    ) -> None:
        self.rules = rules
        self.forms = EntityForms(rules)
        self.writer = EntityWriter(services, rules, self.forms)
        self._store = services.store
        self._docs = docs
        self._creates = creates
        self._path = f"/{rules.kind.plural}"

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        self._add_reads(app)
        self._add_writes(app)

    def operation(self, verb: str, summary: str, *errors: int) -> Operation:
        """How an operation of this kind is documented."""
        kind = self.rules.kind.name
        return Operation(
            f"{verb}{class_name(kind)}", summary.format(kind), errors, description=TEXTS[verb]
        )

    def _add_reads(self, app: FastAPI) -> None:
        plural = class_name(self.rules.kind.plural)
        listing = Operation(
            f"list{plural}", f"List {self.rules.kind.plural}", description=TEXTS["list"]
        )
        documented = self._docs.describe(listing)
        documented["openapi_extra"]["parameters"] = list_parameters(self.rules.kind)
        app.add_api_route(
            self._path,
            self._list,
            methods=["GET"],
            response_model=self.forms.page,
            tags=[self.rules.kind.plural],
            **documented,
        )
        reading = self.operation("get", "Read one {} by id or slug", 404)
        app.add_api_route(
            f"{self._path}/{{ref}}",
            self._get,
            methods=["GET"],
            response_model=self.forms.entity,
            tags=[self.rules.kind.plural],
            **self._docs.describe(reading, versioned=200),
        )
        referring = self.operation("listReferencesTo", "List who refers to a {}", 404)
        app.add_api_route(
            f"{self._path}/{{ref}}/references",
            self._references,
            methods=["GET"],
            response_model=ReferrerList,
            tags=[self.rules.kind.plural],
            **self._docs.describe(referring),
        )

    def _add_writes(self, app: FastAPI) -> None:
        if self._creates:
            creating = self.operation("create", "Create a {}", 400, 409, 413, 415, 422)
            app.add_api_route(
                self._path,
                self._create,
                methods=["POST"],
                status_code=201,
                response_model=self.forms.entity,
                tags=[self.rules.kind.plural],
                **self._docs.describe(creating, body=self.forms.documented_create, versioned=201),
            )
        replacing = self.operation("replace", "Replace a {}", 400, 404, 409, 412, 413, 415, 422)
        app.add_api_route(
            f"{self._path}/by-id/{{id}}",
            self._rebind if self.rules.redirects else self._replace,
            methods=["PUT"],
            response_model=self.forms.entity,
            tags=[self.rules.kind.plural],
            **self._docs.describe(replacing, body=self.forms.documented_update, versioned=200),
        )
        deleting = self.operation("delete", "Delete a {}", 400, 404, 409, 412)
        app.add_api_route(
            f"{self._path}/by-id/{{id}}",
            self._delete,
            methods=["DELETE"],
            response_model=Deleted,
            tags=[self.rules.kind.plural],
            **self._docs.describe(deleting),
        )

    async def _list(
        self,
        request: Request,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        cursor: Annotated[str | None, Query(max_length=MAX_CURSOR, description=CURSOR)] = None,
        q: Annotated[
            str, Query(max_length=200, description=SEARCH, json_schema_extra=STORABLE)
        ] = "",
        label: Labels = (),
    ) -> Response:
        kind = self.rules.kind
        listing = read_listing(kind, request.query_params, q, label)
        try:
            page = await self._store.page(kind.name, limit=limit, cursor=cursor, listing=listing)
        except InvalidCursorError as error:
            raise RefusedError(400, "invalid_parameter", f"cursor: {error}") from error
        items = await shown(page.items, self.rules)
        following = {"nextCursor": page.next_cursor} if page.next_cursor else {}
        body = msgspec.json.encode({"items": items, "total": page.total, **following})
        return Response(body, media_type="application/json")

    async def _get(self, ref: ByRef) -> Response:
        row = await self._store.get(self.rules.kind.name, ref)
        return await entity_response(row, self.rules)

    async def _references(self, ref: ByRef) -> Response:
        found = await self._store.referrers(self.rules.kind.name, ref)
        items = [
            {"kind": item.kind, "id": item.id, "slug": item.slug, "field": item.field}
            for item in found
        ]
        return JSONResponse({"items": items})

    async def _create(
        self, request: Request, *, dry_run: DryRun = False, key: CreateKeyHeader = None
    ) -> Response:
        check_create_key(key)
        terms = Terms(dry_run=dry_run)
        made = await self.writer.create(await read_object(request), terms, key=key)
        return await entity_response(
            made.row, self.rules, 201, dry_run=dry_run, replayed=made.replayed
        )

    async def _replace(
        self,
        request: Request,
        entity_id: ById,
        *,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> Response:
        return await self._rebind(
            request, entity_id, if_match=if_match, dry_run=dry_run, force=force
        )

    async def _rebind(
        self,
        request: Request,
        entity_id: ById,
        *,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
        force: Force = False,
        rebind: Rebind = False,
    ) -> Response:
        terms = Terms(
            dry_run=dry_run, expected=parse_version(if_match), forced=force, rebind=rebind
        )
        row = await self.writer.replace(entity_id, await read_object(request), terms)
        return await entity_response(row, self.rules, dry_run=dry_run)

    async def _delete(
        self,
        entity_id: ById,
        *,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> Response:
        terms = Terms(dry_run=dry_run, expected=parse_version(if_match), forced=force)
        row = await self.writer.delete(entity_id, terms)
        headers = {DRY_RUN_HEADER: "true"} if dry_run else {}
        return JSONResponse({"deleted": True, "id": row.id}, headers=headers)


def check_create_key(key: str | None) -> None:
    """Raises :class:`RefusedError` (400) for an ``Idempotency-Key`` that is none."""
    if key is not None and not re.fullmatch(r"[!-~]{1,255}", key):
        raise RefusedError(
            400, "invalid_parameter", "Idempotency-Key: must be 1 to 255 visible ASCII characters"
        )


def parse_version(if_match: str | None) -> int | None:
    """The version in an ``If-Match`` header, with or without quotes; ``*`` matches any.

    Raises :class:`RefusedError` (400) for anything else.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().strip('"')
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise RefusedError(
            400, "invalid_parameter", "If-Match: must be one version, for example 3, or *"
        )
    return int(text)
