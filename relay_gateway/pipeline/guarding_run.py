"""One inference request that guards look at: on its way to a host, and on its way back.

Requests that no guard looks at go the way of :class:`Pipeline`, which knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from relay_gateway.errors import RequestRefusedError, UpstreamError, UpstreamProtocolError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.first_event import is_stream
from relay_gateway.pipeline.guarding import Guarding, Watch
from relay_gateway.pipeline.guarding_stream import GuardedForwarder, GuardingTap
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.refusals import Refusal, is_about_the_answer, refusal_of
from relay_gateway.pipeline.route import Plan
from relay_gateway.pipeline.run import Pipeline
from relay_gateway.pipeline.taps import JSON, meter_body, readable_type
from relay_gateway.pipeline.translate import Translation, read_whole

_UNREAD = "cannot read an answer of this type"


class GuardedPipeline(Pipeline):
    """A pipeline with a second beginning, for when there are guards."""

    guarding: Guarding | None = None

    def begin_guarded(
        self, call: Call, caller: Caller, refused: RequestRefusedError | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """As :meth:`begin`, with the guards of this moment."""
        if refused is not None or self.guarding is None:
            return self.begin(call, caller, refused)
        return self._guard(call, caller, self._answer_guarded(call, caller, self.guarding))

    async def _answer_guarded(self, call: Call, caller: Caller, guarding: Guarding) -> None:
        caller = self._authenticate(call, caller)
        body = await caller.read_body(self._max_request_bytes)
        plan = self._plan(call, caller, body)
        watch = guarding.watch(call)
        if watch is None:
            await self._admit(call, caller, plan)
            return
        await self._admission.admit(call, plan)
        judged = await watch.request(body)
        if judged is not body:
            plan = self._plan(call, caller, judged)
            call.bytes_in = len(body)
        if watch.answers:
            await self._ask_watched(call, caller, plan, watch)
        else:
            await self._ask(call, caller, plan)

    async def _ask_watched(self, call: Call, caller: Caller, plan: Plan, watch: Watch) -> None:
        answer = await self._dispatcher.dispatch(call, plan, caller)
        if isinstance(answer, Refusal):
            self._pass_on(call, caller, answer)
            return
        translation = call.translation or watch.translation
        if translation is None:
            raise RuntimeError("a guard that reads answers has read no request")
        if is_stream(answer):
            self._deliver_stream(call, caller, answer, watch, translation)
        elif call.translation is not None or readable_type(answer).startswith(JSON):
            await self._deliver_whole(call, caller, answer, watch, translation)
        else:
            await self._deliver_unread(call, caller, answer, watch)

    def _deliver_stream(
        self, call: Call, caller: Caller, answer: Exchange, watch: Watch, translation: Translation
    ) -> None:
        call.status, call.streamed, call.translation = answer.status, True, translation
        call.body, call.body_for_usage = b"", None
        meter = (call.upstream_format or call.wire_format).meter()
        try:
            tap = GuardingTap(call, meter, translation, watch)
        except RequestRefusedError as error:
            answer.cancel()
            raise self._kept_back(call, error) from error
        headers = self._wire.answer_headers(call, answer)
        forwarder = GuardedForwarder(call, caller, answer, self, self._running, tap)
        call.reading = meter.reading
        forwarder.begin(headers)

    async def _deliver_whole(
        self, call: Call, caller: Caller, answer: Exchange, watch: Watch, translation: Translation
    ) -> None:
        """An answer of which the caller gets nothing before all of it was judged."""
        told = translation.told
        if call.translation is None:
            translation.received = told = await self._received(call, answer)
        call.last_byte_at = call.first_byte_at
        meter = (call.upstream_format or call.wire_format).meter()
        call.reading = meter.reading
        meter_body(meter, translation.received)
        call.status = answer.status
        changed = await self._judged(call, watch, translation)
        if changed is not None:
            call.translation, told = translation, changed
        headers = self._wire.answer_headers(call, answer)
        self._dispatcher.delivered(call)
        self._answers.respond(call, caller, answer.status, headers, told)

    async def _judged(self, call: Call, watch: Watch, translation: Translation) -> bytes | None:
        """What guards have made of a whole answer; ``None`` for nothing."""
        try:
            try:
                response = translation.upstream_codec.decode_response(translation.received)
            except UpstreamProtocolError:
                watch.all_unreadable("response", _UNREAD)
                return None
            changed = await watch.response(response, translation)
        except RequestRefusedError as error:
            raise self._kept_back(call, error) from error
        if changed is not None and call.translation is None:
            call.dropped += tuple(f"answer.{one}" for one in response.dropped)
        return changed

    async def _received(self, call: Call, answer: Exchange) -> bytes:
        try:
            return await read_whole(answer)
        except UpstreamError as error:
            answer.cancel()
            if is_about_the_answer(error):
                call.broke_off = error.reason
            call.fail("upstream_error", error.reason)
            self._dispatcher.delivered(call)
            raise refusal_of(error) from error

    async def _deliver_unread(
        self, call: Call, caller: Caller, answer: Exchange, watch: Watch
    ) -> None:
        try:
            watch.all_unreadable("response", _UNREAD)
        except RequestRefusedError as error:
            answer.cancel()
            raise self._kept_back(call, error) from error
        self._deliver(call, caller, answer)

    def _kept_back(self, call: Call, error: RequestRefusedError) -> RequestRefusedError:
        """``error`` in place of an answer: its host has done its part."""
        self._dispatcher.delivered(call)
        call.fail("rejected", error.code)
        return error
