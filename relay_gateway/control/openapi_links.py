"""Links of the OpenAPI document: what can be done next with what an answer names.

They follow from the paths: whatever is below ``/{plural}/by-id/{id}`` or ``/{plural}/{ref}`` takes
the id of what ``POST /{plural}`` made, and a list goes on where its cursor says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Paths = Mapping[str, Mapping[str, Any]]

_ITEM = re.compile(r"/(?:by-id/\{(id)\}|\{(ref)\})(?:/[a-z]+)?")


def add_links(document: Mapping[str, Any]) -> None:
    """Gives creates, and lists with more than one page, links to what can follow them."""
    paths: Paths = document["paths"]
    for path, item in paths.items():
        created = item.get("post", {}).get("responses", {}).get("201")
        if created is not None:
            created["links"] = dict(_followers(path, paths, _id_of(created)))
        listing = item.get("get")
        if listing and any(p["name"] == "cursor" for p in listing.get("parameters", ())):
            listing["responses"]["200"]["links"] = {"nextPage": _next_page(listing)}


def _followers(path: str, paths: Paths, pointer: str) -> Iterator[tuple[str, Any]]:
    for below, item in paths.items():
        match = _ITEM.fullmatch(below.removeprefix(path)) if below.startswith(path) else None
        if match is None:
            continue
        for operation in item.values():
            name = operation["operationId"]
            parameter = match[1] or match[2]
            yield name, {"operationId": name, "parameters": {parameter: pointer}}


def _id_of(created: Mapping[str, Any]) -> str:
    reference = created["content"]["application/json"]["schema"]["$ref"]
    place = "/relayKey" if reference.endswith("/IssuedRelayKey") else ""
    return f"$response.body#{place}/metadata/id"


def _next_page(listing: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operationId": listing["operationId"],
        "parameters": {"cursor": "$response.body#/nextCursor"},
        "description": "The cursor goes with the same filters and order, and is absent at the end.",
    }
