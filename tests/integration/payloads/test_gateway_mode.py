"""Payloads of ordinary requests, over real sockets: what is kept is what went over the wire."""

from __future__ import annotations

import json

import pytest

from relay_gateway.plugin import PayloadRecord
from relay_gateway.testing.canary import Canary, assert_absent
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import Hang, Reset, Script, Send, chunk, head, response
from relay_gateway.testing.upstream import ScriptedUpstream

from .conftest import MakePath

JSON = ("content-type", "application/json")
SSE = ("content-type", "text/event-stream")
OK = response(200, b"3:5", [JSON])
STREAM = b"data: one\n\ndata: two\n\ndata: usage 3:5\n\ndata: end\n\n"


async def only(path: DataPath) -> PayloadRecord:
    """The only payload; waits for it."""
    await path.until_captured()
    assert len(path.payload_records) == 1
    return path.payload_records[0]


async def test_both_bodies_are_kept_as_they_were(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK)
    body = b'{ "model":"m", "n": 1.50, "text":"\\u00e4 \xc3\xa4" }'
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(path.head(len(body)) + body)
    record = await only(path)
    assert (record.request, record.response) == (body, answer.body) == (body, b"3:5")
    assert (record.request_bytes, record.response_bytes) == (len(body), 3)
    assert (record.request_truncated, record.response_truncated) == (False, False)
    assert (record.request_sha256, record.response_sha256, record.text) == (None, None, None)
    assert record.request_content_type == record.response_content_type == "application/json"
    assert (record.request_headers, record.response_headers) == ((), ())
    usage = path.records[0]
    assert (record.request_id, record.started_at) == (usage.request_id, usage.started_at)
    assert (record.relay_key_id, record.policy_id) == (usage.relay_key_id, usage.policy_id)


async def test_each_request_of_a_connection_has_a_payload_of_its_own(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    async with RawCaller(path.port) as caller:
        for number in range(3):
            upstream.enqueue(response(200, b"1:%d" % number, [JSON]))
            await caller.ask(path.request("m", extra=f',"n":{number}'))
    await path.until_captured(3)
    assert [record.response for record in path.payload_records] == [b"1:0", b"1:1", b"1:2"]
    assert [json.loads(record.request)["n"] for record in path.payload_records] == [0, 1, 2]
    assert path.payloads.held_bytes == 0


@pytest.mark.parametrize(("opted_in", "enabled"), [(False, True), (True, False)])
async def test_nothing_is_kept_of_a_request_that_did_not_opt_in(
    open_path: MakePath, upstream: ScriptedUpstream, *, opted_in: bool, enabled: bool
) -> None:
    upstream.enqueue(OK, OK)
    async with open_path(opted_in=opted_in, enabled=enabled) as path:
        async with RawCaller(path.port) as caller:
            await caller.ask(path.request("m"))
            await caller.ask(path.request("m"))
        await path.until_recorded(2)
    assert path.payload_records == []
    assert not path.payloads.counts


async def test_a_policy_opts_in_for_its_keys_and_a_change_counts_at_once(
    open_path: MakePath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, OK, OK)
    async with open_path(opted_in=False) as path, RawCaller(path.port) as caller:
        policy = next(row for row in path.draft.rows if row.kind == "policy")
        for wanted in (False, True, False):
            policy.spec["payloadLogging"] = wanted
            path.publish()
            await caller.ask(path.request("m"))
        await path.until_recorded(3)
        record = await only(path)
    assert record.request_id == path.records[1].request_id


async def test_a_stream_is_kept_as_the_caller_received_it(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Send(head(200, [SSE]) + chunk(STREAM[:9]) + chunk(STREAM[9:])), *_end()])
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(path.request("m", stream=True))
    record = await only(path)
    # Usage was asked for by the gateway and stays with it.
    assert record.response == answer.body == STREAM.replace(b"data: usage 3:5\n\n", b"")
    assert b"stream_options" not in record.request
    assert record.response_content_type == "text/event-stream"


@pytest.mark.parametrize("size", range(0, len(STREAM) + 1, 3))
async def test_t65_a_stream_that_is_cut_at_any_byte_is_kept_up_to_there(
    path: DataPath, upstream: ScriptedUpstream, size: int
) -> None:
    asked = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
    steps: Script = [Send(head(200, [SSE]) + (chunk(STREAM[:size]) if size else b"")), Reset()]
    upstream.enqueue(steps, steps)
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(path.head(len(asked)) + asked)
    record = await only(path)
    assert (record.request, record.response) == (asked, answer.body)
    assert record.response_bytes == len(answer.body)


async def test_a_caller_that_leaves_has_what_was_sent_to_it(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Send(head(200, [SSE]) + chunk(b"data: one\n\n")), Hang()])
    async with RawCaller(path.port) as caller:
        caller.send(path.request("m", stream=True))
        await caller.reader.readuntil(b"data: one\n\n")
    record = await only(path)
    assert (record.response, path.records[0].outcome) == (b"data: one\n\n", "cancelled")


