"""Entities as the audit log may keep them: without what is or could be a credential."""

from __future__ import annotations

import re
from typing import Any

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.secret import MASK
from relay_gateway.settings import without_password

_CREDENTIAL = re.compile(
    r"(password|secret|token|authorization|api-?_?key|cookie|credential|signature)s?$",
    re.IGNORECASE,
)


def shown_entity(row: EntityRow) -> dict[str, Any]:
    """What anybody may see of an entity, and never what is sealed."""
    return {
        "displayName": row.display_name,
        "slug": row.slug,
        "description": row.description,
        "labels": row.labels,
        "managedBy": row.managed_by,
        "version": row.version,
        "spec": masked_document(row.spec),
    }


def masked_document(value: Any, name: str = "") -> Any:
    """``value`` with texts masked whose name says that they are credentials, and addresses without
    their passwords."""
    if isinstance(value, dict):
        return {key: masked_document(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [masked_document(item, name) for item in value]
    if isinstance(value, str):
        return MASK if value and _CREDENTIAL.search(name) else without_password(value)
    return value
