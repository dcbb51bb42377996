"""The OpenAPI document: what FastAPI knows of the routes, with the bodies that plugins define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from relay_gateway.control.application import ControlApplication
from relay_gateway.control.openapi_answers import ERROR, add_answers
from relay_gateway.control.openapi_examples import add_examples
from relay_gateway.control.openapi_links import add_links
from relay_gateway.control.openapi_schemas import tidy_parameters, tidy_schemas
from relay_gateway.control.problems import ErrorAnswer

COMPONENTS = "#/components/schemas/"
SCHEMES = {
    "adminBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The admin token, `RELAY_ADMIN_TOKEN`.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "relay_session",
        "description": "The cookie that `POST /auth/login` sets. Requests that change something "
        "must then come from a page of the same origin, or of one in `RELAY_CORS_ORIGINS`.",
    },
}
_FAILED = {"content": {"application/json": {"schema": {"$ref": ERROR}}}}
SECURITY: list[dict[str, list[str]]] = [{"adminBearer": []}, {"session": []}]
DESCRIPTION = """\
Every body is JSON in UTF-8 and every time RFC 3339 in UTC. Field names are camelCase; one that is
not known is an error, and so is a query parameter that is not known. Errors have one form:
`{"error": {"code", "message"}}`, with `fields` where fields are at fault and `referrers` where
other entities stand in the way.
"""
_VERSION = {
    "description": "The version, for `If-Match`.",
    "required": True,
    "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
}
_FLAG = {"type": "string", "const": "true"}
_REPLAYED = {"description": "Stands there when an earlier request created it.", "schema": _FLAG}


class Operation(msgspec.Struct, frozen=True):
    """How a route is documented.

    ``errors`` are statuses besides those that every route has. ``no_dry_run`` says of a route that
    changes something why it takes no ``dryRun``.
    """

    id: str
    summary: str
    errors: Sequence[int] = ()
    public: bool = False
    description: str = ""
    no_dry_run: str = ""

    @property
    def text(self) -> str:
        """The whole description."""
        reason = f"There is no dry run: {self.no_dry_run}." if self.no_dry_run else ""
        return " ".join(part for part in (self.description, reason) if part)


class Documentation:
    """Collects how routes are documented while they are added, and makes the document of it."""

    def __init__(
        self,
        version: str,
        structs: Sequence[type] = (),
        *,
        header_prefix: str = "X-Relay-",
    ) -> None:
        self._version = version
        self._structs = structs
        self._header_prefix = header_prefix
        self._bodies: dict[str, tuple[type[BaseModel], bool]] = {}

    def describe(
        self,
        operation: Operation,
        *,
        body: type[BaseModel] | None = None,
        optional_body: bool = False,
        answer: str | None = None,
        versioned: int | None = None,
    ) -> dict[str, Any]:
        """Arguments for ``add_api_route``. ``answer`` names a struct as the answer's body,
        ``versioned`` the status of answers that carry the version of an entity."""
        # "default" keeps FastAPI from adding an error that there is not; it is taken out again.
        # No models: each would be prepared for validation, which takes time at every start.
        responses: dict[int | str, dict[str, Any]] = {"default": {}}
        responses.update((status, dict(_FAILED)) for status in operation.errors)
        if answer is not None:
            schema = {"schema": {"$ref": COMPONENTS + answer}}
            responses[200] = {"content": {"application/json": schema}}
        if versioned is not None:
            replayed = {"Idempotent-Replayed": _REPLAYED} if versioned == 201 else {}
            headers = {"ETag": _VERSION, **replayed}
            responses[versioned] = {"headers": headers}
        if body is not None:
            self._bodies[operation.id] = (body, not optional_body)
        return {
            "operation_id": operation.id,
            "summary": operation.summary,
            "responses": responses,
            "openapi_extra": {
                "security": [] if operation.public else SECURITY,
                "description": operation.text,
            },
        }

    def build(self, app: ControlApplication) -> dict[str, Any]:
        """The whole document."""
        document = get_openapi(
            title="Relay Gateway control plane",
            version=self._version,
            summary="Catalog, keys, operations and logs of one gateway.",
            description=DESCRIPTION,
            routes=app.described_routes(),
        )
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        _insert_error(schemas)
        components["securitySchemes"] = SCHEMES
        self._insert_bodies(document["paths"], schemas)
        _, found = msgspec.json.schema_components(self._structs, ref_template=COMPONENTS + "{name}")
        schemas.update(found)
        tidy_schemas(schemas)
        tidy_parameters(document["paths"])
        add_answers(document, self._header_prefix)
        add_examples(document)
        add_links(document)
        return document

    def _insert_bodies(self, paths: Mapping[str, Any], schemas: dict[str, Any]) -> None:
        # Input and output of a model differ in what is required, so inputs get own names.
        names, definitions = models_json_schema(
            [(model, "validation") for model, _ in self._bodies.values()],
            ref_template=COMPONENTS + "{model}Input",
        )
        for name, schema in definitions.get("$defs", {}).items():
            schemas[f"{name}Input"] = schema
        for operation in (operation for item in paths.values() for operation in item.values()):
            if operation["operationId"] in self._bodies:
                model, required = self._bodies[operation["operationId"]]
                content = {"application/json": {"schema": names[model, "validation"]}}
                operation["requestBody"] = {"required": required, "content": content}


def _insert_error(schemas: dict[str, Any]) -> None:
    _, found = models_json_schema(
        [(ErrorAnswer, "serialization")], ref_template=COMPONENTS + "{model}"
    )
    # Without the defaults that are null, as FastAPI writes all others.
    schemas.update(jsonable_encoder(found["$defs"], exclude_none=True))