async def test_a_caller_that_leaves_before_an_answer_has_a_payload_without_one(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Hang()])
    async with RawCaller(path.port) as caller:
        caller.send(path.request("m"))
        await upstream.wait_for_requests()
    record = await only(path)
    assert (record.request, record.response) == (b'{"model":"m"}', b"")


async def test_errors_of_upstreams_and_of_the_gateway_are_kept(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(400, b'{"error":"no"}', [JSON]))
    async with RawCaller(path.port) as caller:
        refused = [await caller.ask(path.request(model)) for model in ("m", "unknown")]
        body = b"{not json"
        refused.append(await caller.ask(path.head(len(body)) + body))
    await path.until_captured(3)
    assert [answer.status for answer in refused] == [400, 404, 400]
    assert [one.response for one in path.payload_records] == [one.body for one in refused]
    assert path.payload_records[2].request == body


async def test_a_caller_that_is_not_known_leaves_nothing(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    async with RawCaller(path.port) as caller:
        request = path.request("m").replace(path.relay_key.encode(), b"sk-relay-nobody")
        assert (await caller.ask(request)).status == 401
    await path.until_recorded()
    assert (path.payload_records, path.payloads.held_bytes) == ([], 0)
    assert upstream.ledger == []


async def test_t65_a_body_that_is_too_large_is_refused_and_told_of(path: DataPath) -> None:
    size = 33 * 1024 * 1024
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(path.head(size) + b"{")
    record = await only(path)
    assert answer.status == 413
    assert (record.request, record.request_bytes, record.request_truncated) == (b"", size, True)
    assert record.response == answer.body


async def test_t65_bodies_are_cut_at_the_configured_size_and_say_so(
    open_path: MakePath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(200, b"3:" + b"5" * 3998, [JSON]))
    async with open_path(maxBytes=100) as path:
        async with RawCaller(path.port) as caller:
            answer = await caller.ask(path.request("m", extra=',"x":"' + "ä" * 9000 + '"'))
        record = await only(path)
    assert len(answer.body) == 4000
    assert (record.request_truncated, record.response_truncated) == (True, True)
    assert (record.request_bytes, record.response_bytes) == (18_020, 4000)
    assert record.response == b"3:" + b"5" * 98
    assert 99 <= len(record.request) <= 100
    record.request.decode()


async def test_t65_payloads_beyond_the_memory_are_dropped_and_requests_are_not(
    open_path: MakePath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, OK)
    async with open_path(memory=1000) as path:
        async with RawCaller(path.port) as caller:
            large = await caller.ask(path.request("m", extra=',"x":"' + "y" * 1000 + '"'))
            small = await caller.ask(path.request("m"))
        record = await only(path)
    assert (large.status, small.status, record.request) == (200, 200, b'{"model":"m"}')
    assert (path.payloads.counts["dropped"], path.payloads.held_bytes) == (1, 0)


async def test_t65_credentials_never_get_into_a_payload(
    open_path: MakePath, upstream: ScriptedUpstream
) -> None:
    canary = Canary()
    cookie = canary.secret("cookie")
    section = {"headers": ["user-agent", "x-seen", "x-relay-host"], "redact": ["never"]}
    async with open_path(**section) as path:
        relay_key = canary.adopt("relay key", path.relay_key, public=16)
        echoed = json.dumps({"error": {"message": f"no {relay_key} {cookie}"}}).encode()
        upstream.enqueue(response(400, echoed, [JSON, ("x-seen", f"by {cookie}")]))
        fields = f"Cookie: session={cookie}\r\nUser-Agent: me {relay_key}\r\nX-Seen: {cookie}\r\n"
        request = path.request("m", extra=f',"text":"{relay_key} and {cookie}"')
        request = request.replace(b"Content-Type", fields.encode() + b"Content-Type", 1)
        async with RawCaller(path.port) as caller:
            assert (await caller.ask(request)).body == echoed
        record = await only(path)
    texts: list[str | bytes] = [record.request, record.response, repr(record)]
    assert_absent(canary, texts=texts)
    assert dict(record.request_headers) == {"user-agent": "me [redacted]", "x-seen": "[redacted]"}
    assert json.loads(record.request)["text"] == "[redacted] and [redacted]"


async def test_a_payload_that_cannot_be_redacted_is_withheld(
    path: DataPath, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.enqueue(OK)
    monkeypatch.setattr("relay_gateway.pipeline.payload_redaction.SECONDS", -1.0)
    async with RawCaller(path.port) as caller:
        assert (await caller.ask(path.request("m"))).status == 200
    await path.payloads.aclose(5)
    assert path.payloads.counts == {"withheld": 1}
    assert (path.payload_records, path.payloads.held_bytes) == ([], 0)


def _end() -> list[Send]:
    return [Send(b"0\r\n\r\n")]
