"""What a wire format promises: meters that nothing upsets, errors and lists in its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from relay_gateway.plugin import (
    CONTENT,
    FAILED,
    LAST,
    TERMINAL,
    USAGE_ONLY,
    ListedModel,
    Problem,
    Reading,
    UsageMeter,
    WireFormat,
)

FLAGS = CONTENT | USAGE_ONLY | TERMINAL | FAILED | LAST
NONSENSE: tuple[bytes, ...] = (
    b"",
    b"{",
    b"null",
    b"7",
    b'"text"',
    b"[]",
    b"[null]",
    b"{}",
    b'{"usage":null}',
    b'{"usage":7}',
    b'{"usage":{"total_tokens":{}}}',
    b'{"choices":null}',
    b'{"choices":[null]}',
    b'{"choices":{}}',
    b'{"type":7}',
    b'{"error":null}',
    b"\xff\xfe",
    b'{"a":"\xc3"}',
    b"[" * 5000,
    b"<html>502 Bad Gateway</html>",
)
"""Bodies and events that real hosts have sent in place of their format."""
BAD_FIGURES: tuple[object, ...] = (-1, 1.5, "7", True, None, 10**30, [], {})


@dataclass(frozen=True, slots=True)
class AnswerSample:
    """A whole answer of a host in one wire format, and what its meter must read from it."""

    wire_format: str
    body: bytes
    reading: Reading


@dataclass(frozen=True, slots=True)
class StreamSample:
    """A complete stream as pairs of event name (empty when there is none) and data."""

    wire_format: str
    events: Sequence[tuple[bytes, bytes]]
    reading: Reading
    usage_only: Sequence[int] = field(default_factory=tuple)
    """Indexes of the events that carry nothing but usage figures."""


class WireFormatConformance:
    """Subclass and provide ``formats``, ``answer_samples`` and ``stream_samples``."""

    @pytest.fixture
    def formats(self) -> Mapping[str, WireFormat]:
        """The wire formats to be tested, by name."""
        raise NotImplementedError

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        """At least one whole answer for each format that the provider defines."""
        raise NotImplementedError

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        """At least one stream for each format that the provider defines and that streams."""
        raise NotImplementedError

    def test_names_and_paths_have_their_form(self, formats: Mapping[str, WireFormat]) -> None:
        for name, wire_format in formats.items():
            family, _, operation = name.partition(".")
            assert family, f"{name!r} is not of the form family.operation"
            assert operation, f"{name!r} is not of the form family.operation"
            assert wire_format.name == name
            for endpoint in wire_format.endpoints:
                assert endpoint.path.startswith("/v1"), f"{endpoint.path}: not below /v1"
                assert endpoint.upstream_path.startswith("/")

    def test_each_format_has_samples(
        self,
        formats: Mapping[str, WireFormat],
        answer_samples: Sequence[AnswerSample],
        stream_samples: Sequence[StreamSample],
    ) -> None:
        answered = {sample.wire_format for sample in answer_samples}
        streamed = {sample.wire_format for sample in stream_samples}
        for name, wire_format in formats.items():
            assert name in answered, f"no whole answer of {name} is tested"
            if any(endpoint.streams for endpoint in wire_format.endpoints):
                assert name in streamed, f"no stream of {name} is tested"

    def test_a_whole_answer_is_read(
        self, formats: Mapping[str, WireFormat], answer_samples: Sequence[AnswerSample]
    ) -> None:
        for sample in answer_samples:
            meter = formats[sample.wire_format].meter()
            meter.body(sample.body)
            assert meter.reading == sample.reading

    def test_a_stream_is_read_and_its_end_is_seen(
        self, formats: Mapping[str, WireFormat], stream_samples: Sequence[StreamSample]
    ) -> None:
        for sample in stream_samples:
            wire_format = formats[sample.wire_format]
            meter = wire_format.meter()
            flags = _feed(meter, sample.events)
            assert meter.reading == sample.reading
            only = [index for index, flag in enumerate(flags) if flag & USAGE_ONLY]
            assert only == list(sample.usage_only), "exactly these events may be withheld"
            assert any(flag & CONTENT for flag in flags), "no event was flagged CONTENT"
            if wire_format.stream_ends_with_terminal:
                assert any(flag & TERMINAL for flag in flags), (
                    "no event was flagged TERMINAL: each such stream would count as broken off"
                )
                before = _feed(wire_format.meter(), sample.events[:1])
                assert not before[0] & TERMINAL, "the first event already ends the stream"

    def test_the_last_event_is_followed_by_nothing_that_counts(
        self, formats: Mapping[str, WireFormat], stream_samples: Sequence[StreamSample]
    ) -> None:
        for sample in stream_samples:
            meter = formats[sample.wire_format].meter()
            for event in sample.events:
                flags = meter.event(*event)
                if flags & LAST:
                    assert flags & TERMINAL, "an event flagged LAST is not flagged TERMINAL"
                    assert meter.reading == sample.reading, (
                        "an event was flagged LAST before all figures had come: what was used is "
                        "written down then, and what comes later is not billed"
                    )

    def test_meters_share_nothing(
        self, formats: Mapping[str, WireFormat], answer_samples: Sequence[AnswerSample]
    ) -> None:
        for sample in answer_samples:
            first, second = (formats[sample.wire_format].meter() for _ in range(2))
            first.body(sample.body)
            assert second.reading == Reading(), "two answers at once would mix their figures"

    def test_nonsense_between_events_changes_nothing_and_never_raises(
        self, formats: Mapping[str, WireFormat], stream_samples: Sequence[StreamSample]
    ) -> None:
        for sample in stream_samples:
            for nonsense in NONSENSE:
                meter = formats[sample.wire_format].meter()
                noisy = [(b"", nonsense)]
                for event in sample.events:
                    noisy += [event, (b"", nonsense), (b"x-unknown", nonsense)]
                _feed(meter, noisy)
                assert meter.reading.tokens == sample.reading.tokens, f"upset by {nonsense[:40]!r}"

    def test_nonsense_in_place_of_an_answer_is_no_usage(
        self, formats: Mapping[str, WireFormat]
    ) -> None:
        for wire_format in formats.values():
            for nonsense in NONSENSE:
                meter = wire_format.meter()
                meter.body(nonsense)
                assert meter.reading.tokens == {}

    def test_a_stream_cut_anywhere_is_read_as_far_as_it_came(
        self, formats: Mapping[str, WireFormat], stream_samples: Sequence[StreamSample]
    ) -> None:
        for sample in stream_samples:
            for end in range(len(sample.events)):
                meter = formats[sample.wire_format].meter()
                _feed(meter, sample.events[:end])
                _assert_figures(meter.reading)

    @pytest.mark.parametrize("bad", BAD_FIGURES, ids=repr)
    def test_figures_that_are_none_are_ignored(
        self,
        formats: Mapping[str, WireFormat],
        answer_samples: Sequence[AnswerSample],
        stream_samples: Sequence[StreamSample],
        bad: object,
    ) -> None:
        for answer in answer_samples:
            meter = formats[answer.wire_format].meter()
            meter.body(_with_figures(answer.body, bad))
            _assert_figures(meter.reading)
        for stream in stream_samples:
            meter = formats[stream.wire_format].meter()
            _feed(meter, [(name, _with_figures(data, bad)) for name, data in stream.events])
            _assert_figures(meter.reading)

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (400, "invalid_request"),
            (401, "invalid_api_key"),
            (403, "model_not_allowed"),
            (404, "model_not_found"),
            (413, "request_too_large"),
            (429, "rate_limit_exceeded"),
            (500, "internal_error"),
            (502, "upstream_unreachable"),
            (503, "no_available_host_key"),
            (504, "upstream_timeout"),
        ],
    )
    def test_each_dialect_can_word_an_error(
        self, formats: Mapping[str, WireFormat], status: int, code: str
    ) -> None:
        problem = Problem(status, code, 'say "é"\n', param="model", request_id="r1")
        for dialect in {wire_format.dialect for wire_format in formats.values()}:
            answered, body = dialect().error(problem)
            assert answered // 100 == status // 100, f"{code} became {answered}"
            assert 'say "é"\n' in _strings(json.loads(body)), "the message is lost"
            event = dialect().error_event(problem)
            assert event.endswith(b"\n\n"), "an error event ends with an empty line"
            assert b"data:" in event

    def test_each_dialect_can_list_models(self, formats: Mapping[str, WireFormat]) -> None:
        model = ListedModel("acme/large", "Acme Large", "acme", 1_767_225_600)
        for dialect in {wire_format.dialect for wire_format in formats.values()}:
            assert "acme/large" in _strings(json.loads(dialect().models([model])))
            assert "acme/large" in _strings(json.loads(dialect().model(model)))
            json.loads(dialect().models([]))


def _feed(meter: UsageMeter, events: Sequence[tuple[bytes, bytes]]) -> list[int]:
    flags = [meter.event(name, data) for name, data in events]
    assert all(0 <= flag <= FLAGS for flag in flags), "event() returns a sum of the five flags"
    return flags


def _assert_figures(reading: Reading) -> None:
    for name, figure in (*reading.tokens.items(), *reading.units.items()):
        assert type(figure) is int, f"{name} is {figure!r}: not an integer"
        assert 0 <= figure < 1 << 63, f"{name} is {figure}: out of range"


def _with_figures(data: bytes, bad: object) -> bytes:
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data
    return json.dumps(_replaced(value, bad)).encode()


def _replaced(value: object, bad: object) -> object:
    if isinstance(value, dict):
        return {key: _replaced(item, bad) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, bad) for item in value]
    return bad if isinstance(value, int | float) and not isinstance(value, bool) else value


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
