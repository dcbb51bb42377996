"""The provider in a whole gateway, with a host that the test plays."""

from __future__ import annotations

import json

from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.script import json_response, sse_event, sse_response
from relay_gateway_provider_acme.conformance import ANSWER, EVENTS

ASKED = {"model": "large", "turns": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}


async def test_answers_come_through_and_are_metered(relay_gateway_app: GatewayApp) -> None:
    app = relay_gateway_app
    await app.serve("large", adapter="acme", wire_formats=["acme.talk"], upstream_model="large-1")
    app.upstream.enqueue(json_response(200, ANSWER), sse_response(map(sse_event, EVENTS)))
    answer = await app.post("/v1/acme/talk", ASKED)
    assert (answer.status_code, answer.json()) == (200, ANSWER)
    streamed = await app.post("/v1/acme/talk", {**ASKED, "stream": True})
    assert streamed.status_code == 200
    assert streamed.text.count("data: ") == len(EVENTS)
    seen = app.upstream.ledger[0]
    assert seen.target == "/v1/talk"
    assert json.loads(seen.body)["model"] == "large-1", "the host's own name for the model"
    for each in (answer, streamed):
        record = await app.log(each)
        assert record["tokens"] == {"input": 30, "output": 12, "cacheRead": 8}
