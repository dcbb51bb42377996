"""Payload capture with fakes at both ends: what a payload has, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from relay_gateway.catalog.sections import PayloadLogging, RuntimeSettings
from relay_gateway.errors import UpstreamConnectError
from relay_gateway.pipeline.capture import Payloads
from relay_gateway.pipeline.capture_body import BodyCopy
from relay_gateway.pipeline.capture_text import assembled_text
from relay_gateway.plugin import PayloadRecord
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.catalog import PlainFormat
from relay_gateway.testing.world import PipelineWorld, json_answer, open_stream

SECONDS = 5.0


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    world = PipelineWorld(tmp_path)
    keep(world)
    return world


def keep(world: PipelineWorld, **section: Any) -> None:
    """Has the payloads of everybody kept."""
    for row in world.draft.rows:
        if row.kind == "policy":
            row.spec["payloadLogging"] = True
    fields = {"enabled": True, "loggers": ["memory"], **section}
    logging = PayloadLogging.model_validate(fields)
    snapshot = replace(world.snapshot(), settings=RuntimeSettings(payload_logging=logging))
    world.live.swap(snapshot)


async def payload(world: PipelineWorld) -> PayloadRecord:
    """The only payload so far."""
    await world.payloads.aclose(SECONDS)
    assert len(world.payload_records) == 1
    assert world.payloads.held_bytes == 0
    return world.payload_records[0]


async def test_the_usage_record_is_the_same_as_without(world: PipelineWorld) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(body=b"3:5"))
    assert (record.tokens, record.bytes_in, record.bytes_out) == (
        {"input": 3, "output": 5}, 13, 3,
    )  # fmt: skip
    kept = await payload(world)
    assert (kept.request, kept.response) == (b'{"model":"m"}', b"3:5")


async def test_a_stream_is_kept_and_its_flow_is_the_callers(world: PipelineWorld) -> None:
    exchange = open_stream()
    caller = world.caller(b'{"model":"m","stream":true}')
    exchange.push(b"data: one\n\n")
    world.client.replies = [exchange]
    await world.handle(caller)
    seen = []
    for turn in (caller.block, caller.unblock):
        turn()
        seen.append(exchange.paused)
    assert seen == [True, False]
    exchange.push(b"data: end\n\n")
    exchange.end()
    kept = await payload(world)
    assert kept.response == b"data: one\n\ndata: end\n\n" == caller.body


async def test_a_refusal_without_an_upstream_is_kept(world: PipelineWorld) -> None:
    caller = world.caller()
    failure = UpstreamConnectError("refused")
    await world.run(caller, failure, failure, failure)
    kept = await payload(world)
    assert (caller.status, kept.response) == (502, caller.body)


async def test_a_request_that_comes_late_is_kept(world: PipelineWorld) -> None:
    caller = world.caller(None)
    caller.send_body(b'{"model":"m","late":1}')
    await world.run(caller, json_answer())
    assert (await payload(world)).request == b'{"model":"m","late":1}'


@pytest.mark.parametrize("section", [{"enabled": False}, {"loggers": []}])
async def test_nothing_is_captured_where_nothing_would_be_stored(
    world: PipelineWorld, section: dict[str, Any]
) -> None:
    keep(world, **section)
    await world.run(world.caller(), json_answer())
    await world.payloads.aclose(SECONDS)
    assert (world.payload_records, world.payloads.counts) == ([], {})


async def test_headers_are_kept_by_name_and_scrubbed(world: PipelineWorld) -> None:
    keep(world, headers=["user-agent", "x-relay-attempts", "absent"], redact=["4711"])
    caller = world.caller(headers=[(b"User-Agent", b"agent 4711"), (b"Other", b"x")])
    await world.run(caller, json_answer())
    kept = await payload(world)
    assert kept.request_headers == (("user-agent", "agent [redacted]"),)
    assert kept.response_headers == (("x-relay-attempts", "1"),)


@pytest.mark.parametrize("answer", [False, None, True])
async def test_t65_a_payload_that_delivery_has_no_room_for_is_counted(
    world: PipelineWorld, *, answer: bool | None
) -> None:
    taken: list[PayloadRecord] = []

    def deliver(record: PayloadRecord) -> bool | None:
        taken.append(record)
        return answer

    payloads = world.pipeline._payloads = Payloads(deliver)
    await world.run(world.caller(), json_answer())
    await payloads.aclose(SECONDS)
    assert len(taken) == 1
    assert payloads.counts == {"dropped" if answer is False else "captured": 1}


async def test_a_request_that_ends_after_the_gateway_did_is_not_disturbed(
    world: PipelineWorld,
) -> None:
    await world.payloads.aclose(SECONDS)
    caller = world.caller()
    await world.run(caller, json_answer())
    assert (caller.status, world.payloads.counts) == (200, {"dropped": 1})
    assert world.payloads.held_bytes == 0


async def test_t65_a_failure_to_copy_costs_the_payload_and_not_the_request(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_copy: object, _data: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(BodyCopy, "feed", fail)
    caller = world.caller()
    await world.run(caller, json_answer(body=b"3:5"))
    await world.payloads.aclose(SECONDS)
    assert (caller.status, caller.body, world.payload_records) == (200, b"3:5", [])
    assert world.payloads.counts == {"dropped": 1}


async def test_a_head_request_has_no_body_in_its_answer(world: PipelineWorld) -> None:
    caller = FakeCaller("HEAD", path="/v1/plain", headers=world.caller().headers.fields)
    await world.handle(caller)
    kept = await payload(world)
    assert (kept.response, kept.response_bytes) == (b"", 0)


def test_a_format_without_a_codec_has_no_assembled_text() -> None:
    assert assembled_text(PlainFormat(), b"data: one\n\n") is None
