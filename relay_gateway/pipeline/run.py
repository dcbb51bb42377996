"""One inference request, top to bottom, as the architecture tells it.

The coroutine ends when the answer has begun; from there the forwarder is called back per chunk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.errors import FAULTS, RequestRefusedError
from relay_gateway.log import request_id
from relay_gateway.pipeline.arriving import Arriving
from relay_gateway.pipeline.authenticate import Authenticator, check
from relay_gateway.pipeline.body import Members, ask_for_usage, read_members
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.capture import Payloads, is_wanted
from relay_gateway.pipeline.carrier import INTERRUPTED, Interruptible
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.form import boundary_of, read_form
from relay_gateway.pipeline.forward import STOPPING, Forwarder, take_whole
from relay_gateway.pipeline.opening import Opening, Ready
from relay_gateway.pipeline.output_limit import bounded_output
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.refusals import Refusal, concealed
from relay_gateway.pipeline.reply import Reply
from relay_gateway.pipeline.route import Plan, Router, Speak, untranslated
from relay_gateway.pipeline.settle import Deliver, Settlement
from relay_gateway.pipeline.taps import asked_units, meter_body
from relay_gateway.pipeline.translate import Translation
from relay_gateway.pipeline.turn import Turn
from relay_gateway.pipeline.waiting import Waiting
from relay_gateway.pipeline.whole_answers import WholeAnswers
from relay_gateway.pipeline.wording import Wire
from relay_gateway.plugin.usage import Outcome

_log = logging.getLogger(__name__)

Step = tuple[Call, Caller, Plan, Ready] | Coroutine[Any, Any, None] | None
"""What comes next for a request: its upstream is asked, it goes on in a task, or nothing, because
it is answered."""


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
        speak: Speak = untranslated,
        payloads: Payloads | None = None,
    ) -> None:
        self._live = live
        self._payloads = payloads
        self._authenticator = authenticator
        self._router = Router(speak)
        self._dispatcher = dispatcher
        self._admission = dispatcher.admission
        self._settlement = Settlement(deliver, dispatcher.admission)
        self._wire = wire
        self._max_request_bytes = max_request_bytes
        self._running: set[Interruptible] = set()
        self._ledger = dispatcher.ledger
        self._turn: Turn[Waiting] = Turn(self._begin_together, self._answer_together)
        self._answers = WholeAnswers(self._settlement, self._end_with)

    def begin(
        self, call: Call, caller: Caller, refused: RequestRefusedError | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Begins to answer one request; ``refused`` is a refusal that was found before it got here.

        Where there is nothing to wait for but the upstream, callbacks carry the request to its end.
        What is returned instead must be run in a task.
        """
        request_id.set(call.request_id)
        if refused is not None:
            self._refuse(call, caller, refused)
            return None
        if call.deadline is not None:
            return self._run(call, caller)
        if not caller.body_complete:
            self._await_body(call, caller)
            return None
        return self._begin(call, caller)

    def _await_body(self, call: Call, caller: Caller) -> None:
        """Goes on when the body is here; who may not ask is told before that."""
        try:
            caller = self._authenticate(call, caller)
            Arriving(self, self._running, call, caller).begin(self._max_request_bytes)
        except FAULTS as error:  # one request fails, the process goes on
            self._end_with(call, caller, error)

    def arrived(self, call: Call, caller: Caller) -> None:
        """Goes on with a request whose body has come, or will not."""
        request_id.set(call.request_id)
        work = self._begin(call, caller)
        if work is not None:
            caller.run(work)

    def _begin(self, call: Call, caller: Caller) -> Coroutine[Any, Any, None] | None:
        if self._turn.gathers(len(self._running)):
            self._turn.add_request(call, caller)
            return None
        step = self._prepare(call, caller)
        return self._send(*step) if isinstance(step, tuple) else step

    def _begin_together(self, batch: list[tuple[Call, Caller]]) -> None:
        """As :meth:`begin` for each, but no upstream is asked, and nobody answered, before what is
        to be written about all of them is written."""
        answers, steps = self._answers, []
        self._ledger.hold()
        try:
            answers.hold()
            for call, caller in batch:
                request_id.set(call.request_id)
                steps.append((caller, self._prepare(call, caller)))
            answers.account()
        finally:
            self._ledger.release()
            held = answers.release()
        answers.send(held)
        for caller, step in steps:
            work = self._send(*step) if isinstance(step, tuple) else step
            if work is not None:
                caller.run(work)

    def _prepare(self, call: Call, caller: Caller) -> Step:
        """Takes a request to where its upstream can be asked."""
        try:
            if call.relay_key is None:
                caller = self._authenticate(call, caller)
            plan = self._plan(call, caller, caller.take_body(self._max_request_bytes))
            admitted = self._admission.admit_now(call, plan)
            ready = self._dispatcher.prepare(call, plan, caller) if admitted else None
        except FAULTS as error:  # one request fails, the process goes on
            self._end_with(call, caller, error)
            return None
        if not admitted:
            return self._guard(call, caller, self._admit(call, caller, plan))
        if ready is None:
            return self._guard(call, caller, self._ask(call, caller, plan))
        return call, caller, plan, ready

    def _send(
        self, call: Call, caller: Caller, plan: Plan, ready: Ready
    ) -> Coroutine[Any, Any, None] | None:
        """Asks the upstream; what is to be done in a task where no connection is idle."""
        try:
            opening = self._dispatcher.send(call, ready)
        except FAULTS as error:  # one request fails, the process goes on
            self._end_with(call, caller, error)
            return None
        if opening is None:
            return self._guard(call, caller, self._ask(call, caller, plan))
        Waiting(self, self._running, call, caller, plan, opening).begin()
        return None

    def headed(self, waiting: Waiting) -> None:
        """Goes on with an answer whose head has come, alone or with others."""
        waiting.headed_at = self._dispatcher.now()
        if self._turn.gathers(len(self._running)):
            self._turn.add_answer(waiting)
        else:
            waiting.go_on()

    def _answer_together(self, batch: list[Waiting]) -> None:
        """Goes on with each; whole answers go out when all of them are accounted for."""
        answers = self._answers
        answers.hold()
        try:
            for one in batch:
                one.go_on()
            self._ledger.hold()
            try:
                answers.account()
            finally:
                self._ledger.release()
        finally:
            held = answers.release()
        answers.send(held)

    def carry(
        self, call: Call, caller: Caller, work: Coroutine[Any, Any, None]
    ) -> Coroutine[Any, Any, None]:
        """``work`` that answers a request in a way of its own, and ends as every request does."""
        return self._guard(call, caller, work)

    @property
    def without_task(self) -> int:
        """How many requests are under way without a task."""
        return len(self._running) + self._turn.waiting

    def interrupt(self) -> None:
        """Ends every answer that is under way without a task, and says so to its caller.

        Other requests are ended by cancelling their task.
        """
        self._turn.end()
        for one in list(self._running):
            one.interrupt()

    def answered(self, call: Call, caller: Caller, opening: Opening, now: float) -> None:
        """Delivers what the first attempt brought at ``now``."""
        try:
            self._dispatcher.opened(call, opening.began, opening.exchange.status, now)
            self._deliver(call, caller, opening.exchange)
        except FAULTS as error:  # one request fails, the process goes on
            self._end_with(call, caller, error)

    def go_on(self, call: Call, caller: Caller, plan: Plan, opening: Opening) -> None:
        """Goes on in a task where the first attempt brought something else."""
        caller.run(self._guard(call, caller, self._ask(call, caller, plan, opening)))

    def caller_gone(self, call: Call, caller: Caller) -> None:
        """Closes a request that nobody waits for any more."""
        call.fail("cancelled", "client_closed")
        self._settlement.settle(call, caller)

    def interrupted(self, call: Call, caller: Caller) -> None:
        """Refuses a request because the gateway stops."""
        self._refuse(call, caller, _interrupted())

    async def _run(self, call: Call, caller: Caller) -> None:
        await self._guard(call, caller, self._answer(call, caller))

    async def _guard(self, call: Call, caller: Caller, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` within the request's deadline, and ends the request where it fails."""
        request_id.set(call.request_id)
        try:
            if call.deadline is None:
                await work
            else:
                async with asyncio.timeout_at(call.deadline):
                    await work
        except asyncio.CancelledError:
            if not caller.disconnected:
                self.interrupted(call, caller)
                raise
            self.caller_gone(call, caller)
        except TimeoutError:
            self._refuse(call, caller, _deadline_passed())
        except FAULTS as error:  # one request fails, the process goes on
            self._end_with(call, caller, error)

    async def _answer(self, call: Call, caller: Caller) -> None:
        caller = self._authenticate(call, caller)
        plan = self._plan(call, caller, await caller.read_body(self._max_request_bytes))
        await self._admit(call, caller, plan)

    async def _admit(self, call: Call, caller: Caller, plan: Plan) -> None:
        await self._admission.admit(call, plan)
        await self._ask(call, caller, plan)

    async def _ask(
        self, call: Call, caller: Caller, plan: Plan, opening: Opening | None = None
    ) -> None:
        answer = await self._dispatcher.dispatch(call, plan, caller, opening)
        if isinstance(answer, Refusal):
            self._pass_on(call, caller, answer)
        elif call.translation is not None and not call.streamed:
            self._deliver_translated(call, caller, answer, call.translation)
        else:
            self._deliver(call, caller, answer)

    def _pass_on(self, call: Call, caller: Caller, answer: Refusal) -> None:
        call.status = answer.status
        call.fail("upstream_error", "upstream_error")
        exposed = call.snapshot.settings.inference.expose_upstream_errors
        if not exposed or not answer.legible:
            raise concealed(answer)
        if answer.wire_format is call.wire_format and answer.problem is None:
            headers = self._wire.answer_headers(call, answer)
            reply = Reply(answer.status, headers, answer.body)
        else:
            reply = self._wire.retell(call, answer)
        self._answers.respond(call, caller, *reply)

    def _deliver_translated(
        self, call: Call, caller: Caller, answer: Exchange, translation: Translation
    ) -> None:
        call.last_byte_at = call.first_byte_at
        meter = (call.upstream_format or call.wire_format).meter()
        call.reading = meter.reading
        meter_body(meter, translation.received)
        call.status = answer.status
        headers = self._wire.answer_headers(call, answer)
        self._dispatcher.delivered(call)
        self._answers.respond(call, caller, answer.status, headers, translation.told)

    def _deliver(self, call: Call, caller: Caller, answer: Exchange) -> None:
        call.status = answer.status
        # Nobody is asked again, and a stream may last for an hour.
        call.body, call.body_for_usage = b"", None
        headers = self._wire.answer_headers(call, answer)
        body = take_whole(call, answer) if answer.body_complete else None
        if body is None:
            Forwarder(call, caller, answer, self, self._running).begin(headers)
            return
        self._dispatcher.delivered(call)
        self._answers.respond(call, caller, answer.status, headers, body)

    def account(self, call: Call, caller: Caller, unsent: int) -> None:
        """Accounts for an answer before its last ``unsent`` bytes go out."""
        if not call.settled:
            self._dispatcher.delivered(call)
            self._settlement.account(call, caller, unsent)

    def settle(self, call: Call, caller: Caller) -> None:
        """Closes a request whose answer has ended."""
        self.account(call, caller, 0)
        self._settlement.settle(call, caller)

    def _authenticate(self, call: Call, caller: Caller) -> Caller:
        """Takes the key into ``call``; answers whom to answer, which is one who keeps the payload
        where that is wanted."""
        facts = call.facts
        found = facts.presented if facts is not None else None
        if found is None:
            found = self._authenticator.find(call.snapshot, caller.headers)
        check(found, call.client_address, call.started_ns / 1e9)
        call.relay_key = key = found.key
        if facts is not None and facts.presented is not None:
            call.policy, captured = facts.policy, facts.captured
        else:
            call.policy = call.snapshot.policy_of(key)
            captured = self._payloads is not None and is_wanted(call)
            if facts is not None:
                facts.presented, facts.policy, facts.captured = found, call.policy, captured
        if key.tags:
            call.tags = {**key.tags, **call.tags}
        if captured and self._payloads is not None:
            return self._payloads.around(call, caller)
        return caller

    def _plan(self, call: Call, caller: Caller, body: bytes) -> Plan:
        call.body = body
        call.bytes_in = len(body)
        if call.path_model is None:
            call.requested_model, stream, members = _members(call, caller, body)
            call.streamed = stream and call.endpoint.streams
        else:
            call.requested_model, call.streamed = call.path_model, call.endpoint.streams
            members = None
        plan = self._route(call, call.requested_model)
        call.model = plan.model
        if plan.deprecation is not None:
            call.deprecation, call.replaced = plan.deprecation, plan.replaced
        call.body = body = _bounded(call, body)
        if call.wire_format.bills_request:
            call.asked_units = asked_units(call.wire_format, body)
        if call.streamed:
            option = call.wire_format.usage_option
            if option is not None and call.snapshot.settings.inference.inject_stream_usage:
                call.body_for_usage, call.withhold_usage = ask_for_usage(body, option, members)
        return plan

    def _route(self, call: Call, name: str) -> Plan:
        """The plan for the model called ``name``; mostly that of the caller's last request."""
        facts = call.facts
        if facts is not None and facts.routed is not None and facts.routed[0] == name:
            return facts.routed[1]
        plan = self._router.route(
            call.snapshot,
            call.policy,
            name,
            call.wire_format.name,
            call.pin,
            call.started_ns / 1e9,
        )
        if facts is not None and plan.deprecation is None:  # or another one may follow by itself
            facts.routed = name, plan
        return plan

    def _end_with(self, call: Call, caller: Caller, error: BaseException) -> None:
        if isinstance(error, RequestRefusedError):
            self._refuse(call, caller, error)
        elif caller.disconnected:
            self.caller_gone(call, caller)
        else:
            _log.error("request %s failed", call.request_id, exc_info=error)
            self._refuse(call, caller, _internal_error())

    def _refuse(self, call: Call, caller: Caller, error: RequestRefusedError) -> None:
        caller = call.captured or caller
        call.status = error.status
        call.fail(_outcome(call, error), error.code)
        if not caller.started:
            self._answers.respond(call, caller, *self._wire.refuse(call, error))
            return
        if not caller.finished:
            caller.abort()
        self._settlement.settle(call, caller)


def _members(call: Call, caller: Caller, body: bytes) -> tuple[str, bool, Members | None]:
    """Model and ``stream`` of a body, JSON or a form as its endpoint takes them, and all members
    of JSON where they are known."""
    if call.endpoint.body != "json":
        boundary = boundary_of(caller.headers.get(b"content-type"))
        if boundary is not None:
            call.form = form = read_form(body, boundary)
            return form.model, form.stream, None
    return read_members(body)


def _bounded(call: Call, body: bytes) -> bytes:
    """The body with the policy's maximum of tokens, where it has one and the caller none."""
    policy, model = call.policy, call.model
    if policy is None or policy.max_output_tokens is None or call.form is not None:
        return body
    most = policy.max_output_tokens
    if model is not None and model.max_output_tokens is not None:
        most = min(most, model.max_output_tokens)
    return bounded_output(call.wire_format, body, most, policy.slug)


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
