"""The envelope around every entity, and the row that storage keeps of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Field

from relay_gateway.catalog import patterns
from relay_gateway.ids import is_id, is_slug
from relay_gateway.plugin.base import CatalogModel


def _check_slug(value: str) -> str:
    if not is_slug(value):
        raise ValueError("must be a DNS-1123 label: at most 63 of a-z, 0-9 and '-'")
    if is_id(value):
        raise ValueError("must not have the form of an id")
    return value


Slug = Annotated[str, Field(json_schema_extra=patterns.SLUG), AfterValidator(_check_slug)]
ManagedBy = Literal["api", "catalog", "file"]


class MetadataInput(CatalogModel):
    """What a client may say about an entity."""

    display_name: Annotated[str, Field(min_length=1, max_length=200, examples=["Acme"])]
    slug: Slug | None = None
    description: Annotated[str, Field(max_length=2000)] = ""
    labels: Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=63)],
            Annotated[str, Field(max_length=253)],
        ],
        Field(max_length=64),
    ] = Field(default_factory=dict)


class MetadataUpdate(MetadataInput):
    """As :class:`MetadataInput`; the server-owned fields of a read may come back and must then be
    the entity's own; only ``updatedAt`` is ignored."""

    id: str | None = None
    version: Annotated[int, Field(ge=1)] | None = None
    managed_by: ManagedBy | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Metadata(CatalogModel):
    """What reads show about an entity."""

    id: Annotated[str, Field(json_schema_extra=patterns.ID)]
    slug: Annotated[str, Field(json_schema_extra=patterns.SLUG)]
    display_name: Annotated[str, Field(examples=["Acme"])]
    description: Annotated[str, Field(examples=[""])]
    labels: dict[str, str]
    managed_by: ManagedBy
    version: int
    created_at: datetime
    updated_at: datetime


class EntityRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entity as storage keeps it.

    ``spec`` is camelCase JSON as reads may show it. ``sealed`` is what no read ever shows: hashes
    of relay keys, ciphertext of stored credentials. Times are RFC 3339 UTC.
    """

    id: str
    kind: str
    slug: str
    display_name: str
    description: str = ""
    labels: dict[str, str] = {}
    managed_by: ManagedBy = "api"
    spec: dict[str, Any]
    sealed: dict[str, Any] = {}
    version: int = 1
    created_at: str = ""
    updated_at: str = ""
