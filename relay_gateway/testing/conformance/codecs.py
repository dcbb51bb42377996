"""What codecs promise: nothing of a conversation is lost silently, and a stream is what the whole
answer is, wherever it is cut."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError, UpstreamProtocolError
from relay_gateway.http.sse import EventSplitter
from relay_gateway.plugin import AnswerContext, WireCodec
from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalRequest,
    CanonicalResponse,
    Failed,
    Finished,
    Ping,
    Reasoning,
    StopKind,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    seal,
)
from relay_gateway.plugin.canonical.features import Feature, Support
from relay_gateway.plugin.canonical.presence import features_of
from relay_gateway.testing.answer_pieces import assembled, events_of, read_stream
from relay_gateway.testing.conformance.wire_formats import NONSENSE
from relay_gateway.testing.conversations import (
    ANSWERS,
    LOGPROBS,
    NAMES,
    TWO_CALLS,
    answer,
    answers,
    feature_requests,
    request,
    requests,
)

_property = settings(
    max_examples=40,
    deadline=None,
    # A codec has no state that one example could leave to the next one, or one class to another.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)

EVERY_BYTE_OF = 1500
"""Streams up to so many bytes are cut at every byte, of longer ones the beginning."""


@dataclass(frozen=True, slots=True)
class ConversationSample:
    """A request as a client of the format sends it.

    ``model`` and ``streamed`` are what its path says, for formats whose bodies do not; ``defaults``
    are words in it that say no more than their absence; ``free`` are the members whose objects are
    the caller's own (schemas, arguments, tags).
    """

    name: str
    body: bytes
    model: str = ""
    streamed: bool = False
    defaults: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()


def decoded(codec: WireCodec, sample: ConversationSample) -> CanonicalRequest:
    """The canonical form of a sample."""
    return codec.decode_request(sample.body, model=sample.model, streamed=sample.streamed)


def context(asked: CanonicalRequest | None = None) -> AnswerContext:
    """What an answer is written for: a caller who wants to know usage."""
    asked = asked or request(stream=True)
    asked.stream_usage = True
    return AnswerContext(asked, "0198a", 1_790_000_000)


class CodecConformance:
    """Subclass and provide ``codec``, ``conversations`` and ``recorded_streams``."""

    @pytest.fixture
    def codec(self) -> WireCodec:
        """The codec to be tested; it is stateless."""
        raise NotImplementedError

    @pytest.fixture
    def conversations(self) -> Sequence[ConversationSample]:
        """Requests of the format, together with everything it can say."""
        raise NotImplementedError

    @pytest.fixture
    def recorded_streams(self) -> Sequence[bytes]:
        """Streams of the format that end regularly."""
        raise NotImplementedError

    def test_it_says_what_becomes_of_every_feature(self, codec: WireCodec) -> None:
        missing = [feature.name for feature in Feature if feature not in codec.features]
        assert not missing, f"nothing is declared for {missing}"
        for feature, fate in codec.features.items():
            if fate.support in (Support.APPROXIMATED, Support.REFUSED):
                assert fate.note, f"{feature.name}: callers need to know how or what instead"
            if fate.support is Support.CARRIED:
                assert fate.name, f"{feature.name} is carried in a member that has a name"

    @pytest.mark.parametrize("feature", list(Feature), ids=lambda feature: feature.name)
    def test_a_feature_meets_the_fate_that_is_declared(
        self, codec: WireCodec, feature: Feature
    ) -> None:
        fate, asked = codec.features[feature], feature_requests(codec.format)[feature]
        present = features_of(asked, codec.format)
        assert feature in present, "the sample does not ask for it"
        # The detail of an image cannot be asked for without an image, which may be refused itself.
        hard = {each for each in present if codec.features[each].support is Support.REFUSED}
        if hard:
            with pytest.raises(RequestRefusedError) as refused:
                codec.encode_request(asked, "m")
            assert refused.value.status == 400
            assert refused.value.param in {NAMES[each] for each in hard}, (
                "it names the field of the caller"
            )
            return
        encoded = codec.encode_request(asked, "m")
        assert (NAMES[feature] in encoded.dropped) == (fate.support is Support.DROPPED)
        if fate.support is Support.CARRIED:
            back = codec.decode_request(encoded.body, model="m")
            assert feature in features_of(back, codec.format), f"lost in {encoded.body!r}"

    def test_a_conversation_survives_its_own_format(
        self, codec: WireCodec, conversations: Sequence[ConversationSample]
    ) -> None:
        for sample in conversations:
            first = decoded(codec, sample)
            encoded = codec.encode_request(first, first.model)
            assert encoded.dropped == (), f"{sample.name}: {encoded.dropped}"
            again = codec.decode_request(encoded.body, model=first.model, streamed=sample.streamed)
            assert said(again) == said(first), sample.name
            lost = set(_strings(json.loads(sample.body))) - set(_strings(json.loads(encoded.body)))
            lost -= sample.defaults
            assert not lost, f"{sample.name}: the texts {lost} are gone"

    def test_encoding_changes_nothing_of_what_it_encodes(
        self, codec: WireCodec, conversations: Sequence[ConversationSample]
    ) -> None:
        for sample in conversations:
            first = decoded(codec, sample)
            before = copy.deepcopy(said(first))
            one = codec.encode_request(first, "m")
            assert said(first) == before, sample.name
            assert codec.encode_request(first, "m") == one, "the same request, the same bytes"

    @_property
    @given(asked=requests())
    def test_a_generated_request_is_stable_after_it_was_written_once(
        self, codec: WireCodec, asked: CanonicalRequest
    ) -> None:
        before = copy.deepcopy(said(asked))
        hard = [
            feature
            for feature in features_of(asked, codec.format)
            if codec.features[feature].support is Support.REFUSED
        ]
        if hard:
            with pytest.raises(RequestRefusedError) as refused:
                codec.encode_request(asked, "m")
            assert refused.value.param in [NAMES[feature] for feature in hard]
            return
        first = codec.encode_request(asked, "m")
        assert said(asked) == before
        read = codec.decode_request(first.body, model="m", streamed=asked.stream)
        again = codec.encode_request(read, "m")
        assert again.dropped == (), "what the format said itself it can say again"
        assert said(codec.decode_request(again.body, model="m", streamed=asked.stream)) == said(
            read
        )
        assert texts_of(read) == texts_of(asked), "the words, the calls and their results"

    @pytest.mark.parametrize("name", ANSWERS)
    def test_an_answer_is_told_whole(self, codec: WireCodec, name: str) -> None:
        told = codec.encode_response(ANSWERS[name], context())
        assert_same(codec.decode_response(told), ANSWERS[name])

    @_property
    @given(told=answers(), piece=st.integers(1, 9), interleaved=st.booleans())
    def test_a_generated_answer_is_told_whole_and_in_pieces(
        self,
        codec: WireCodec,
        told: CanonicalResponse,
        piece: int,
        interleaved: bool,  # noqa: FBT001 - a value that is generated
    ) -> None:
        assert_same(codec.decode_response(codec.encode_response(told, context())), told)
        body = stream_of(codec, told, piece, interleaved=interleaved)
        assert_same(assembled(read_stream(codec.stream_decoder(), [body])), told)

    @pytest.mark.parametrize("name", ANSWERS)
    def test_a_stream_is_the_same_wherever_it_is_cut(self, codec: WireCodec, name: str) -> None:
        body = stream_of(codec, ANSWERS[name])
        whole = read_stream(codec.stream_decoder(), [body])
        assert_same(assembled(whole), ANSWERS[name])
        for cut in range(1, min(len(body), EVERY_BYTE_OF)):
            pieces = [body[:cut], body[cut:]]
            assert read_stream(codec.stream_decoder(), pieces) == whole, f"cut at {cut}"
        every = [body[place : place + 1] for place in range(len(body))]
        assert read_stream(codec.stream_decoder(), every) == whole, "byte by byte"

    def test_calls_written_side_by_side_come_out_whole(self, codec: WireCodec) -> None:
        told = answer(*TWO_CALLS, stop=StopKind.TOOL_CALLS)
        body = stream_of(codec, told, interleaved=True)
        assert_same(assembled(read_stream(codec.stream_decoder(), [body])), told)

    def test_a_stream_that_is_cut_off_never_finishes(
        self, codec: WireCodec, recorded_streams: Sequence[bytes]
    ) -> None:
        for body in recorded_streams:
            whole = read_stream(codec.stream_decoder(), [body])
            assembled(whole)
            end = _last_event(codec, body)
            for cut in range(0, end, 7):
                events = read_stream(codec.stream_decoder(), [body[:cut]])
                assert not any(isinstance(event, Finished) for event in events), f"cut at {cut}"
                assert events == whole[: len(events)], f"cut at {cut}"

    def test_recorded_streams_are_the_same_wherever_they_are_cut(
        self, codec: WireCodec, recorded_streams: Sequence[bytes]
    ) -> None:
        for body in recorded_streams:
            whole = read_stream(codec.stream_decoder(), [body])
            for cut in range(1, min(len(body), EVERY_BYTE_OF)):
                assert read_stream(codec.stream_decoder(), [body[:cut], body[cut:]]) == whole

    @pytest.mark.parametrize("stop", list(StopKind), ids=lambda kind: kind.name)
    def test_every_reason_to_stop_can_be_told(self, codec: WireCodec, stop: StopKind) -> None:
        told = answer(Text("So"), stop=stop)
        back = codec.decode_response(codec.encode_response(told, context()))
        streamed = assembled(read_stream(codec.stream_decoder(), [stream_of(codec, told)]))
        assert back.stop.kind is streamed.stop.kind
        if stop in (StopKind.END, StopKind.LENGTH, StopKind.REFUSAL):
            assert back.stop.kind is stop

    def test_logprobs_are_told_where_they_can_be_asked_for(self, codec: WireCodec) -> None:
        told = answer(Text("Sunny"), logprobs=LOGPROBS)
        back = codec.decode_response(codec.encode_response(told, context()))
        streamed = assembled(read_stream(codec.stream_decoder(), [stream_of(codec, told)]))
        if codec.features[Feature.LOGPROBS].support is Support.REFUSED:
            assert back.logprobs is None
            return
        for found in (back.logprobs, streamed.logprobs):
            assert found is not None
            assert [(one.token, one.logprob) for one in found] == [
                (one.token, one.logprob) for one in LOGPROBS
            ]
            assert [len(one.top) for one in found] == [1, 0]

    def test_an_error_inside_a_stream_is_told(self, codec: WireCodec) -> None:
        encoder = codec.stream_encoder(context())
        body = b"".join(encoder.encode(event) for event in events_of(ANSWERS["text"])[:3])
        body += encoder.encode(Failed(529, "overloaded_error", "try again later"))
        events = read_stream(codec.stream_decoder(), [body])
        assert isinstance(events[-1], Failed), "the caller would take the answer for complete"
        assert events[-1].message == "try again later"
        assert not any(isinstance(event, Finished) for event in events)

    def test_a_quiet_stream_may_say_that_it_lives(self, codec: WireCodec) -> None:
        encoder = codec.stream_encoder(context())
        events = events_of(ANSWERS["text"])
        body = b"".join(encoder.encode(event) for each in events[:-1] for event in (each, Ping()))
        body += encoder.encode(events[-1])
        read = read_stream(codec.stream_decoder(), [body])
        assert_same(assembled(read), ANSWERS["text"])

    @pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
    def test_nonsense_is_refused_and_nothing_else_is_raised(
        self, codec: WireCodec, body: bytes
    ) -> None:
        with pytest.raises(RequestRefusedError):
            codec.decode_request(body)
        with pytest.raises(UpstreamProtocolError):
            codec.decode_response(body)
        try:
            codec.stream_decoder().event(b"", body)
        except UpstreamProtocolError:
            return

    def test_no_member_is_read_past(
        self, codec: WireCodec, conversations: Sequence[ConversationSample]
    ) -> None:
        for sample in conversations:
            body = json.loads(sample.body)
            for path, changed in _with_unknown(body, sample.free):
                encoded = json.dumps(changed).encode()
                with contextlib.suppress(RequestRefusedError):
                    read = codec.decode_request(encoded, model=sample.model)
                    unheld = [each.path for each in read.origin.unheld]
                    assert any(_covers(each, path) for each in unheld), f"{path} is ignored"

    def test_a_member_of_another_type_is_refused_or_named(
        self, codec: WireCodec, conversations: Sequence[ConversationSample]
    ) -> None:
        for sample in conversations:
            body = json.loads(sample.body)
            for name in body:
                changed = json.dumps(body | {name: [[1]]}).encode()
                with contextlib.suppress(RequestRefusedError):
                    read = codec.decode_request(changed, model=sample.model)
                    unheld = [each.path for each in read.origin.unheld]
                    assert any(path.startswith(name) for path in unheld), f"{name} is ignored"

    def test_unknown_members_are_kept_for_their_own_format(
        self, codec: WireCodec, conversations: Sequence[ConversationSample]
    ) -> None:
        sample = conversations[0]
        body = json.dumps(json.loads(sample.body) | {"x_unheard_of": {"a": 1}}).encode()
        read = codec.decode_request(body, model=sample.model)
        assert b"x_unheard_of" in codec.encode_request(read, "m").body


def _with_unknown(
    value: object, free: frozenset[str], path: str = ""
) -> Iterator[tuple[str, object]]:
    """``value`` with a member that nobody knows, once in each of its objects, and where."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            for place, changed in _with_unknown(inner, free, f"{path}[{index}]"):
                yield place, [*value[:index], changed, *value[index + 1 :]]
    elif isinstance(value, dict):
        place = f"{path}.x_unheard_of" if path else "x_unheard_of"
        yield place, value | {"x_unheard_of": "?"}
        for name, inner in value.items():
            if name not in free:
                below = f"{path}.{name}" if path else name
                for deeper, changed in _with_unknown(inner, free, below):
                    yield deeper, value | {name: changed}


