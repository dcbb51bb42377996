"""How the Anthropic API words errors and model lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from relay_gateway.plugin import Dialect, ListedModel, Problem

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicDialect(Dialect):
    """Errors as ``{"type": "error", "error": {"type", "message"}, "request_id"}``, in streams as an
    ``error`` event; model lists with ``has_more``, ``first_id`` and ``last_id``.

    A model that is not granted is 404 here: coding agents make a useful message of that, and a
    login prompt of a 403.
    """

    name = "anthropic"

    def claims(self, header_names: frozenset[bytes] | set[bytes]) -> bool:
        """Whether there is an ``anthropic-version`` header: this API's clients always send one."""
        return b"anthropic-version" in header_names

    def error(self, problem: Problem) -> tuple[int, bytes]:
        """Status and JSON body of an error answer."""
        status = 404 if problem.code == "model_not_allowed" else problem.status
        fallback = "invalid_request_error" if status < 500 else "api_error"
        error = {"type": _TYPES.get(status, fallback), "message": problem.message}
        body = {"type": "error", "error": error, "request_id": problem.request_id or None}
        return status, msgspec.json.encode(body)

    def error_event(self, problem: Problem) -> bytes:
        """The error as a complete ``error`` event."""
        return b"event: error\ndata: " + self.error(problem)[1] + b"\n\n"

    def models(self, models: Sequence[ListedModel]) -> bytes:
        """JSON body of a list of models, all on one page."""
        page = {
            "data": [_listed(model) for model in models],
            "has_more": False,
            "first_id": models[0].name if models else None,
            "last_id": models[-1].name if models else None,
        }
        return msgspec.json.encode(page)

    def model(self, model: ListedModel) -> bytes:
        """JSON body of one model."""
        return msgspec.json.encode(_listed(model))


def _listed(model: ListedModel) -> dict[str, object]:
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.display_name,
        "created_at": datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
