"""Guards at work: which of them look at a request and its answer, and what comes of it.

Without guards nothing here is called: the choice is made when they are put up, not per request.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from relay_gateway.errors import (
    FAULTS,
    PluginError,
    PluginUnavailableError,
    RequestRefusedError,
)
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.translate import Translation, Translator
from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse
from relay_gateway.plugin.guards import (
    Allow,
    Guard,
    Refuse,
    Replace,
    Requester,
)
from relay_gateway.plugin.usage import GuardDeed, GuardPhase, GuardVisit

GUARD_UNAVAILABLE: Final = "guard_unavailable"
LONGEST_REASON: Final = 300
_NOUNS: Final = {"request": "this request", "response": "the answer", "stream": "the answer"}

ContentT = TypeVar("ContentT", CanonicalRequest, CanonicalResponse)
Report = Callable[[str, BaseException], None]
Decision = tuple[str, GuardPhase, GuardDeed, bool]
"""Guard, phase, what it did, and whether that was a dry run."""

_log = logging.getLogger(__name__)


class Post(msgspec.Struct, frozen=True):
    """A guard in its place: itself, and what of its section decides where it stands."""

    guard: Guard[Any]
    is_open: Callable[[], bool]

    @property
    def name(self) -> str:
        """What configuration calls the guard."""
        return self.guard.name

    @property
    def dry_run(self) -> bool:
        """Whether it only reports."""
        return bool(self.guard.config.dry_run)

    def covers(self, call: Call) -> bool:
        """Whether the request is one of those that it guards."""
        scope = self.guard.config
        if call.mode not in scope.modes:
            return False
        if scope.endpoints and call.endpoint.name not in scope.endpoints:
            return False
        policy = call.policy.slug if call.policy is not None else None
        return not scope.policies or policy in scope.policies


class GuardLedger(msgspec.Struct):
    """What guards have done in this process. ``report`` counts a plugin's failure."""

    report: Report
    decisions: Counter[Decision] = msgspec.field(default_factory=Counter)

    def note(self, call: Call, post: Post, phase: GuardPhase, did: GuardDeed, took: float) -> None:
        """Writes down one visit, which took so many seconds."""
        self.decisions[post.name, phase, did, post.dry_run] += 1
        milliseconds = int(took * 1e6) / 1000
        call.guards = (*call.guards, GuardVisit(post.name, phase, did, milliseconds, post.dry_run))
        if post.dry_run and did != "allowed":
            words = "request %s: the guard %s, which is on a dry run, would have %s the %s"
            _log.info(words, call.request_id, post.name, did, phase)


class Guarding:
    """The guards of a process, in order."""

    def __init__(self, posts: Sequence[Post], translator: Translator, ledger: GuardLedger) -> None:
        self._posts = tuple(posts)
        self._translator = translator
        self._ledger = ledger

    def watch(self, call: Call) -> Watch | None:
        """Those that guard this request, whose caller is known; ``None`` if there is none."""
        posts = [post for post in self._posts if post.covers(call)]
        return Watch(call, posts, self._translator, self._ledger) if posts else None


