"""The OpenAPI document: what FastAPI knows of the routes, with the bodies that plugins define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from relay_gateway.control.problems import ErrorAnswer

COMPONENTS = "#/components/schemas/"
SCHEMES = {
    "adminBearer": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": "relay_session"},
}
SECURITY: list[dict[str, list[str]]] = [{"adminBearer": []}, {"session": []}]
_ETAG = {"description": "The version, for `If-Match`.", "schema": {"type": "string"}}
_REASONS = {
    400: "A parameter or the body cannot be read.",
    401: "Not authenticated.",
    403: "Another site may have made a browser send this.",
    404: "No such entity.",
    409: "In conflict with other entities; what it conflicts with is named.",
    412: "Somebody else wrote first.",
    413: "The body is too large.",
    415: "The body is not `application/json`.",
    422: "Fields that cannot be accepted, each with its reason.",
    429: "Too many failed logins; try again after `Retry-After`.",
    500: "The gateway failed; its log says why.",
    501: "Nothing that could serve this is installed or configured.",
    503: "A part that this needs cannot be asked right now; try again after `Retry-After`.",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """How a route is documented; ``errors`` are statuses besides those that every route has."""

    id: str
    summary: str
    errors: Sequence[int] = ()
    public: bool = False


class Documentation:
    """Collects how routes are documented while they are added, and makes the document of it."""

    def __init__(self, version: str, structs: Sequence[type] = ()) -> None:
        self._version = version
        self._structs = structs
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
        general = (500,) if operation.public else (401, 500, 503)
        responses: dict[int | str, dict[str, Any]] = {
            status: {"model": ErrorAnswer, "description": _REASONS[status]}
            for status in sorted({*general, *operation.errors})
        }
        responses["default"] = {"model": ErrorAnswer, "description": "Any other error."}
        if answer is not None:
            schema = {"schema": {"$ref": COMPONENTS + answer}}
            responses[200] = {"content": {"application/json": schema}}
        if versioned is not None:
            responses[versioned] = {"headers": {"ETag": _ETAG}}
        if body is not None:
            self._bodies[operation.id] = (body, not optional_body)
        return {
            "operation_id": operation.id,
            "summary": operation.summary,
            "responses": responses,
            "openapi_extra": {"security": [] if operation.public else SECURITY},
        }

    def build(self, app: FastAPI) -> dict[str, Any]:
        """The whole document."""
        document = get_openapi(
            title="Relay Gateway control plane",
            version=self._version,
            summary="Catalog, keys, operations and logs of one gateway.",
            routes=app.routes,
        )
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        components["securitySchemes"] = SCHEMES
        self._insert_bodies(document["paths"], schemas)
        _, found = msgspec.json.schema_components(self._structs, ref_template=COMPONENTS + "{name}")
        schemas.update(found)
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
