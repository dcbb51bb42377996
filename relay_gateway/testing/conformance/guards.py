"""What a guard promises: of requests, of whole answers, of answers in a stream."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from relay_gateway.plugin import Allow, Guard, GuardConfig, Refuse, Replace, Requester
from relay_gateway.plugin.canonical import (
    Base64,
    CanonicalRequest,
    CanonicalResponse,
    Document,
    Finished,
    Image,
    Message,
    NativePart,
    PartStarted,
    PartStopped,
    PlainText,
    Reasoning,
    Started,
    Stop,
    StopKind,
    StreamEvent,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    UsageSeen,
)
from relay_gateway.testing.answer_pieces import assembled

MakeGuard = Callable[[], Guard]
WHO = Requester("0198c0de-0000-7000-8000-000000000001", "chat.completions", "acme.chat")
LONG = 200_000
"""Characters of a text that is long for a guard."""
PATIENCE = 5.0
"""So many times its own deadline may a guard take for such a text, on a slow machine."""
MOST_HELD = 64 * 1024
"""Characters of a stream's text that a guard may hold back."""


def asked(*messages: Message) -> CanonicalRequest:
    """A request of these messages."""
    return CanonicalRequest(model="acme-large", messages=messages)


def asked_with(text: str) -> CanonicalRequest:
    """A request in which a user says ``text``."""
    return asked(Message("system", (Text("Be brief."),)), Message("user", (Text(text),)))


def odd_requests() -> list[CanonicalRequest]:
    """Requests of every kind of content, of which none is of a kind to be objected to."""
    call = ToolCall("call_1", "get_weather", '{"city": "Zürich"}')
    result = ToolResult("call_1", (Text("18 degrees"), NativePart({"type": "odd", "deep": [None]})))
    return [
        asked(),
        asked_with(""),
        asked(Message("user", ())),
        asked(Message("assistant", (call, ToolCall("2", "x", "no json")))),
        asked(Message("tool", (result,)), Message("user", (Image(Base64("image/png", "aa")),))),
        asked(Message("user", (Document(PlainText("text"), "name"), NativePart({"type": "odd"})))),
        asked(Message("assistant", (Reasoning(("thought",), ("more",)), Text("\ud800 half")))),
        msgspec.structs.replace(asked_with("Hello"), tools=(Tool("get_weather", "w", {}),)),
    ]


def answered(text: str) -> CanonicalResponse:
    """An answer that says ``text``."""
    return CanonicalResponse(
        id="a-1",
        model="acme-large",
        parts=(Text(text),),
        stop=Stop(StopKind.END),
        usage=Usage(input=3, output=5),
    )


def streamed(text: str, size: int) -> list[StreamEvent]:
    """The same as a stream, cut into pieces of ``size`` characters."""
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    return [
        Started("a-1", "acme-large"),
        PartStarted(0, Text("")),
        *(TextDelta(0, piece) for piece in pieces),
        PartStopped(0),
        UsageSeen(Usage(input=3, output=5)),
        Finished(Stop(StopKind.END)),
    ]


async def judged(answer: Any) -> Any:
    """The judgement of an inspection, which may be one to await."""
    return await answer if inspect.isawaitable(answer) else answer


class GuardConformance:
    """Subclass and provide ``make_guard`` and ``objectionable``."""

    @pytest.fixture
    def make_guard(self) -> MakeGuard:
        """Makes a guard, not opened yet, that objects to ``objectionable``."""
        raise NotImplementedError

    @pytest.fixture
    def objectionable(self) -> str:
        """A text, of one to a hundred characters, that the guard refuses or changes wherever people
        and models say it."""
        raise NotImplementedError

    @pytest.fixture
    def harmless(self) -> str:
        """A text that it lets go on; override it for a guard that objects to greetings."""
        return "Grüezi 👋, how are you?"

    @pytest.fixture
    async def guard(self, make_guard: MakeGuard) -> AsyncIterator[Guard]:
        """An opened guard."""
        guard = make_guard()
        await guard.aopen()
        yield guard
        await guard.aclose()

    async def test_it_bears_being_closed_unopened_and_twice(self, make_guard: MakeGuard) -> None:
        guard = make_guard()
        await guard.aclose()
        await guard.aopen()
        await guard.aclose()
        await guard.aclose()

    def test_its_section_has_what_every_guard_can_be_told(self, make_guard: MakeGuard) -> None:
        guard = make_guard()
        assert isinstance(guard.config, GuardConfig), "Config must be a subclass of GuardConfig"
        assert guard.on_failure in ("open", "closed")
        assert guard.deadline > 0, "a guard without a deadline could hold a request for ever"

    def test_it_reads_requests_or_answers(self, guard: Guard) -> None:
        assert guard.reads_requests or guard.reads_responses, "otherwise nobody would ever ask it"
        assert guard.reads_responses or not guard.reads_streams, (
            "where it reads streams it must read whole answers too: a caller chooses"
        )

    async def test_a_harmless_request_goes_on_as_it_is(self, guard: Guard, harmless: str) -> None:
        if guard.reads_requests:
            judgement = await judged(guard.inspect_request(asked_with(harmless), WHO))
            assert isinstance(judgement, Allow), f"it says {judgement} to {harmless!r}"

    async def test_requests_of_every_kind_are_judged(self, guard: Guard) -> None:
        for request in odd_requests() if guard.reads_requests else ():
            judgement = await judged(guard.inspect_request(request, WHO))
            assert isinstance(judgement, Allow | Replace | Refuse), request

    async def test_what_it_objects_to_does_not_go_on(
        self, guard: Guard, objectionable: str
    ) -> None:
        if guard.reads_requests:
            request = asked_with(f"Look: {objectionable} is it.")
            before = msgspec.json.encode(request)
            judgement = await judged(guard.inspect_request(request, WHO))
            _assert_kept_back(judgement, objectionable)
            assert msgspec.json.encode(request) == before, "it has changed the request in place"

    async def test_many_at_once_are_judged_alike(
        self, guard: Guard, harmless: str, objectionable: str
    ) -> None:
        if guard.reads_requests:
            texts = [harmless, objectionable] * 20
            requests = [asked_with(text) for text in texts]
            found = await asyncio.gather(
                *(judged(guard.inspect_request(request, WHO)) for request in requests)
            )
            assert [isinstance(one, Allow) for one in found] == [True, False] * 20

    async def test_a_long_text_is_judged_in_time(self, guard: Guard, objectionable: str) -> None:
        if guard.reads_requests:
            began = time.perf_counter()
            text = "a" * LONG + objectionable[:1] * LONG
            await judged(guard.inspect_request(asked_with(text), WHO))
            assert time.perf_counter() - began < PATIENCE * max(guard.seconds, 1.0), (
                "a caller can keep the gateway busy with a long text"
            )