def _covers(unheld: str, path: str) -> bool:
    """Whether what is not held at ``unheld`` is at ``path`` or has it inside."""
    return path.startswith(unheld.removesuffix(".type"))


def stream_of(
    codec: WireCodec, told: CanonicalResponse, piece: int = 3, *, interleaved: bool = False
) -> bytes:
    """The bytes of ``told`` as a stream."""
    encoder = codec.stream_encoder(context())
    events = events_of(told, piece, interleaved=interleaved)
    return b"".join(encoder.encode(event) for event in events)


def said(asked: CanonicalRequest) -> CanonicalRequest:
    """What a request says, without where it came from."""
    bare = copy.copy(asked)
    bare.origin = type(asked.origin)()
    return bare


def texts_of(asked: CanonicalRequest) -> list[str]:
    """Every text, call and result of a conversation, in order."""
    return list(_texts(asked))


def _texts(asked: CanonicalRequest) -> Iterator[str]:
    for message in asked.messages:
        for part in message.parts:
            if isinstance(part, Text):
                yield part.text
            elif isinstance(part, ToolCall):
                arguments = msgspec.json.decode(part.arguments or "{}")
                yield f"{part.name} {json.dumps(arguments, sort_keys=True)}"
            elif isinstance(part, ToolResult):
                yield from (each.text for each in part.parts if isinstance(each, Text))


