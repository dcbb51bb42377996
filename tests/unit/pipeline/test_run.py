"""A request from its first byte to its usage record, with fakes at both ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from relay_gateway.errors import (
    RequestRefusedError,
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamOverloadedError,
    UpstreamTimeoutError,
    UpstreamTlsError,
)
from relay_gateway.plugin import UpstreamCall, UpstreamRequest
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.world import PipelineWorld, json_answer, open_stream

SSE = b"data: one\n\ndata: two\n\ndata: usage 3:5\n\ndata: end\n\n"


def error_of(caller: FakeCaller) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(caller.body)["error"]
    return error


async def test_an_answer_passes_byte_for_byte_and_is_recorded(world: PipelineWorld) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(body=b"3:5"))
    assert (caller.status, caller.body) == (200, b"3:5")
    assert b"X-Relay-Attempts: 1\r\n" in caller.header_block
    assert b"X-Relay-Host: east\r\n" in caller.header_block
    assert record.tokens == {"input": 3, "output": 5}
    assert (record.outcome, record.status, record.usage_source) == ("ok", 200, "upstream")
    assert (record.model_id, record.host_id, record.host_key_id) == (
        world.model,
        world.east,
        world.keys[0],
    )
    assert record.tags == {"team": "a"}


async def test_the_upstream_gets_the_host_key_and_never_the_relay_key(world: PipelineWorld) -> None:
    extra = [(b"Cookie", b"c=1"), (b"X-Relay-Request-Tags", b"{}"), (b"Content-Type", b"a/json")]
    await world.run(world.caller(headers=extra), json_answer())
    target, request = world.client.sent[0]
    assert target.host == "east.test"
    assert request.headers == b"content-type: a/json\r\nauthorization: Bearer sk-one\r\n"
    assert world.relay_key.plaintext.reveal().encode() not in request.headers + request.body


async def test_the_model_name_is_replaced_only_where_the_host_has_another(
    world: PipelineWorld,
) -> None:
    world.draft.model(
        "alias",
        [],
        provider_id=world.vendor,
        bindings=[{"hostId": world.east, "upstreamName": "real"}],
    )
    world.publish()
    await world.run(world.caller(b'{ "model" : "alias", "x":1.50 }'), json_answer())
    assert world.client.sent[0][1].body == b'{ "model" : "real", "x":1.50 }'


async def test_a_stream_passes_as_it_comes_and_injected_usage_stays_here(
    world: PipelineWorld,
) -> None:
    exchange = open_stream()
    caller = world.caller(b'{"model":"m","stream":true}')
    exchange.push(SSE[:15])
    world.client.replies = [exchange]
    await world.handle(caller)
    assert caller.body == b"data: one\n\n"
    for position in range(15, len(SSE)):
        exchange.push(SSE[position : position + 1])
    exchange.end()
    assert caller.body == b"data: one\n\ndata: two\n\ndata: end\n\n"
    record = world.record()
    assert (record.tokens, record.outcome) == ({"input": 3, "output": 5}, "ok")
    assert record.ttft_ms is not None
    assert json.loads(world.client.sent[0][1].body)["stream_options"] == {"include_usage": True}


async def test_a_caller_that_asks_for_usage_gets_every_byte(world: PipelineWorld) -> None:
    exchange = open_stream()
    exchange.push(SSE)
    exchange.end()
    body = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
    caller = world.caller(body)
    record = await world.run(caller, exchange)
    assert caller.body == SSE
    assert world.client.sent[0][1].body == body
    assert record.tokens == {"input": 3, "output": 5}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_request"),
        (b"{}", 400, "invalid_request"),
        (b'{"model":"m","model":"m"}', 400, "ambiguous_body"),
        (b'{"model":"nobody"}', 404, "model_not_found"),
        (b"x" * 1001, 413, "request_too_large"),
    ],
)
async def test_bad_input_is_refused_recorded_and_reaches_nobody(
    world: PipelineWorld, body: bytes, status: int, code: str
) -> None:
    caller = world.caller(body)
    record = await world.run(caller)
    assert (caller.status, error_of(caller)["code"]) == (status, code)
    assert (record.outcome, record.status, record.error_code) == ("rejected", status, code)
    assert world.client.sent == []


async def test_a_model_that_is_not_granted_is_refused(world: PipelineWorld) -> None:
    other = world.draft.relay_key("other", world.draft.policy("none", models=[]))
    world.publish()
    caller = world.caller(key=other.plaintext.reveal())
    record = await world.run(caller)
    assert (caller.status, error_of(caller)["code"]) == (403, "model_not_allowed")
    assert record.policy_id is not None


async def test_a_refused_credential_is_benched_and_the_next_key_serves(
    world: PipelineWorld,
) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(401, b"no"), json_answer())
    assert (caller.status, caller.body) == (200, b"3:5")
    assert [attempt.status for attempt in record.attempts] == [401, 200]
    assert record.host_key_id == world.keys[1]
    assert world.pools.describe(world.keys[0])["state"] == "benched"
    assert b"X-Relay-Attempts: 2\r\n" in caller.header_block


async def test_a_rotated_credential_is_back_in_its_pool_at_once(world: PipelineWorld) -> None:
    await world.credentials.get(world.live.current.host_keys[world.keys[0]])
    world.backend.table["k1"] = "sk-rotated"
    await world.run(world.caller(), json_answer(401, b"no"), json_answer())
    for _ in range(5):
        await asyncio.sleep(0)
    assert world.pools.describe(world.keys[0])["state"] == "available"
    assert world.backend.fetches.count("k1") == 2


async def test_f39_a_throttled_key_waits_as_long_as_it_was_told(world: PipelineWorld) -> None:
    record = await world.run(
        world.caller(), json_answer(429, b"slow", retry_after="30"), json_answer()
    )
    assert [attempt.status for attempt in record.attempts] == [429, 200]
    left = world.pools.describe(world.keys[0])["secondsLeft"]
    assert isinstance(left, float)
    assert 30 <= left <= 33
    world.clock.advance(34)
    assert world.pools.describe(world.keys[0])["state"] == "available"


async def test_f40_every_credential_refused_is_the_gateways_own_error(world: PipelineWorld) -> None:
    caller = world.caller()
    record = await world.run(caller, *[json_answer(401, b"key sk-one is wrong") for _ in range(3)])
    assert (caller.status, error_of(caller)["code"]) == (502, "upstream_credentials")
    assert b"sk-" not in caller.body
    assert record.outcome == "upstream_error"


async def test_f41_failures_are_bounded_and_the_last_answer_is_delivered(
    world: PipelineWorld,
) -> None:
    caller = world.caller()
    record = await world.run(caller, *[json_answer(500 + n, b"broken") for n in range(4)])
    assert len(record.attempts) == 3
    assert (caller.status, caller.body) == (502, b"broken")
    assert (record.outcome, record.error_code) == ("upstream_error", "upstream_error")


async def test_a_callers_own_mistake_is_passed_on_without_a_retry(world: PipelineWorld) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(422, b"bad field"))
    assert (caller.status, caller.body) == (422, b"bad field")
    assert len(record.attempts) == 1


async def test_an_echoed_credential_is_scrubbed_from_an_error(world: PipelineWorld) -> None:
    caller = world.caller()
    await world.run(caller, json_answer(400, b"you sent sk-one"))
    assert caller.body == b"you sent ***"


async def test_t05_a_redirect_is_never_followed_nor_shown(world: PipelineWorld) -> None:
    caller = world.caller()
    location = "http://inside.test/"
    await world.run(caller, *[json_answer(307, b"", location=location) for _ in range(3)])
    assert (caller.status, error_of(caller)["code"]) == (502, "upstream_redirect")
    assert b"inside" not in caller.body + caller.header_block


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UpstreamConnectError("10.0.0.1 refused", sent=False), 502, "upstream_unreachable"),
        (UpstreamTlsError("bad", sent=False), 502, "upstream_tls"),
        (UpstreamTimeoutError("slow", phase="first_byte"), 504, "upstream_timeout"),
        (UpstreamTimeoutError("slow", phase="connect"), 502, "upstream_unreachable"),
        (UpstreamOverloadedError("full"), 503, "overloaded"),
        (UpstreamClosedError("closed"), 502, "upstream_closed"),
    ],
)
async def test_f31_no_answer_at_all_has_a_status_of_its_own(
    world: PipelineWorld, error: UpstreamError, status: int, code: str
) -> None:
    caller = world.caller()
    record = await world.run(caller, error, error, error)
    assert (caller.status, error_of(caller)["code"]) == (status, code)
    assert b"10.0.0.1" not in caller.body
    assert {attempt.error for attempt in record.attempts} == {error.reason}


async def test_f31_an_unreachable_host_is_left_for_the_next_one(world: PipelineWorld) -> None:
    error = UpstreamConnectError("refused", sent=False)
    record = await world.run(world.caller(), error, json_answer())
    assert [attempt.host_id for attempt in record.attempts] == [world.east, world.west]
    assert world.client.sent[1][1].headers.endswith(b"Bearer sk-three\r\n")


async def test_a_key_that_cannot_be_resolved_is_benched_with_its_reason(
    world: PipelineWorld,
) -> None:
    del world.backend.table["k1"]
    record = await world.run(world.caller(), json_answer())
    assert record.host_key_id == world.keys[1]
    assert "no entry 'k1'" in str(world.pools.describe(world.keys[0])["reason"])


async def test_without_any_usable_key_the_caller_is_told_when_to_come_back(
    world: PipelineWorld,
) -> None:
    world.backend.table.clear()
    caller = world.caller()
    record = await world.run(caller)
    assert (caller.status, error_of(caller)["code"]) == (503, "no_available_host_key")
    assert caller.answer_headers.get(b"retry-after") in (b"1", b"2")
    assert record.attempts == ()


async def test_f54_a_caller_that_leaves_before_the_first_byte_cancels_upstream(
    world: PipelineWorld,
) -> None:
    caller = world.caller()
    world.client.replies = [None]
    task = asyncio.ensure_future(world.handle(caller))
    await world.client.asked.wait()
    caller.disconnect()
    await task
    assert world.client.cancelled == 1
    assert (world.record().outcome, world.record().error_code) == ("cancelled", "client_closed")
    assert world.pools.state(world.keys[0]).in_flight == 0


async def test_f55_a_caller_that_leaves_mid_stream_cancels_upstream_and_is_billed(
    world: PipelineWorld,
) -> None:
    exchange = open_stream()
    exchange.push(b"data: one\n\ndata: usage 3:1\n\n")
    caller = world.caller(b'{"model":"m","stream":true}')
    world.client.replies = [exchange]
    await world.handle(caller)
    assert world.pools.state(world.keys[0]).in_flight == 1
    caller.disconnect()
    assert exchange.cancelled
    record = world.record()
    assert (record.outcome, record.tokens) == ("cancelled", {"input": 3, "output": 1})
    assert world.pools.state(world.keys[0]).in_flight == 0


async def test_a_caller_that_leaves_after_the_terminal_event_is_a_success(
    world: PipelineWorld,
) -> None:
    exchange = open_stream()
    exchange.push(SSE)
    caller = world.caller(b'{"model":"m","stream":true}')
    world.client.replies = [exchange]
    await world.handle(caller)
    caller.disconnect()
    assert world.record().outcome == "ok"


async def test_f35_a_broken_stream_ends_with_an_error_event_and_never_cleanly(
    world: PipelineWorld,
) -> None:
    exchange = open_stream()
    exchange.push(b"data: one\n\nda")
    caller = world.caller(b'{"model":"m","stream":true}')
    world.client.replies = [exchange]
    await world.handle(caller)
    exchange.fail(UpstreamClosedError("cut"))
    assert caller.aborted
    assert caller.body.startswith(b"data: one\n\nda\n\ndata: {")
    assert world.record().outcome == "aborted"


async def test_f57_a_slow_reader_pauses_the_upstream(world: PipelineWorld) -> None:
    exchange = open_stream()
    exchange.push(b"data: one\n\n")
    caller = world.caller(b'{"model":"m","stream":true}')
    world.client.replies = [exchange]
    await world.handle(caller)
    caller.block()
    assert exchange.paused
    exchange.push(b"data: two\n\n")
    assert caller.body == b"data: one\n\n"
    caller.unblock()
    assert caller.body == b"data: one\n\ndata: two\n\n"


async def test_the_callers_own_deadline_ends_the_request(world: PipelineWorld) -> None:
    caller = world.caller()
    call = world.call(caller)
    call.deadline = asyncio.get_running_loop().time() + 0.01
    world.client.replies = [None]
    await world.handle(caller, call)
    assert (caller.status, error_of(caller)["code"]) == (504, "upstream_timeout")


async def test_an_adapter_that_raises_is_named_and_does_not_break_the_process(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(call: UpstreamCall) -> UpstreamRequest:
        raise KeyError("secret detail")

    monkeypatch.setattr(world.provider, "build_request", broken)
    caller = world.caller()
    await world.run(caller)
    assert (caller.status, error_of(caller)["code"]) == (502, "adapter_failed")
    assert "plain" in error_of(caller)["message"]
    assert b"secret detail" not in caller.body
    assert world.failures == ["plain", "plain"]


async def test_a_meter_that_raises_ends_metering_and_not_the_answer(world: PipelineWorld) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(body=b"not figures"))
    assert (caller.status, caller.body) == (200, b"not figures")
    assert (record.outcome, record.usage_source) == ("ok", "none")


async def test_an_encoded_answer_is_passed_on_and_not_metered(world: PipelineWorld) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(body=b"\x1f\x8b", content_encoding="gzip"))
    assert caller.body == b"\x1f\x8b"
    assert b"content-encoding: gzip\r\n" in caller.header_block
    assert record.usage_source == "none"


async def test_t23_only_allowed_headers_of_the_upstream_reach_the_caller(
    world: PipelineWorld,
) -> None:
    caller = world.caller()
    await world.run(caller, json_answer(set_cookie="a=b", x_secret="1", server="x"))
    names = {name.lower() for name, _ in caller.answer_headers.fields}
    assert names == {
        b"content-type",
        b"cache-control",
        b"x-relay-request-id",
        b"x-relay-host",
        b"x-relay-attempts",
    }


async def test_a_request_is_closed_once_whatever_tries_to_close_it_again(
    world: PipelineWorld,
) -> None:
    caller = world.caller()
    call = world.call(caller)
    world.client.replies = [json_answer()]
    await world.handle(caller, call)
    await world.handle(caller, call, RequestRefusedError(503, "interrupted", "too late"))
    assert world.record().outcome == "ok"
    assert world.pools.state(world.keys[0]).in_flight == 0
