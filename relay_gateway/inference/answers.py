"""Answers on the wire: response headers by allow-list, errors in the caller's dialect."""

from __future__ import annotations

import math
from collections.abc import Mapping

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.dispatch import Refusal
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.plugin.providers import UpstreamProvider
from relay_gateway.plugin.wire import Dialect, Problem

_ALWAYS_RETURNED = frozenset(
    {b"content-type", b"content-encoding", b"content-language", b"retry-after"}
)
_PRIVATE = b"cache-control: private, no-store\r\n"
_JSON = b"content-type: application/json\r\n" + _PRIVATE


class AnswerWriter:
    """Builds header blocks and error answers; ``prefix`` begins the gateway's own header names."""

    def __init__(self, prefix: str, providers: Mapping[str, UpstreamProvider]) -> None:
        name = prefix.encode()
        self._request_id = name + b"Request-Id: "
        self._host = name + b"Host: "
        self._attempts = name + b"Attempts: "
        self._returned = {
            adapter: _ALWAYS_RETURNED | provider.response_headers
            for adapter, provider in providers.items()
        }

    def answer_headers(self, call: Call, answer: Exchange | Refusal) -> bytes:
        """The header block of an upstream's answer: what is allowed of its own, and the
        gateway's."""
        adapter = call.host.adapter if call.host else ""
        returned = self._returned.get(adapter, _ALWAYS_RETURNED)
        lines = [b"%b: %b\r\n" % field for field in answer.headers.selected(returned)]
        lines.append(_PRIVATE)
        lines.append(self._gateway(call))
        return b"".join(lines)

    def refuse(self, call: Call, caller: Caller, error: RequestRefusedError) -> None:
        """Answers a refusal of a request whose endpoint is known, in its dialect."""
        dialect = call.wire_format.dialect()
        self.respond_error(caller, dialect, error, call.request_id, self._gateway(call))

    def respond_error(
        self,
        caller: Caller,
        dialect: Dialect,
        error: RequestRefusedError,
        request_id: str,
        extra: bytes | None = None,
    ) -> None:
        """Answers an error in ``dialect``."""
        problem = Problem(error.status, error.code, error.message, error.param, request_id)
        status, body = dialect.error(problem)
        lines = [_JSON, extra if extra is not None else self.request_id(request_id)]
        lines.extend(b"%b: %b\r\n" % header for header in error.headers)
        if error.retry_after is not None:
            lines.append(b"retry-after: %d\r\n" % math.ceil(error.retry_after))
        caller.respond(status, b"".join(lines), body)

    def respond_json(self, caller: Caller, body: bytes, request_id: str, status: int = 200) -> None:
        """Answers with a JSON body of the gateway's own."""
        caller.respond(status, _JSON + self.request_id(request_id), body)

    def request_id(self, request_id: str) -> bytes:
        """The header line that names the request."""
        return self._request_id + request_id.encode() + b"\r\n"

    def _gateway(self, call: Call) -> bytes:
        lines = [self.request_id(call.request_id)]
        if call.host is not None:
            lines.append(self._host + call.host.slug.encode() + b"\r\n")
        if call.attempts:
            lines.append(b"%b%d\r\n" % (self._attempts, len(call.attempts)))
        return b"".join(lines)
