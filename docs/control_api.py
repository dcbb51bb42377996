"""Writes the page of the control plane's API from its OpenAPI document, for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]
Schema = Mapping[str, Any]

KINDS_FIRST = ("operations", "authentication", "settings", "audit", "logs")
METHODS = ("GET", "POST", "PUT", "DELETE")
LONGEST_PATTERN = 60


def control_api_page(document: Document) -> Iterator[str]:
    """The page, line by line."""
    yield document["info"]["description"]
    yield (
        "Requests carry `Authorization: Bearer ADMIN_TOKEN` or the cookie of a session, except "
        "where an operation is public. `GET /openapi.json` is this page for programs, with every "
        "schema whole.\n"
    )
    yield from _errors(document)
    tags = _by_tag(document)
    for tag in (*KINDS_FIRST, *(tag for tag in tags if tag not in KINDS_FIRST)):
        yield f"## {tag.replace('-', ' ').capitalize()}\n"
        yield from _section(document, tags[tag])


def _errors(document: Document) -> Iterator[str]:
    yield "## Errors of every operation\n\n| status | meaning | for example |\n|---|---|---|"
    for name, answer in document["components"]["responses"].items():
        example = answer["content"]["application/json"]["example"]["error"]
        status = name.removeprefix("Error")
        shown = f"`{example['code']}`: {example['message']}"
        yield f"| {status} | {answer['description']} | {shown} |"
    yield (
        "\n400, 421 and 500 can come from every operation but the probes (no 421), 401 and 503 "
        "from every one that is not public, 403 from every one of those that changes something; "
        "they are not repeated below.\n"
    )


def _by_tag(document: Document) -> dict[str, list[tuple[str, str, Schema]]]:
    tags: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            tags.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for found in tags.values():
        found.sort(key=lambda entry: (entry[1].count("/"), entry[1], METHODS.index(entry[0])))
    return tags


def _section(document: Document, found: Sequence[tuple[str, str, Schema]]) -> Iterator[str]:
    shown: set[str] = set()
    for method, path, operation in found:
        public = "" if operation["security"] else " Public."
        yield f"### {operation['summary']}\n\n`{method} {path}`\n"
        yield f"{operation['description']}{public}\n"
        yield from _parameters(operation)
        yield from _body(document, operation, shown)
        yield from _answers(operation, shown)


def _parameters(operation: Schema) -> Iterator[str]:
    parameters = operation.get("parameters", ())
    if not parameters:
        return
    filters = [item for item in parameters if item["schema"].get("type") == "array"]
    filters = [item for item in filters if item["name"] not in ("label", "tag")]
    yield "| parameter | in | value | meaning |\n|---|---|---|---|"
    for item in parameters:
        if item not in filters:
            required = " (required)" if item.get("required") else ""
            meaning = item.get("description", item["schema"].get("description", ""))
            yield (
                f"| `{item['name']}`{required} | {item['in']} | {_value(item['schema'])} "
                f"| {_cell(meaning)} |"
            )
    yield ""
    if filters:
        names = ", ".join(
            f"`{item['name']}` ({_kind(item['schema']['items'])})" for item in filters
        )
        yield f"Filters, each repeatable: {names}.\n"


def _body(document: Document, operation: Schema, shown: set[str]) -> Iterator[str]:
    body = operation.get("requestBody")
    if body is None:
        return
    content = body["content"]["application/json"]
    optional = "" if body["required"] else " (may be left out)"
    example = json.dumps(content["example"], indent=2)
    yield f"Body{optional}, for example:\n\n```json\n{example}\n```\n"
    yield from _fields(document, content["schema"], shown)


def _fields(document: Document, schema: Schema, shown: set[str]) -> Iterator[str]:
    """The fields of a body, and of the objects in it, each shown once in a section."""
    schemas = document["components"]["schemas"]
    waiting = _names(schema)
    while waiting:
        name = waiting.pop(0)
        if name in shown:
            continue
        shown.add(name)
        found = schemas[name]
        properties = found.get("properties", {})
        waiting += [inner for inner in _names(found) if inner not in waiting]
        if not properties or set(properties) == {"metadata", "spec"}:
            continue
        yield f"`{_name(f'/{name}')}`: {_cell(found.get('description', 'its fields'))}\n"
        yield "| field | value | default |\n|---|---|---|"
        for field, value in properties.items():
            required = "required" if field in found.get("required", ()) else ""
            default = f"`{json.dumps(value['default'])}`" if "default" in value else required
            yield f"| `{field}` | {_value(value)} | {default} |"
        yield ""


def _names(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _names(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else []
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "discriminator")}
    return own + [name for value in rest.values() for name in _names(value)]


def _answers(operation: Schema, shown: set[str]) -> Iterator[str]:
    general = {"400", "401", "403", "421", "500", "503"}
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get("application/json")
        if content is not None:
            links = ", ".join(
                f"`{link['operationId']}`" for link in answer.get("links", {}).values()
            )
            following = f"; its values lead to {links}" if links else ""
            kind = content["schema"].get("$ref", "").rsplit("/", 1)[-1]
            if kind and f"answer {kind}" in shown:
                yield f"Answer {status}: `{_name(f'/{kind}')}`, as above{following}.\n"
                continue
            shown.add(f"answer {kind}")
            example = json.dumps(content["example"], indent=2)
            yield f"Answer {status}{following}:\n\n```json\n{example}\n```\n"
    others = [status for status in operation["responses"] if int(status) >= 400]
    own = [status for status in others if status not in general]
    if own:
        yield f"Errors of its own: {', '.join(own)}.\n"


def _value(schema: Schema) -> str:
    """What a value looks like, in a few words."""
    if "$ref" in schema:
        return f"`{_name(schema['$ref'])}`"
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        if all(f"-{choice}" in choices for choice in choices[::2]):
            choices = choices[::2]  # an order and its reverse, as the meaning says
        return " or ".join(f"`{json.dumps(choice)}`" for choice in choices)
    if "type" not in schema:
        options = schema.get("anyOf") or schema.get("oneOf") or ()
        return _cell(" or ".join(dict.fromkeys(_value(item) for item in options))) or "anything"
    if schema["type"] == "array":
        return f"list of {_value(schema.get('items', {}))}"
    if schema["type"] == "object":
        values = schema.get("additionalProperties")
        return f"object of {_value(values)}" if isinstance(values, dict) else "object"
    return _cell(" ".join([schema["type"], *_bounds(schema)]))


def _kind(schema: Schema) -> str:
    """The type of a filter's value, and its format."""
    if "type" not in schema and schema.get("anyOf"):
        return _kind(schema["anyOf"][0])
    named = {"date-time": "time", "uuid": "id"}.get(schema.get("format", ""))
    return named or str(schema["type"])


def _name(reference: str) -> str:
    return reference.rsplit("/", 1)[1].removesuffix("Input").removesuffix("Input")


def _bounds(schema: Schema) -> Iterator[str]:
    words = {
        "minimum": "≥ {}",
        "exclusiveMinimum": "> {}",
        "maximum": "≤ {}",
        "exclusiveMaximum": "< {}",
        "minLength": "of {} characters or more",
        "maxLength": "of up to {} characters",
    }
    if schema.get("minLength") == 1 and "maxLength" in schema:
        del words["minLength"]
        words["maxLength"] = "of 1 to {} characters"
    if "format" in schema:
        yield f"({schema['format']})"
    for key, text in words.items():
        if key in schema:
            yield text.format(schema[key])
    pattern = schema.get("pattern", "")
    if schema.get("examples"):
        yield f"like `{schema['examples'][0]}`"
    elif pattern and len(pattern) <= LONGEST_PATTERN and "\\u0000" not in pattern:
        yield f"of the form `{pattern}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")
