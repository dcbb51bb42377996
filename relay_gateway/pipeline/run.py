"""One inference request, top to bottom, as the architecture tells it.

The coroutine ends when the answer has begun; from there the forwarder is called back per chunk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.body import ask_for_usage, read_members
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.dispatch import Dispatcher, Refusal, concealed
from relay_gateway.pipeline.forward import INTERRUPTED, STOPPING, Forwarder
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.route import Plan, Router
from relay_gateway.pipeline.settle import Deliver, Settlement
from relay_gateway.plugin.usage import Outcome

_log = logging.getLogger(__name__)

Answer = Callable[[Call, Exchange | Refusal], bytes]
"""Builds the header block of an answer from that of the upstream."""
Refuse = Callable[[Call, Caller, RequestRefusedError], None]
"""Answers a refusal in the caller's dialect."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How answers are worded; the inference plane knows, the pipeline does not."""

    answer_headers: Answer
    refuse: Refuse


class Pipeline:
    """Carries requests from their first byte to their usage record."""

    def __init__(
        self,
        live: LiveCatalog,
        authenticator: Authenticator,
        dispatcher: Dispatcher,
        deliver: Deliver,
        wire: Wire,
        max_request_bytes: int,
    ) -> None:
        self._live = live
        self._authenticator = authenticator
        self._router = Router()
        self._dispatcher = dispatcher
        self._settlement = Settlement(deliver)
        self._wire = wire
        self._max_request_bytes = max_request_bytes
        self._running: set[Forwarder] = set()

    async def run(
        self, call: Call, caller: Caller, refused: RequestRefusedError | None = None
    ) -> None:
        """Answers one request; ``refused`` is a refusal that was found before it got here.

        Returns when the answer has begun or the request has ended.
        """
        try:
            if refused is not None:
                raise refused
            if call.deadline is None:
                await self._answer(call, caller)
            else:
                async with asyncio.timeout_at(call.deadline):
                    await self._answer(call, caller)
        except RequestRefusedError as error:
            self._refuse(call, caller, error)
        except TimeoutError:
            self._refuse(call, caller, _deadline_passed())
        except asyncio.CancelledError:
            if not caller.disconnected:
                self._refuse(call, caller, _interrupted())
                raise
            self._end_cancelled(call, caller)
        except Exception:  # noqa: BLE001 - one request fails, the process goes on
            if caller.disconnected:
                self._end_cancelled(call, caller)
            else:
                _log.exception("request %s failed", call.request_id)
                self._refuse(call, caller, _internal_error())

    def interrupt(self) -> None:
        """Ends every answer that has begun and is not complete, and says so to its caller.

        Requests whose answer has not begun are ended by cancelling their task.
        """
        for forwarder in list(self._running):
            forwarder.interrupt()

    async def _answer(self, call: Call, caller: Caller) -> None:
        self._authenticate(call, caller)
        plan = await self._route(call, caller)
        answer = await self._dispatcher.dispatch(call, plan, caller.headers)
        call.status = answer.status
        call.body = b""  # nobody is asked again, and a stream may last for an hour
        if isinstance(answer, Refusal):
            call.fail("upstream_error", "upstream_error")
            if not call.snapshot.settings.inference.expose_upstream_errors:
                raise concealed(answer)
            headers = self._wire.answer_headers(call, answer)
            caller.respond(answer.status, headers, answer.body)
            self._settlement.settle(call, caller)
        else:
            headers = self._wire.answer_headers(call, answer)
            settle = self._settlement.settle
            Forwarder(call, caller, answer, settle, self._running).begin(headers)

    def _authenticate(self, call: Call, caller: Caller) -> None:
        key = self._authenticator.authenticate(
            call.snapshot, caller.headers, call.client_address, time.time()
        )
        call.relay_key, call.policy = key, call.snapshot.policy_of(key)
        if key.tags:
            call.tags = {**key.tags, **call.tags}

    async def _route(self, call: Call, caller: Caller) -> Plan:
        call.body = body = await caller.read_body(self._max_request_bytes)
        call.bytes_in = len(body)
        call.requested_model, stream = read_members(body)
        call.streamed = stream and call.endpoint.streams
        plan = self._router.route(
            call.snapshot, call.policy, call.requested_model, call.wire_format.name, call.pin
        )
        call.model = plan.model
        option = call.wire_format.usage_option
        inject = call.snapshot.settings.inference.inject_stream_usage
        if option is not None and call.streamed and inject:
            call.body, call.withhold_usage = ask_for_usage(body, option)
        return plan

    def _end_cancelled(self, call: Call, caller: Caller) -> None:
        call.fail("cancelled", "client_closed")
        self._settlement.settle(call, caller)

    def _refuse(self, call: Call, caller: Caller, error: RequestRefusedError) -> None:
        call.status = error.status
        call.fail(_outcome(call, error), error.code)
        if not caller.started:
            self._wire.refuse(call, caller, error)
        elif not caller.finished:
            caller.abort()
        self._settlement.settle(call, caller)


def _outcome(call: Call, error: RequestRefusedError) -> Outcome:
    if error.code == INTERRUPTED:
        return "aborted"
    if not call.attempts:
        return "rejected"
    return "timeout" if error.status == 504 else "upstream_error"


def _deadline_passed() -> RequestRefusedError:
    return RequestRefusedError(504, "upstream_timeout", "the request's own deadline has passed")


def _interrupted() -> RequestRefusedError:
    return RequestRefusedError(503, "interrupted", STOPPING, retry_after=1)


def _internal_error() -> RequestRefusedError:
    return RequestRefusedError(500, "internal_error", "the gateway failed on this request")
