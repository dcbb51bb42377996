"""What is accounted for when a stream breaks or its caller leaves: what was seen, and no more."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import Close, Hang, chunk, cut, size, sse_event, sse_response
from relay_gateway.testing.upstream import ScriptedUpstream

PAIRS = 19
EVENTS = [
    sse_event(text) for n in range(1, PAIRS + 1) for text in (f"word {n}", f"usage 3:{n}")
] + [sse_event("word"), sse_event("end")]
SCRIPT = sse_response(EVENTS)
NANOS_IN, NANOS_OUT = 2_000, 10_000
ALL = ',"stream_options":{"include_usage":true}'


def ends_of_events() -> Sequence[int]:
    """Where each event is complete, in the bytes of the script."""
    ends, at = [], size(SCRIPT[:1])
    for event in EVENTS:
        framed = chunk(event)
        ends.append(at + framed.index(event) + len(event))
        at += len(framed)
    return ends


ENDS = ends_of_events()


def tokens_of(events: int) -> dict[str, int]:
    """What the first so many events say."""
    said = min(events // 2, PAIRS)
    return {"input": 3, "output": said} if said else {}


def put_price(path: DataPath) -> None:
    """Gives the model a price."""
    rates = [
        {"meter": "tokens.input", "amount": "2"},
        {"meter": "tokens.output", "amount": "10"},
    ]
    pricing = path.draft.add("pricing", "list", {"rates": rates})
    (model,) = (row for row in path.draft.rows if row.kind == "model")
    (binding,) = model.spec["bindings"]
    binding["pricingId"] = pricing
    path.publish()


def cost_of(tokens: dict[str, int]) -> int:
    return tokens.get("input", 0) * NANOS_IN + tokens.get("output", 0) * NANOS_OUT


def test_there_are_forty_events() -> None:
    assert len(EVENTS) == 40
    assert ENDS[-1] < size(SCRIPT)


async def test_f35_a_stream_cut_at_any_byte_is_accounted_for_up_to_there(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        put_price(path)
        for at in range(size(SCRIPT)):
            upstream.enqueue(cut(SCRIPT, at, Close()))
            path.forget_failures()
            async with RawCaller(path.port) as caller:
                await caller.ask(path.request("m", stream=True, extra=ALL))
            await path.until_recorded(at + 1)
            record = path.records[at]
            events = bisect_right(ENDS, at)
            tokens = tokens_of(events)
            assert record.outcome == ("aborted" if events else "upstream_error"), at
            assert record.status == (200 if events else 502), at
            assert record.tokens == tokens, at
            assert record.usage_source == ("upstream" if tokens else "none"), at
            assert (record.cost_nanos or 0) == cost_of(tokens), at


async def test_f35_a_caller_that_leaves_after_any_event_is_billed_for_what_was_seen(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedUpstream() as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        put_price(path)
        for events in range(1, len(EVENTS)):
            upstream.enqueue(cut(SCRIPT, ENDS[events - 1], Hang()))
            async with RawCaller(path.port) as caller:
                caller.send(path.request("m", stream=True, extra=ALL))
                await caller.reader.readuntil(EVENTS[events - 1])
            await path.until_recorded(events)
            record = path.records[-1]
            tokens = tokens_of(events)
            assert (record.outcome, record.tokens) == ("cancelled", tokens), events
            assert record.usage_source == ("upstream" if tokens else "none"), events
            assert (record.cost_nanos or 0) == cost_of(tokens), events