def assert_same(found: CanonicalResponse, wanted: CanonicalResponse) -> None:
    """That an answer says the same, up to how texts are divided into parts."""
    assert _shape(found) == _shape(wanted)
    for told, kept in zip(_blobs(found), _blobs(wanted), strict=True):
        assert seal(kept) in told.data, "the client has nothing to give back to its provider"
    assert found.stop.kind is wanted.stop.kind
    assert (found.id, found.model) == (wanted.id, wanted.model)
    assert _figures(found.usage) == _figures(wanted.usage)


def _shape(told: CanonicalResponse) -> list[object]:
    shape: list[object] = []
    for part in told.parts:
        if isinstance(part, ToolCall):
            shape.append((part.id, part.name, msgspec.json.decode(part.arguments or "{}")))
        elif isinstance(part, Reasoning):
            shape.append("\n\n".join(part.summary or part.content))
        elif isinstance(part, Text):
            shape.append(part.text)
    return shape


def _blobs(told: CanonicalResponse) -> list[Blob]:
    return [
        part.blob for part in told.parts if isinstance(part, Reasoning) and part.blob is not None
    ]


def _figures(usage: Usage) -> tuple[int, ...]:
    """The figures that every format tells."""
    return (usage.input or 0, usage.output or 0, usage.cache_read or 0, usage.reasoning or 0)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _last_event(codec: WireCodec, body: bytes) -> int:
    """Where the first event begins without which the stream does not finish."""
    place = 0
    for raw in EventSplitter().feed(body):
        events = read_stream(codec.stream_decoder(), [body[: place + len(raw)]])
        if any(isinstance(event, Finished) for event in events):
            return place
        place += len(raw)
    raise AssertionError("the recorded stream does not end regularly")
