"""Schemas of the OpenAPI document, made exact where the libraries that write them are not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_camel

_SNAKE_CASE = re.compile("``([a-z]+(?:_[a-z]+)+)``")


def tidy_schemas(schemas: Mapping[str, Any]) -> None:
    """In place: names of object members are held to their pattern, and generated titles go."""
    for schema in schemas.values():
        for part in _parts(schema):
            _hold_names(part)
            _drop_title(part)
            _name_as_clients_do(part)


def tidy_parameters(paths: Mapping[str, Any]) -> None:
    """In place: a parameter is there or not, but never null."""
    for operation in (operation for item in paths.values() for operation in item.values()):
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _present(parameter["schema"])


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in list(schema.values()):
            yield from _parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _parts(value)


def _hold_names(part: dict[str, Any]) -> None:
    # Names that match no pattern would otherwise be allowed with any value.
    patterns = part.get("patternProperties")
    if isinstance(patterns, dict) and len(patterns) == 1 and "additionalProperties" not in part:
        ((pattern, values),) = part.pop("patternProperties").items()
        part["propertyNames"] = {**part.get("propertyNames", {}), "pattern": pattern}
        part["additionalProperties"] = values


def _drop_title(part: dict[str, Any]) -> None:
    # Made of the field's own name, where it is no schema of a field called "title".
    if isinstance(part.get("title"), str):
        del part["title"]


def _name_as_clients_do(part: dict[str, Any]) -> None:
    # Docstrings say ``above_tokens`` of what is aboveTokens in JSON.
    if isinstance(part.get("description"), str):
        part["description"] = _SNAKE_CASE.sub(
            lambda match: f"`{to_camel(match[1])}`", part["description"]
        ).replace("``", "`")


def _present(schema: Mapping[str, Any]) -> dict[str, Any]:
    alternatives = [item for item in schema.get("anyOf", ()) if item.get("type") != "null"]
    exact = {name: value for name, value in schema.items() if name not in ("anyOf", "title")}
    if len(alternatives) == 1:
        return {**alternatives[0], **exact}
    return {**exact, "anyOf": alternatives} if alternatives else exact
