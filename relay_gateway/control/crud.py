"""One router for all kinds: list, read, references, create, replace, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response

from relay_gateway.control.bodies import read_object
from relay_gateway.control.entities import (
    Deleted,
    EntityForms,
    ReferrerList,
    entity_response,
    to_json,
)
from relay_gateway.control.naming import class_name
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.rules import KindRules
from relay_gateway.control.services import ControlServices
from relay_gateway.control.writes import EntityWriter
from relay_gateway.storage.catalog import InvalidCursorError

MAX_LIMIT = 1000
ById = Annotated[str, Path(alias="id", description="The id; slugs are not taken here.")]
IfMatch = Annotated[
    str | None,
    Header(description="Version that the write expects to replace; 412 when it is another one."),
]


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
        return Operation(f"{verb}{class_name(kind)}", summary.format(kind), errors)

    def _add_reads(self, app: FastAPI) -> None:
        plural = class_name(self.rules.kind.plural)
        listing = Operation(f"list{plural}", f"List {self.rules.kind.plural}", (400,))
        app.add_api_route(
            self._path,
            self._list,
            methods=["GET"],
            response_model=self.forms.page,
            tags=[self.rules.kind.plural],
            **self._docs.describe(listing),
        )
        reading = self.operation("get", "Read one {} by id or slug", 404)
        app.add_api_route(
            f"{self._path}/{{ref}}",
            self._get,
            methods=["GET"],
            response_model=self.forms.entity,
            tags=[self.rules.kind.plural],
            **self._docs.describe(reading),
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
                **self._docs.describe(creating, body=self.forms.documented_create),
            )
        replacing = self.operation("replace", "Replace a {}", 400, 404, 409, 412, 413, 415, 422)
        app.add_api_route(
            f"{self._path}/by-id/{{id}}",
            self._replace,
            methods=["PUT"],
            response_model=self.forms.entity,
            tags=[self.rules.kind.plural],
            **self._docs.describe(replacing, body=self.forms.documented_update),
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
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        cursor: Annotated[str | None, Query(max_length=64)] = None,
    ) -> Response:
        try:
            page = await self._store.page(self.rules.kind.name, limit=limit, cursor=cursor)
        except InvalidCursorError as error:
            raise RefusedError(400, "invalid_parameter", f"cursor: {error}") from error
        items = [to_json(row, self.rules) for row in page.items]
        following = {"nextCursor": page.next_cursor} if page.next_cursor else {}
        return JSONResponse({"items": items, "total": page.total, **following})

    async def _get(self, ref: str) -> Response:
        row = await self._store.get(self.rules.kind.name, ref)
        return entity_response(row, self.rules)

    async def _references(self, ref: str) -> Response:
        found = await self._store.referrers(self.rules.kind.name, ref)
        items = [
            {"kind": item.kind, "id": item.id, "slug": item.slug, "field": item.field}
            for item in found
        ]
        return JSONResponse({"items": items})

    async def _create(self, request: Request) -> Response:
        row = await self.writer.create(await read_object(request))
        return entity_response(row, self.rules, 201)

    async def _replace(
        self, request: Request, entity_id: ById, if_match: IfMatch = None
    ) -> Response:
        expected = parse_version(if_match)
        row = await self.writer.replace(entity_id, await read_object(request), expected)
        return entity_response(row, self.rules)

    async def _delete(self, entity_id: ById, if_match: IfMatch = None) -> Response:
        row = await self.writer.delete(entity_id, parse_version(if_match))
        return JSONResponse({"deleted": True, "id": row.id})


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
