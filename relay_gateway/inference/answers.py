"""Answers on the wire: response headers by allow-list, errors in the caller's dialect."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime

from relay_gateway.catalog.snapshot import Deprecation, Model
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.rate_headers import MARK
from relay_gateway.pipeline.refusals import Refusal
from relay_gateway.pipeline.reply import Reply
from relay_gateway.plugin.providers import UpstreamProvider
from relay_gateway.plugin.wire import Dialect, Problem

_ALWAYS_RETURNED = frozenset(
    {b"content-type", b"content-encoding", b"content-language", b"retry-after"}
)
_OF_BODY = frozenset({b"content-type", b"content-encoding", b"content-language"})
_PRIVATE = b"cache-control: private, no-store\r\n"
_JSON = b"content-type: application/json\r\n" + _PRIVATE


class AnswerWriter:
    """Builds header blocks and error answers; ``prefix`` begins the gateway's own header names."""

    def __init__(self, prefix: str, providers: Mapping[str, UpstreamProvider]) -> None:
        name = prefix.encode()
        self._request_id = name + b"Request-Id: "
        self._host = name + b"Host: "
        self._dropped = name + b"Dropped-Params"
        self._attempts = name + b"Attempts: "
        self._replaced = name + b"Replaced-Model: "
        self._providers = providers
        self._returned: dict[str, frozenset[bytes]] = {}
        self.providers_changed()

    def providers_changed(self) -> None:
        """Looks at the providers again, of which there may be others than before."""
        self._returned = {
            adapter: _ALWAYS_RETURNED | provider.response_headers
            for adapter, provider in self._providers.items()
        }

    def answer_headers(self, call: Call, answer: Exchange | Refusal) -> bytes:
        """The header block of an upstream's answer: what is allowed of its own, and the
        gateway's."""
        adapter = call.host.adapter if call.host else ""
        returned = self._returned.get(adapter, _ALWAYS_RETURNED)
        fields = answer.headers.selected(returned)
        if call.translation is not None:
            kind = b"text/event-stream" if call.streamed else b"application/json"
            fields = [(b"content-type", kind), *(one for one in fields if one[0] not in _OF_BODY)]
        if call.rate_lines:
            fields = [one for one in fields if MARK not in one[0]]
        if call.dropped:
            fields = [*fields, (self._dropped, ", ".join(call.dropped).encode())]
        lines = [b"%b: %b\r\n" % field for field in fields]
        return b"%b%b%b" % (b"".join(lines), _PRIVATE, self.gateway(call))

    def retell(self, call: Call, refusal: Refusal) -> Reply:
        """An upstream's error in the caller's dialect: its status, its code and its words."""
        problem = refusal.problem or _problem_of(call, refusal)
        _, body = call.wire_format.dialect().error(problem)
        adapter = call.host.adapter if call.host else ""
        returned = self._returned.get(adapter, _ALWAYS_RETURNED) - _OF_BODY
        lines = [b"%b: %b\r\n" % field for field in refusal.headers.selected(returned)]
        return Reply(refusal.status, b"".join((_JSON, *lines, self.gateway(call))), body)

    def refuse(self, call: Call, error: RequestRefusedError) -> Reply:
        """The refusal of a request whose endpoint is known, in its dialect."""
        dialect = call.wire_format.dialect()
        return self.error(dialect, error, call.request_id, self.gateway(call))

    def error(
        self,
        dialect: Dialect,
        error: RequestRefusedError,
        request_id: str,
        extra: bytes | None = None,
    ) -> Reply:
        """An error in ``dialect``."""
        problem = Problem(error.status, error.code, error.message, error.param, request_id)
        status, body = dialect.error(problem)
        lines = [_JSON, extra if extra is not None else self.request_id(request_id)]
        lines.extend(b"%b: %b\r\n" % header for header in error.headers)
        wait = _wait(error)
        if wait is not None:
            lines.append(b"retry-after: %d\r\n" % wait)
        return Reply(status, b"".join(lines), body)

    def respond_json(self, caller: Caller, body: bytes, request_id: str, status: int = 200) -> None:
        """Answers with a JSON body of the gateway's own."""
        caller.respond(status, _JSON + self.request_id(request_id), body)

    def request_id(self, request_id: str) -> bytes:
        """The header line that names the request."""
        return b"%b%b\r\n" % (self._request_id, request_id.encode())

    def _notice(self, deprecation: Deprecation, replaced: Model | None) -> bytes:
        """What is told of the end of a model (RFC 9745, RFC 8594)."""
        block = b""
        if deprecation.since is not None:
            block += b"deprecation: @%d\r\n" % deprecation.since
        if deprecation.sunset is not None:
            end = format_datetime(datetime.fromtimestamp(deprecation.sunset, UTC), usegmt=True)
            block += b"sunset: %b\r\n" % end.encode()
        if replaced is not None:
            block += b"%b%b\r\n" % (self._replaced, replaced.name.encode())
        return block

    def gateway(self, call: Call) -> bytes:
        """The header lines that tell what the gateway did with a request."""
        block = self.request_id(call.request_id)
        if call.host is not None:
            block = b"%b%b%b\r\n" % (block, self._host, call.host.slug.encode())
        if call.rate_lines:
            block += call.rate_lines
        if call.deprecation is not None:
            block += self._notice(call.deprecation, call.replaced)
        if call.attempts:
            block = b"%b%b%d\r\n" % (block, self._attempts, len(call.attempts))
        return block


def _wait(error: RequestRefusedError) -> int | None:
    """Seconds after which a caller may come back: a little later than need be, and not all at
    once."""
    if error.retry_after is not None:
        seconds = math.ceil(error.retry_after)
        return seconds + int(random.random() * (1 + seconds // 10))  # noqa: S311 - jitter
    told = any(name == b"retry-after" for name, _ in error.headers)
    if error.status not in (429, 503) or told:
        return None
    return random.randint(1, 3)  # noqa: S311 - jitter


def _problem_of(call: Call, refusal: Refusal) -> Problem:
    code, message = refusal.wire_format.dialect().read_error(refusal.body)
    return Problem(
        refusal.status,
        code or "upstream_error",
        message or f"the upstream refused the request with status {refusal.status}",
        request_id=call.request_id,
    )
