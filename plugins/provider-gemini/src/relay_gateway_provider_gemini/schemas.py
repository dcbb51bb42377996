"""Schemas of the Gemini API (a subset of OpenAPI 3.0), read as JSON schemas."""

from __future__ import annotations

from typing import Any

_MAPS = ("properties", "defs", "$defs")
_SCHEMAS = ("items", "additionalProperties")
_LISTS = ("anyOf", "prefixItems")
_INTEGERS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")


def json_schema(schema: object) -> Any:
    """``schema`` as a JSON schema: types in lower case, ``nullable`` as a type, figures that are
    texts as figures."""
    if not isinstance(schema, dict):
        return schema
    written = {name: _member(name, value) for name, value in schema.items()}
    if written.pop("nullable", False) and isinstance(written.get("type"), str):
        written["type"] = [written["type"], "null"]
    return written


def _member(name: str, value: Any) -> Any:
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _INTEGERS and isinstance(value, str) and value.isdigit():
        return int(value)
    if name in _MAPS and isinstance(value, dict):
        return {key: json_schema(inner) for key, inner in value.items()}
    if name in _SCHEMAS:
        return json_schema(value)
    if name in _LISTS and isinstance(value, list):
        return [json_schema(inner) for inner in value]
    return value
