"""Which content is kept: what is text, by its media type."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """How a body is read."""

    JSON = "json"
    EVENTS = "events"
    TEXT = "text"
    FORM = "form"
    OPAQUE = "opaque"


_JSON: Final = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/x-jsonlines",
        "application/ndjson",
        "application/x-ndjson",
        "text/json",
    }
)
_TEXTS: Final = frozenset(
    {
        "application/x-www-form-urlencoded",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/graphql",
        "application/javascript",
        "application/x-subrip",
    }
)


def kind_of(content_type: str) -> Kind:
    """How a body of this ``Content-Type`` is read; one without is taken for JSON."""
    media = content_type.partition(";")[0].strip().lower()
    if not media or media in _JSON or media.endswith("+json"):
        return Kind.JSON
    if media == "text/event-stream":
        return Kind.EVENTS
    if media == "multipart/form-data":
        return Kind.FORM
    if media.startswith("text/") or media in _TEXTS or media.endswith("+xml"):
        return Kind.TEXT
    return Kind.OPAQUE