class Watch:
    """One request and its answer before the guards that cover it.

    ``answers`` are those that will look at the answer, ``translation`` the request as they read it.
    """

    def __init__(
        self, call: Call, posts: Sequence[Post], translator: Translator, ledger: GuardLedger
    ) -> None:
        self.call = call
        self.ledger = ledger
        self.who = _requester(call)
        self.answers: list[Post] = []
        self.translation: Translation | None = None
        self._posts = posts
        self._translator = translator

    async def request(self, body: bytes) -> bytes:
        """The body as it goes on: itself, unless a guard changes the request.

        Raises :class:`RequestRefusedError`.
        """
        translation = self._read(body)
        if translation is None:
            return body
        request, changed_by = translation.request, []
        for post in self._posts:
            if post.guard.reads_requests:
                before = request
                request = await self._judged(post, "request", post.guard.inspect_request, request)
                changed_by += [post] if request is not before else []
        self.answers = [post for post in self._posts if self._will_read_answer(post)]
        codec = translation.caller
        written = self._written(
            "request", changed_by, lambda: codec.encode_request(request, request.model).body
        )
        return body if written is None else written

    async def unchanged(self, body: bytes) -> None:
        """Has the guards judge a request of which every byte goes on as it is, and whose answer
        does so too. Raises :class:`RequestRefusedError`."""
        translation = self._read(body)
        if translation is None:
            return
        request = translation.request
        for post in self._posts:
            if post.guard.reads_requests:
                judged = await self._judged(post, "request", post.guard.inspect_request, request)
                if judged is not request:
                    self.unreadable(post, "request", "may not be changed in proxy mode")
            if post.guard.reads_responses:
                self.unreadable(post, "response", "is not looked at in proxy mode")

    async def response(self, response: CanonicalResponse, translation: Translation) -> bytes | None:
        """A whole answer in the caller's format as guards have changed it; ``None`` where they have
        not. Raises :class:`RequestRefusedError`."""
        changed_by = []
        for post in self.answers:
            before, judge = response, post.guard.inspect_response
            response = await self._judged(post, "response", judge, response)
            changed_by += [post] if response is not before else []
        codec, context = translation.caller, translation.context
        return self._written(
            "response", changed_by, lambda: codec.encode_response(response, context)
        )

    def all_unreadable(self, phase: GuardPhase, reason: str) -> None:
        """The same as :meth:`unreadable` for all guards that would have looked."""
        for post in self.answers if phase != "request" else self._posts:
            self.unreadable(post, phase, reason)

    def unreadable(self, post: Post, phase: GuardPhase, reason: str) -> None:
        """A guard cannot do its work on what is there. Raises :class:`RequestRefusedError` if it
        then lets nothing go on."""
        self.ledger.note(self.call, post, phase, "unreadable", 0.0)
        if post.guard.fails_closed and not post.dry_run:
            raise self._refusal(post, phase, Refuse(f"it {reason}"))

    def failed(self, post: Post, phase: GuardPhase, took: float, error: BaseException) -> None:
        """A guard did not come to a judgement. Raises :class:`RequestRefusedError` likewise."""
        self.ledger.note(self.call, post, phase, "failed", took)
        if post.guard.fails_closed and not post.dry_run:
            raise unavailable(post, phase) from error

    def refused(self, post: Post, phase: GuardPhase, took: float, judgement: Refuse) -> None:
        """Raises the refusal, unless it is a dry run."""
        self.ledger.note(self.call, post, phase, "refused", took)
        if not post.dry_run:
            raise self._refusal(post, phase, judgement)

    def _refusal(self, post: Post, phase: GuardPhase, judgement: Refuse) -> RequestRefusedError:
        reason = " ".join(judgement.reason.split())[:LONGEST_REASON]
        message = f"the guard {post.name!r} refused {_NOUNS[phase]}: {reason}"
        return RequestRefusedError(judgement.status, judgement.code, message)

    async def _judged(
        self,
        post: Post,
        phase: GuardPhase,
        inspect: Callable[[ContentT, Requester], Any],
        content: ContentT,
    ) -> ContentT:
        """``content`` as one guard lets it go on."""
        began = time.perf_counter()
        try:
            judgement = await self._asked(post, inspect, content)
        except FAULTS as error:
            self.failed(post, phase, time.perf_counter() - began, error)
            return content
        took = time.perf_counter() - began
        if isinstance(judgement, Refuse):
            self.refused(post, phase, took, judgement)
            return content
        if judgement is None:
            self.ledger.note(self.call, post, phase, "allowed", took)
            return content
        self.ledger.note(self.call, post, phase, "changed", took)
        return content if post.dry_run else judgement

    async def _asked(
        self,
        post: Post,
        inspect: Callable[[ContentT, Requester], Awaitable[Any]],
        content: ContentT,
    ) -> ContentT | Refuse | None:
        """What the guard says: ``None`` to let ``content`` go on as it is."""
        if not post.is_open():
            raise PluginUnavailableError(f"the guard {post.name!r} is not open")
        judgement = await inspect(content, self.who)
        if isinstance(judgement, Allow):
            return None
        if isinstance(judgement, Refuse) and is_sound(judgement):
            return judgement
        if isinstance(judgement, Replace) and type(judgement.content) is type(content):
            replaced: ContentT = judgement.content
            return None if replaced is content else _as_asked(replaced, content)
        error = PluginError(f"answered {type(judgement).__name__}, which is no judgement of this")
        self.ledger.report(post.name, error)
        raise error

    def _will_read_answer(self, post: Post) -> bool:
        if not post.guard.reads_responses:
            return False
        if self.call.streamed and not post.guard.reads_streams:
            self.unreadable(post, "stream", "cannot read an answer in a stream")
            return False
        return True

    def _read(self, body: bytes) -> Translation | None:
        """The request in the neutral form; ``None`` where there is none, and every guard lets go on
        what it cannot read."""
        call = self.call
        if call.form is not None or not self._translator.reads(call.wire_format.name):
            self.all_unreadable("request", "cannot read what is sent to this endpoint")
            return None
        try:
            self.translation = self._translator.begin(
                call.wire_format.name,
                body,
                call.requested_model or "",
                streamed=call.streamed,
                answer_id=call.request_id,
                now=call.started_ns // 1_000_000_000,
            )
            _refuse_repeated_members(body)
        except RequestRefusedError as error:
            self.translation = None
            self.all_unreadable("request", f"cannot read it: {error.message}")
        return self.translation

    def _written(
        self, phase: GuardPhase, changed_by: Sequence[Post], write: Callable[[], bytes]
    ) -> bytes | None:
        """What guards have made, in the caller's own format; ``None`` where that is nothing."""
        if not changed_by:
            return None
        try:
            return write()
        except FAULTS as error:
            for post in changed_by:
                self.ledger.report(post.name, error)
                self.failed(post, phase, 0.0, error)
        return None


