"""How the OpenAI API words errors and model lists."""

from __future__ import annotations

import msgspec

from relay_gateway.plugin import Dialect, Problem

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def _type(problem: Problem) -> str:
    if problem.code == "budget_exceeded":
        # What clients take as "do not try again soon", unlike a rate limit of the same status.
        return "insufficient_quota"
    fallback = "invalid_request_error" if problem.status < 500 else "server_error"
    return _TYPES.get(problem.status, fallback)


class OpenAIDialect(Dialect):
    """Errors as ``{"error": {"message", "type", "param", "code"}}``, in streams a ``data:`` line.

    Model lists have the shape of the base class.
    """

    name = "openai"

    def error(self, problem: Problem) -> tuple[int, bytes]:
        """Status and JSON body of an error answer."""
        error = {
            "message": problem.message,
            "type": _type(problem),
            "param": problem.param,
            "code": problem.code,
        }
        return problem.status, msgspec.json.encode({"error": error})


class OpenAIResponsesDialect(OpenAIDialect):
    """The same, but streams of the Responses API have an event of their own for errors."""

    name = "openai-responses"

    def error_event(self, problem: Problem) -> bytes:
        """The ``error`` event of the Responses API.

        Its place in the sequence is not known here, hence number 0; clients do not order by it.
        """
        event = {
            "type": "error",
            "code": problem.code,
            "message": problem.message,
            "param": problem.param,
            "sequence_number": 0,
        }
        return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"
