"""A caller whose request and answer are copied as they pass: exactly what it sent and received.

Every byte goes its way first; the copy is made behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from relay_gateway.catalog.payload_rules import is_credential
from relay_gateway.errors import RelayError
from relay_gateway.http.message import Header, Headers, HeadMemory
from relay_gateway.http.request_body import BodyReader
from relay_gateway.pipeline.capture_body import BodyCopy, Holding, TakenBody
from relay_gateway.pipeline.ports import Caller
from relay_gateway.secret import Secret

_log = logging.getLogger(__name__)

_MANY_CHARACTERS = 16
"""Shorter cookies may be words, which would be hidden wherever they occur."""
_QUERY_CREDENTIALS = frozenset({"key", "access_token"})


class CapturingCaller:
    """Stands before a caller. ``keep`` is how many bytes of each body are wanted; ``closed`` is
    called once, when the request is closed."""

    def __init__(
        self,
        caller: Caller,
        keep: int,
        holding: Holding,
        closed: Callable[[CapturingCaller], None],
    ) -> None:
        self._caller = caller
        self._keep = keep
        self._closed: Callable[[CapturingCaller], None] | None = closed
        self.holding = holding
        headers = caller.headers
        self._request = BodyCopy(
            headers.get(b"content-type"), headers.get(b"content-encoding"), keep, holding
        )
        self._response: BodyCopy | None = None
        self._beginning = b""
        self._request_complete = False
        self.response_headers: list[Header] = []

    # What came of it.

    def close(self) -> None:
        """The request is closed; a second time does nothing."""
        closed, self._closed = self._closed, None
        if closed is not None:
            closed(self)

    def taken_request(self) -> TakenBody:
        """The request's body."""
        if self._beginning:
            self._request.feed(self._beginning)
        complete = self._request_complete or self._caller.content_length == 0
        return self._request.finish(complete=complete, expected=self._caller.content_length)

    def taken_response(self) -> TakenBody:
        """The answer's body, as far as it went out."""
        return TakenBody() if self._response is None else self._response.finish(complete=True)

    def credentials(self) -> list[Secret]:
        """What the caller presented to the gateway or to an upstream."""
        found = [
            Secret(value)
            for name, field in self._caller.headers.fields
            if is_credential(name.decode("latin-1"))
            for value in _credentials_in(name, field.decode("latin-1"))
        ]
        query = parse_qsl(self._caller.query.decode("latin-1"))
        return found + [
            Secret(value)
            for name, value in query
            if name in _QUERY_CREDENTIALS or is_credential(name)
        ]

    def _received(self, body: bytes) -> None:
        if not self._request_complete:
            self._request_complete = True
            self._beginning = b""
            self._copy(self._request, body)

    def _sends(self, headers: bytes) -> None:
        fields = Headers(_fields(headers))
        self.response_headers = fields.fields
        content_type, encoding = fields.get(b"content-type"), fields.get(b"content-encoding")
        self._response = BodyCopy(content_type, encoding, self._keep, self.holding)

    def _copy(self, copy: BodyCopy | None, data: bytes) -> None:
        """Copies what has passed; a failure to costs the payload, never the request."""
        if copy is None:
            return
        try:
            copy.feed(data)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("a payload could not be copied and is given up")
            self.holding.lose()

    # The caller's side, in the words of the port.

    @property
    def on_disconnect(self) -> Callable[[], None] | None:
        return self._caller.on_disconnect

    @on_disconnect.setter
    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._caller.on_disconnect = callback

    @property
    def on_flow(self) -> Callable[[bool], None] | None:
        return self._caller.on_flow

    @on_flow.setter
    def on_flow(self, callback: Callable[[bool], None] | None) -> None:
        self._caller.on_flow = callback

    @property
    def method(self) -> str:
        return self._caller.method

    @property
    def http_version(self) -> str:
        return self._caller.http_version

    @property
    def content_length(self) -> int | None:
        return self._caller.content_length

    @property
    def path(self) -> str:
        return self._caller.path

    @property
    def query(self) -> bytes:
        return self._caller.query

    @property
    def headers(self) -> Headers:
        return self._caller.headers

    @property
    def client_address(self) -> str:
        return self._caller.client_address

    @property
    def started(self) -> bool:
        return self._caller.started

    @property
    def finished(self) -> bool:
        return self._caller.finished

    @property
    def disconnected(self) -> bool:
        return self._caller.disconnected

    @property
    def bytes_out(self) -> int:
        return self._caller.bytes_out

    @property
    def memory(self) -> HeadMemory:
        return self._caller.memory

    @property
    def body_complete(self) -> bool:
        return self._caller.body_complete

    def when_body(self, limit: int, then: Callable[[], None]) -> None:
        self._caller.when_body(limit, then)

    def take_body(self, limit: int) -> bytes:
        body = self._caller.take_body(limit)
        self._received(body)
        return body

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._caller.run(work)

    async def read_body(self, limit: int) -> bytes:
        body = await self._caller.read_body(limit)
        self._received(body)
        return body

    async def read_beginning(self, limit: int) -> bytes:
        beginning = await self._caller.read_beginning(limit)
        if self._caller.body_complete:
            self._received(beginning)
        else:
            self._beginning = beginning  # it comes again when the body is handed over
        return beginning

    def stream_body(self, reader: BodyReader) -> None:
        self._beginning = b""
        copy = partial(self._copy, self._request)
        self._caller.stream_body(_CopyingReader(reader, copy, self._complete))

    def _complete(self) -> None:
        self._request_complete = True

    def pause_body(self) -> None:
        self._caller.pause_body()

    def resume_body(self) -> None:
        self._caller.resume_body()

    def drop_body(self) -> None:
        self._caller.drop_body()

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        self._caller.respond(status, headers, body)
        self._sends(headers)
        if self._caller.bytes_out:
            self._copy(self._response, body)

    def start(
        self, status: int, headers: bytes, length: int | None, *, dated: bool = False
    ) -> None:
        self._caller.start(status, headers, length, dated=dated)
        self._sends(headers)

    def write(self, data: bytes) -> None:
        before = self._caller.bytes_out
        self._caller.write(data)
        if self._caller.bytes_out > before:
            self._copy(self._response, data)

    def finish(self) -> None:
        self._caller.finish()

    def abort(self) -> None:
        self._caller.abort()


class _CopyingReader:
    """Hands a body on, and copies it."""

    def __init__(
        self, reader: BodyReader, copy: Callable[[bytes], None], complete: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._copy = copy
        self._complete = complete

    def piece(self, data: bytes) -> None:
        self._reader.piece(data)
        self._copy(data)

    def complete(self) -> None:
        self._complete()
        self._reader.complete()

    def failed(self, error: RelayError) -> None:
        self._reader.failed(error)


def _credentials_in(name: bytes, value: str) -> list[str]:
    if name.lower() in (b"cookie", b"set-cookie"):
        cookies = (one.partition("=")[2].strip() for one in value.split(";"))
        return [cookie for cookie in cookies if len(cookie) >= _MANY_CHARACTERS]
    scheme, _, credential = value.strip().partition(" ")
    return [credential.strip() or scheme]


def _fields(block: bytes) -> list[Header]:
    fields = []
    for line in block.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon:
            fields.append((name, value.strip()))
    return fields