def unavailable(post: Post, phase: GuardPhase) -> RequestRefusedError:
    """What a caller is told where a guard did not come to a judgement."""
    return RequestRefusedError(
        503,
        GUARD_UNAVAILABLE,
        f"the guard {post.name!r} could not judge {_NOUNS[phase]}, which does not go on without "
        "it; try again later",
        retry_after=1,
    )


def is_sound(judgement: Refuse) -> bool:
    """Whether a refusal is one of the caller, and not of the gateway or a host."""
    return 400 <= judgement.status < 500


def _requester(call: Call) -> Requester:
    return Requester(
        request_id=call.request_id,
        endpoint=call.endpoint.name,
        wire_format=call.wire_format.name,
        mode=call.mode,
        model=call.requested_model,
        streamed=call.streamed,
        relay_key=call.relay_key.slug if call.relay_key is not None else None,
        policy=call.policy.slug if call.policy is not None else None,
        tags=call.tags,
    )


def _as_asked(replaced: ContentT, content: ContentT) -> ContentT:
    """``replaced`` with the members of a request that no guard decides: it was routed by them."""
    if not isinstance(replaced, CanonicalRequest):
        return replaced
    kept = {name: getattr(content, name) for name in ("model", "stream", "origin")}
    return msgspec.structs.replace(replaced, **kept)


def _refuse_repeated_members(body: bytes) -> None:
    """Of members that come twice, a guard would read one and a host perhaps the other. Raises
    :class:`RequestRefusedError`."""
    try:
        json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise RequestRefusedError(400, "ambiguous_body", str(error)) from error


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a member of the body is there twice")
