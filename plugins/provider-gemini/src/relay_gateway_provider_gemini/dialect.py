"""How the Gemini API words errors and model lists."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from relay_gateway.plugin import Dialect, ListedModel, Problem

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_CLIENT_HEADERS = (b"x-goog-api-key", b"x-goog-api-client")


class GeminiDialect(Dialect):
    """Errors as ``{"error": {"code", "message", "status"}}``, in streams as a chunk of that shape;
    model lists as ``{"models": [...]}``."""

    name = "gemini"
    ping = b"\n\n"
    """This API's own clients stumble over comments, and skip empty lines."""
    models_path = "/v1beta/models"

    def claims(self, header_names: frozenset[bytes] | set[bytes]) -> bool:
        """Whether there is one of the headers that only this API's clients send."""
        return any(name in header_names for name in _CLIENT_HEADERS)

    def error(self, problem: Problem) -> tuple[int, bytes]:
        """Status and JSON body of an error answer."""
        fallback = "FAILED_PRECONDITION" if problem.status < 500 else "INTERNAL"
        error = {
            "code": problem.status,
            "message": problem.message,
            "status": _STATUSES.get(problem.status, fallback),
        }
        return problem.status, msgspec.json.encode({"error": error})

    def models(self, models: Sequence[ListedModel]) -> bytes:
        """JSON body of a list of models, all on one page."""
        return msgspec.json.encode({"models": [_listed(model) for model in models]})

    def model(self, model: ListedModel) -> bytes:
        """JSON body of one model."""
        return msgspec.json.encode(_listed(model))


def _listed(model: ListedModel) -> dict[str, object]:
    return {
        "name": f"models/{model.name}",
        "baseModelId": model.name,
        "displayName": model.display_name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent"],
    }
