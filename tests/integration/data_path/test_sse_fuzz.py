"""Streams cut at every byte and at random places, through the forwarder: bytes out are bytes in."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.plugin.wire import WireFormat
from relay_gateway.testing.sse_judge import StreamMaker, forward, judge_stream
from relay_gateway_provider_anthropic.formats import MessagesFormat
from relay_gateway_provider_gemini.formats import GenerateFormat
from relay_gateway_provider_openai.formats import ChatFormat, CompletionsFormat, ResponsesFormat

STREAMS = 10_000
PLUGINS = Path(__file__).parents[3] / "plugins"
FORMATS: dict[str, WireFormat] = {
    "chat": ChatFormat(),
    "completion": CompletionsFormat(),
    "responses": ResponsesFormat(),
}
OTHERS: dict[str, WireFormat] = {
    "provider-anthropic": MessagesFormat(),
    "provider-gemini": GenerateFormat(),
}


def recorded() -> list[tuple[Path, WireFormat]]:
    """The streams of real upstreams that the plugins were written after."""
    paths = sorted(PLUGINS.glob("provider-*/tests/answers/*.sse"))
    return [(path, format_of(path)) for path in paths]


def format_of(path: Path) -> WireFormat:
    """What a recorded stream is in."""
    return OTHERS.get(path.parts[-4]) or FORMATS.get(path.stem.partition("_")[0], ChatFormat())


def test_r23_random_stream_cut_at_random_comes_out_whole_and_metered() -> None:
    maker = StreamMaker(seed=23)
    for _ in range(STREAMS):
        stream = maker.stream()
        judge_stream(stream, maker.pieces(stream.data))


def test_r23_stream_comes_out_whole_wherever_it_is_cut() -> None:
    maker = StreamMaker(seed=1)
    for _ in range(40):
        stream = maker.stream()
        for at in range(1, len(stream.data)):
            judge_stream(stream, [stream.data[:at], stream.data[at:]])


@pytest.mark.parametrize(
    ("path", "wire_format"), recorded(), ids=lambda it: getattr(it, "stem", "")
)
def test_r23_recorded_stream_comes_out_whole_and_metered_wherever_it_is_cut(
    path: Path, wire_format: WireFormat
) -> None:
    data = path.read_bytes()
    whole = forward([data], withhold=False, wire_format=wire_format)
    held = forward([data], withhold=True, wire_format=wire_format)
    assert (whole.data, held.tokens) == (data, whole.tokens)
    for at in range(1, len(data)):
        pieces = [data[:at], data[at:]]
        assert forward(pieces, withhold=False, wire_format=wire_format) == whole
        assert forward(pieces, withhold=True, wire_format=wire_format) == held


@pytest.mark.parametrize("path", [one for one, _ in recorded()], ids=lambda it: it.stem)
def test_r23_stream_that_the_meter_does_not_know_ends_as_its_host_ended_it(path: Path) -> None:
    foreign = ChatFormat() if path.parts[-4] == "provider-anthropic" else MessagesFormat()
    data = path.read_bytes()
    told = forward([data], withhold=False, wire_format=foreign)
    assert (told.data, told.tokens, told.complete) == (data, {}, True)


def test_r23_stream_comes_out_whole_byte_by_byte() -> None:
    maker = StreamMaker(seed=2)
    for _ in range(200):
        stream = maker.stream()
        judge_stream(stream, [stream.data[at : at + 1] for at in range(len(stream.data))])
