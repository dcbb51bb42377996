"""Examples for the OpenAPI document, made from its schemas: what a field is like stands beside it.

A field says so itself with ``examples``; what says nothing has its default, its first alternative,
or the shortest value of its type. So an example cannot be forgotten and cannot grow stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schemas = Mapping[str, Mapping[str, Any]]

_TEXTS = {
    "uuid": "01890a5d-ac96-774b-bcce-b302099a8057",
    "date-time": "2030-01-31T12:00:00Z",
    "password": "made-up",
}
_BY_TYPE: Mapping[str, Any] = {"boolean": True, "number": 1, "null": None}


def add_examples(document: Mapping[str, Any]) -> None:
    """Gives every body in ``document`` an example that is valid against its schema."""
    schemas = document["components"]["schemas"]
    operations = (item for path in document["paths"].values() for item in path.values())
    for operation in operations:
        _add(operation.get("requestBody", {}), schemas)
        for answer in operation["responses"].values():
            _add(answer, schemas)


def example_of(schema: Mapping[str, Any], schemas: Schemas) -> Any:
    """A valid value of ``schema``, whose references lead to ``schemas``."""
    schema = _resolved(schema, schemas)
    if schema.get("examples"):
        return schema["examples"][0]
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("default") is not None and schema["default"] != {}:
        return schema["default"]
    if schema.get("type") == "object" or "properties" in schema:
        return _object(schema, schemas)
    alternatives: Sequence[Any] = schema.get("anyOf") or schema.get("oneOf") or ()
    if alternatives:
        return example_of(alternatives[0], schemas)
    return _scalar(schema, schemas)


def _add(holder: Mapping[str, Any], schemas: Schemas) -> None:
    for media_type, content in holder.get("content", {}).items():
        if media_type == "application/json" and "example" not in content:
            content["example"] = example_of(content["schema"], schemas)


def _resolved(schema: Mapping[str, Any], schemas: Schemas) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found = schemas[schema["$ref"].rsplit("/", 1)[1]]
    return {**found, **{name: value for name, value in schema.items() if name != "$ref"}}


def _object(schema: Mapping[str, Any], schemas: Schemas) -> dict[str, Any]:
    """What is required and what says what it is like."""
    required = schema.get("required", ())
    return {
        name: example_of(field, schemas)
        for name, field in schema.get("properties", {}).items()
        if name in required or "examples" in field
    }


def _scalar(schema: Mapping[str, Any], schemas: Schemas) -> Any:
    kind = schema.get("type")
    if kind == "array":
        return [example_of(schema["items"], schemas)] if schema.get("items") else []
    if kind == "string":
        return _TEXTS.get(schema.get("format", ""), "text")
    if kind == "integer":
        return max(1, schema.get("minimum", 1))
    return _BY_TYPE.get(kind or "", {})
