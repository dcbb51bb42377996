"""Payload capture: both bodies of requests that opted in, redacted and handed over.

A request opts in with its policy or its relay key, where the section ``payload-logging`` is
enabled and names a logger. Its caller is then one that copies. When the request is closed, a thread
redacts the copies, and they go on to delivery. Nothing of this can be felt by the request: a
payload for which there is no memory is dropped, and one that cannot be redacted is withheld.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import msgspec

from relay_gateway.catalog.payload_rules import compile_rules, is_credential
from relay_gateway.http.message import Header
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.capture_body import Holding, Room, TakenBody
from relay_gateway.pipeline.capture_caller import CapturingCaller
from relay_gateway.pipeline.capture_text import assembled_text
from relay_gateway.pipeline.capture_types import Kind
from relay_gateway.pipeline.payload_redaction import Hidden, redact, redact_text
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.settle import timestamp
from relay_gateway.plugin.payloads import PayloadRecord
from relay_gateway.plugin.wire import WireFormat
from relay_gateway.secret import Secret

DeliverPayload = Callable[[PayloadRecord], bool | None]
"""Takes a payload, if there is room for it; ``False`` where there is none."""
CAPTURED: Final = "captured"
DROPPED: Final = "dropped"
WITHHELD: Final = "withheld"
RESULTS: Final = (CAPTURED, DROPPED, WITHHELD)
"""What becomes of a payload: it is handed over, given up for want of memory or time, or kept back
because it could not be redacted."""
MEMORY_BYTES: Final = 64 * 1024 * 1024
MAX_HEADER_VALUE: Final = 4096

_log = logging.getLogger(__name__)


class _Job(msgspec.Struct, frozen=True):
    """A payload that is to be redacted."""

    request_id: str
    started_ns: int
    relay_key_id: str | None
    policy_id: str | None
    wire_format: WireFormat
    request: TakenBody
    response: TakenBody
    request_headers: tuple[Header, ...]
    response_headers: tuple[Header, ...]
    keep: int
    rules: tuple[str, ...]
    credentials: tuple[Secret, ...]


class Payloads:
    """Captures payloads and hands them to ``deliver``. All that are under way together hold at most
    ``memory_bytes``."""

    def __init__(self, deliver: DeliverPayload, memory_bytes: int = MEMORY_BYTES) -> None:
        self.counts: Counter[str] = Counter()
        """How many payloads came to each of :data:`RESULTS`."""
        self._deliver = deliver
        self._room = Room(memory_bytes)
        self._executor: ThreadPoolExecutor | None = None
        self._ended = False
        self._running: set[asyncio.Future[PayloadRecord]] = set()

    @property
    def held_bytes(self) -> int:
        """What payloads hold right now."""
        return self._room.taken

    def around(self, call: Call, caller: Caller) -> Caller:
        """``caller``, copying what passes."""
        if call.captured is None:
            keep = call.snapshot.settings.payload_logging.max_bytes
            closed = partial(self._closed, call)
            call.captured = CapturingCaller(caller, keep, Holding(self._room), closed)
        return call.captured

    async def aclose(self, deadline: float) -> None:
        """Waits at most ``deadline`` seconds for payloads that are being redacted."""
        if self._running:
            await asyncio.wait(self._running, timeout=deadline)
        for future in list(self._running):
            future.cancel()
        self._ended = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _closed(self, call: Call, captured: CapturingCaller) -> None:
        if captured.holding.lost:
            self._lose(DROPPED, "there was no memory for it")
            return
        if self._ended:
            captured.holding.release()
            self._lose(DROPPED, "the gateway ended")
            return
        try:
            job = _job(call, captured)
        except Exception as error:  # noqa: BLE001 - a request is closed whatever this is
            captured.holding.lose()
            self._lose(WITHHELD, f"it could not be read ({type(error).__name__})")
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="relay-payloads")
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._executor, _record_of, job)
        self._running.add(future)
        future.add_done_callback(partial(self._redacted, captured.holding))

    def _redacted(self, holding: Holding, future: asyncio.Future[PayloadRecord]) -> None:
        self._running.discard(future)
        holding.release()
        if future.cancelled():
            self._lose(DROPPED, "the gateway ended")
            return
        error = future.exception()
        if error is not None:
            # What it says may quote what was to be taken out.
            self._lose(WITHHELD, f"it could not be redacted ({type(error).__name__})")
            return
        if self._deliver(future.result()) is False:
            self._lose(DROPPED, "there was no room for it in the spool")
        else:
            self.counts[CAPTURED] += 1

    def _lose(self, result: str, reason: str) -> None:
        self.counts[result] += 1
        count = self.counts[result]
        if count & (count - 1) == 0:  # each power of two, not each payload
            _log.error("a payload was %s, %d so far: %s", result, count, reason)


def is_wanted(call: Call) -> bool:
    """Whether a request whose caller is known opted in."""
    section = call.snapshot.settings.payload_logging
    if not (section.enabled and section.loggers):
        return False
    key, policy = call.relay_key, call.policy
    return (key is not None and key.payload_logging) or (
        policy is not None and policy.payload_logging
    )


def _job(call: Call, captured: CapturingCaller) -> _Job:
    section = call.snapshot.settings.payload_logging
    kept = frozenset(name.encode("ascii") for name in section.headers if not is_credential(name))
    return _Job(
        call.request_id,
        call.started_ns,
        call.relay_key.id if call.relay_key is not None else None,
        call.policy.id if call.policy is not None else None,
        call.wire_format,
        captured.taken_request(),
        captured.taken_response(),
        _kept(captured.headers.fields, kept),
        _kept(captured.response_headers, kept),
        section.max_bytes,
        section.redact,
        tuple(captured.credentials()),
    )


def _kept(fields: Iterable[Header], names: frozenset[bytes]) -> tuple[Header, ...]:
    if not names:
        return ()
    return tuple(
        (name.lower(), value[:MAX_HEADER_VALUE]) for name, value in fields if name.lower() in names
    )


def _record_of(job: _Job) -> PayloadRecord:
    """The record of a payload, without anything that must not be stored. Raises what redaction
    fails with."""
    hidden = Hidden(compile_rules(job.rules), job.credentials)
    request = redact(job.request, job.keep, hidden)
    response = redact(job.response, job.keep, hidden)
    text = None
    if job.response.kind is Kind.EVENTS:
        text = assembled_text(job.wire_format, response.content)
    return PayloadRecord(
        request_id=job.request_id,
        started_at=timestamp(job.started_ns),
        request=request.content,
        response=response.content,
        request_content_type=redact_text(job.request.content_type, hidden),
        response_content_type=redact_text(job.response.content_type, hidden),
        request_bytes=job.request.size,
        response_bytes=job.response.size,
        request_truncated=job.request.truncated or request.cut,
        response_truncated=job.response.truncated or response.cut,
        request_sha256=job.request.sha256,
        response_sha256=job.response.sha256,
        request_headers=_shown(job.request_headers, hidden),
        response_headers=_shown(job.response_headers, hidden),
        text=None if text is None else redact_text(text, hidden),
        relay_key_id=job.relay_key_id,
        policy_id=job.policy_id,
    )


def _shown(fields: Iterable[Header], hidden: Hidden) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.decode("latin-1"), redact_text(value.decode("latin-1"), hidden))
        for name, value in fields
    )