class ResponseGuardConformance(GuardConformance):
    """For a guard with ``reads_responses = True``: provide the same."""

    def test_it_says_that_it_reads_answers(self, guard: Guard) -> None:
        assert guard.reads_responses

    async def test_a_harmless_answer_goes_on_as_it_is(self, guard: Guard, harmless: str) -> None:
        judgement = await judged(guard.inspect_response(answered(harmless), WHO))
        assert isinstance(judgement, Allow), f"it says {judgement} to {harmless!r}"

    async def test_an_answer_that_it_objects_to_does_not_go_on(
        self, guard: Guard, objectionable: str
    ) -> None:
        response = answered(f"Look: {objectionable} is it.")
        before = msgspec.json.encode(response)
        judgement = await judged(guard.inspect_response(response, WHO))
        _assert_kept_back(judgement, objectionable)
        assert msgspec.json.encode(response) == before, "it has changed the answer in place"


class StreamGuardConformance(ResponseGuardConformance):
    """For a guard with ``reads_streams = True``: provide the same."""

    def test_it_says_that_it_reads_streams(self, guard: Guard) -> None:
        assert guard.reads_streams

    @pytest.mark.parametrize("size", [1, 3, 7, 1000])
    def test_a_harmless_stream_goes_on_whole(self, guard: Guard, harmless: str, size: int) -> None:
        text = harmless * 30
        events, refusal = _through(guard, streamed(text, size))
        assert refusal is None
        answer = assembled(events)
        assert "".join(part.text for part in answer.parts if isinstance(part, Text)) == text
        assert (answer.usage, answer.stop) == (Usage(input=3, output=5), Stop(StopKind.END))

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    def test_what_it_objects_to_does_not_go_on_however_it_is_cut(
        self, guard: Guard, objectionable: str, size: int
    ) -> None:
        events, refusal = _through(guard, streamed(f"Look: {objectionable} is it.", size))
        told = _told(events)
        assert objectionable not in told
        if refusal is None:
            assembled(events)
        else:
            _assert_kept_back(refusal, objectionable)
            assert told in f"Look: {objectionable}"[: -len(objectionable)], (
                "a part of what it refuses has gone out before"
            )

    def test_it_holds_back_no_more_than_a_bounded_part(self, guard: Guard) -> None:
        made = guard.inspect_stream(WHO)
        given = told = most = 0
        for event in streamed("lorem ipsum " * 20_000, 500):
            given += len(event.text) if isinstance(event, TextDelta) else 0
            passed = made.event(event)
            assert not isinstance(passed, Refuse)
            told += len(_told(passed))
            most = max(most, given - told)
        assert most <= MOST_HELD, "a stream of an hour would be held in memory"
        assert told == given

    def test_streams_side_by_side_do_not_mix(self, guard: Guard, harmless: str) -> None:
        first, second = guard.inspect_stream(WHO), guard.inspect_stream(WHO)
        one, other = streamed(f"1 {harmless}", 2), streamed(f"2 {harmless}", 2)
        told = ["", ""]
        for event, beside in zip(one, other, strict=True):
            for place, (made, given) in enumerate(((first, event), (second, beside))):
                passed = made.event(given)
                assert not isinstance(passed, Refuse)
                told[place] += _told(passed)
        assert told == [f"1 {harmless}", f"2 {harmless}"]


def _assert_kept_back(judgement: Any, text: str) -> None:
    assert isinstance(judgement, Replace | Refuse), f"it lets {text!r} go on"
    if isinstance(judgement, Refuse):
        assert judgement.reason, "a caller must be told why, in general words"
        assert text not in judgement.reason, (
            "the reason quotes what was found; it is shown and kept"
        )
        assert 400 <= judgement.status < 500, "a refusal is no failure of the gateway or a host"
        return
    assert text not in msgspec.json.encode(judgement.content).decode()


def _through(
    guard: Guard, events: Iterable[StreamEvent]
) -> tuple[list[StreamEvent], Refuse | None]:
    """What goes on of a stream, and the refusal that ends it."""
    made = guard.inspect_stream(WHO)
    gone: list[StreamEvent] = []
    for event in events:
        passed = made.event(event)
        if isinstance(passed, Refuse):
            return gone, passed
        gone += passed
    return gone, None


def _told(events: Sequence[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))
