"""Entities as JSON: the bodies that clients send and the answers they get, one pair per kind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from starlette.responses import JSONResponse, Response

from relay_gateway.catalog.envelope import EntityRow, Metadata, MetadataInput, MetadataUpdate
from relay_gateway.control.naming import class_name
from relay_gateway.control.rules import KindRules
from relay_gateway.plugin import CatalogModel

SHOWN_AT_ONCE = 50
DRY_RUN_HEADER = "X-Relay-Dry-Run"
REPLAYED_HEADER = "Idempotent-Replayed"


class Deleted(CatalogModel):
    """The result of a deletion."""

    deleted: bool
    id: str


class ReferrerList(CatalogModel):
    """Who points at an entity."""

    items: list[dict[str, str]]


class _Form(CatalogModel):
    """Base of forms, whose validators are made at their first use; of most there is none."""

    model_config = ConfigDict(defer_build=True)


class EntityForms:
    """Models of one kind: ``create`` and ``update`` validate, the others document."""

    def __init__(self, rules: KindRules) -> None:
        name = class_name(rules.kind.name)
        status: dict[str, Any] = (
            {"status": (dict[str, Any] | None, None)} if rules.has_status else {}
        )
        self.create = _model(f"{name}Create", MetadataInput, rules.create_spec)
        self.update = _model(f"{name}Update", MetadataUpdate, rules.update_spec, **status)
        self.documented_create = _model(f"{name}Create", MetadataInput, rules.documented_input)
        updated = rules.documented_input
        if rules.update_spec is not rules.create_spec:
            updated = rules.update_spec
        self.documented_update = _model(f"{name}Update", MetadataUpdate, updated, **status)
        self.entity = _model(name, Metadata, rules.documented_output, **status)
        self.page = create_model(
            f"{name}Page",
            __base__=_Form,
            __doc__=f"Part of the list of {rules.kind.plural}; ``nextCursor`` leads to the next.",
            items=(list[self.entity], ...),  # type: ignore[name-defined]  # a model made above
            total=(int, ...),
            next_cursor=(str | None, None),
        )


def _model(name: str, metadata: type[BaseModel], spec: type[BaseModel], **more: Any) -> Any:
    return create_model(name, __base__=_Form, metadata=(metadata, ...), spec=(spec, ...), **more)


async def shown(rows: Sequence[EntityRow], rules: KindRules) -> list[dict[str, Any]]:
    """Entities as reads show them; many of them let other requests of this process in between."""
    statuses = await rules.statuses(rows)
    items = []
    for number, row in enumerate(rows, start=1):
        items.append(_to_json(row, rules, statuses.get(row.id)))
        if number % SHOWN_AT_ONCE == 0:
            await asyncio.sleep(0)
    return items


def _to_json(row: EntityRow, rules: KindRules, status: Mapping[str, Any] | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "metadata": {
            "id": row.id,
            "slug": row.slug,
            "displayName": row.display_name,
            "description": row.description,
            "labels": row.labels,
            "managedBy": row.managed_by,
            "version": row.version,
            "createdAt": row.created_at,
            "updatedAt": row.updated_at,
        },
        "spec": rules.show(row),
    }
    if status is not None:
        body["status"] = dict(status)
    return body


async def entity_response(
    row: EntityRow,
    rules: KindRules,
    status: int = 200,
    *,
    dry_run: bool = False,
    replayed: bool = False,
) -> Response:
    """One entity, with its version as ``ETag``."""
    headers = write_headers(row, dry_run=dry_run, replayed=replayed)
    (body,) = await shown([row], rules)
    return JSONResponse(body, status, headers=headers)


def write_headers(
    row: EntityRow, *, dry_run: bool = False, replayed: bool = False
) -> dict[str, str]:
    """The version as ``ETag``, whether nothing was written, and whether it was written before."""
    headers = {"ETag": f'"{row.version}"'}
    if dry_run:
        headers[DRY_RUN_HEADER] = "true"
    if replayed:
        headers[REPLAYED_HEADER] = "true"
    return headers
