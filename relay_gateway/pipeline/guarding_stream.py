"""A streamed answer before the guards: event by event, without waiting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from zlib import crc32

from relay_gateway.errors import FAULTS, PluginError, RequestRefusedError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.carrier import Accounts, Interruptible
from relay_gateway.pipeline.forward import Forwarder
from relay_gateway.pipeline.guarding import Post, Watch, is_sound, unavailable
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.taps import TranslatingTap
from relay_gateway.pipeline.translate import Translation
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Failed,
    ReasoningDelta,
    RefusalDelta,
    StreamEvent,
    TextDelta,
)
from relay_gateway.plugin.guards import Refuse, StreamGuard
from relay_gateway.plugin.usage import GuardDeed
from relay_gateway.plugin.wire import UsageMeter

_DELTAS = TextDelta | RefusalDelta | ReasoningDelta | ArgumentsDelta


class Texts:
    """What was said in each part so far, however it was cut, as sums."""

    def __init__(self) -> None:
        self._sums: dict[tuple[type, int], int] = {}

    def add(self, events: Sequence[StreamEvent]) -> None:
        """Takes what the events say."""
        for event in events:
            if isinstance(event, _DELTAS):
                key = type(event), event.index
                self._sums[key] = crc32(
                    event.text.encode("utf-8", "replace"), self._sums.get(key, 0)
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts) and self._sums == other._sums

    __hash__ = None  # type: ignore[assignment]  # it changes


class Reader:
    """One guard that reads the stream. What it fails to judge goes on if it may, and only where
    nothing is missing that the guard had held back."""

    def __init__(self, post: Post, watch: Watch) -> None:
        self._post = post
        self._watch = watch
        self._given, self._gone = Texts(), Texts()
        self._took = 0.0
        self._guard: StreamGuard | None = None
        if not post.guard.reads_streams:
            # Nobody has asked for a stream, and the host has sent one.
            watch.unreadable(post, "stream", "cannot read an answer in a stream")
            return
        try:
            if not post.is_open():
                raise PluginError(f"the guard {post.name!r} is not open")
            self._guard = post.guard.inspect_stream(watch.who)
        except FAULTS as error:
            self._fail(error)

    def feed(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """What goes on in place of ``event``. Raises :class:`RequestRefusedError`."""
        if self._guard is None:
            return (event,)
        began = time.perf_counter()
        try:
            events = _sound(self._guard.event(event))
        except FAULTS as error:
            self._fail(error)
            return (event,)
        finally:
            self._took += time.perf_counter() - began
        if isinstance(events, Refuse):
            return self._refuse(events, event)
        self._given.add((event,))
        self._gone.add(events)
        return (event,) if self._post.dry_run else events

    def conclude(self) -> None:
        """The stream has ended: the visit is written down, if it was not before."""
        if self._guard is not None:
            did: GuardDeed = "allowed" if self._given == self._gone else "changed"
            self._watch.ledger.note(self._watch.call, self._post, "stream", did, self._took)
            self._guard = None

    def _refuse(self, judgement: Refuse, event: StreamEvent) -> Sequence[StreamEvent]:
        self._guard = None
        self._watch.refused(self._post, "stream", self._took, judgement)
        return (event,)

    def _fail(self, error: BaseException) -> None:
        self._guard = None
        self._watch.ledger.report(self._post.name, error)
        self._watch.failed(self._post, "stream", self._took, error)
        if not self._post.dry_run and self._given != self._gone:
            raise unavailable(self._post, "stream") from error


class GuardingTap(TranslatingTap):
    """A stream that is written anew, and guarded on the way."""

    def __init__(
        self, call: Call, meter: UsageMeter, translation: Translation, watch: Watch
    ) -> None:
        super().__init__(call, meter, translation)
        self._readers = [Reader(post, watch) for post in watch.answers]

    def conclude(self) -> None:
        """The stream has ended, one way or another."""
        for reader in self._readers:
            reader.conclude()

    def _write(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if isinstance(event, Failed):
                super()._write((event,))  # the host's own words about its failure
                continue
            passed: Sequence[StreamEvent] = (event,)
            for reader in self._readers:
                passed = [one for each in passed for one in reader.feed(each)]
            super()._write(passed)


class GuardedForwarder(Forwarder):
    """Carries a guarded stream. A refusal ends it, with an error as its last event."""

    __slots__ = ()

    def __init__(
        self,
        call: Call,
        caller: Caller,
        exchange: Exchange,
        accounts: Accounts,
        running: set[Interruptible],
        tap: GuardingTap,
    ) -> None:
        super().__init__(call, caller, exchange, _Concluding(accounts, tap), running, tap)

    def data(self, chunk: bytes) -> None:
        """A piece of the answer."""
        try:
            super().data(chunk)
        except RequestRefusedError as error:
            self._end_with(error)

    def end(self) -> None:
        """The body is complete."""
        try:
            super().end()
        except RequestRefusedError as error:
            self._end_with(error)

    def _end_with(self, error: RequestRefusedError) -> None:
        self._exchange.cancel()
        self._call.fail("rejected", error.code)
        self._break_off(error.status, error.code, error.message, self._tap.held())


class _Concluding:
    """Has guards tell what they did before the request is accounted for."""

    __slots__ = ("_accounts", "_tap")

    def __init__(self, accounts: Accounts, tap: GuardingTap) -> None:
        self._accounts = accounts
        self._tap = tap

    def account(self, call: Call, caller: Caller, unsent: int) -> None:
        self._tap.conclude()
        self._accounts.account(call, caller, unsent)

    def settle(self, call: Call, caller: Caller) -> None:
        self._tap.conclude()
        self._accounts.settle(call, caller)


def _sound(events: Sequence[StreamEvent] | Refuse) -> Sequence[StreamEvent] | Refuse:
    if isinstance(events, Refuse) and not is_sound(events):
        raise PluginError(f"refused a stream with the status {events.status}")
    if not isinstance(events, Refuse | list | tuple):
        raise PluginError(f"answered {type(events).__name__} in place of events of a stream")
    return events
