"""Raw requests and the one right answer to each, on the real server."""

from __future__ import annotations

import pytest

from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.probes import ACCEPTED, CHUNKED, REFUSED, Probe, get, post
from relay_gateway.testing.wire import WireCaller


def _name(probe: Probe) -> str:
    return f"{probe.row}: {probe.name}"


@pytest.mark.parametrize("probe", ACCEPTED, ids=_name)
def test_t17_well_formed_request_is_answered_and_the_next_one_too(
    probe: Probe, caller: WireCaller
) -> None:
    answer = caller.send(probe.data).read_answer()
    assert (answer.status, probe.echoed in answer.body) == (200, True)
    if b"HTTP/1.0" in probe.data:
        assert caller.is_closed()
    else:
        assert caller.send(get(b"/next")).read_answer().body == b"GET /next? "


@pytest.mark.parametrize("probe", REFUSED, ids=_name)
def test_r20_refused_request_is_answered_and_the_connection_closed(
    probe: Probe, echo_server: InferenceServer
) -> None:
    with WireCaller(echo_server.port) as caller:
        answer = caller.send(probe.data).read_answer()
        assert (answer.status, answer.complete) == (probe.status, True)
        assert answer.headers.get(b"connection") == b"close"
        assert answer.headers.get(b"date")
        assert caller.is_closed()
    with WireCaller(echo_server.port) as caller:
        assert caller.send(get(b"/next")).read_answer().body == b"GET /next? "


@pytest.mark.parametrize("probe", ACCEPTED + REFUSED, ids=_name)
def test_r20_probe_is_judged_the_same_when_it_comes_in_small_pieces(
    probe: Probe, echo_server: InferenceServer
) -> None:
    data = probe.data
    step = max(1, len(data) // 40)
    with WireCaller(echo_server.port) as caller:
        try:
            for start in range(0, len(data), step):
                caller.send(data[start : start + step])
        except (BrokenPipeError, ConnectionResetError):
            assert probe.status >= 400  # refused before its end
        assert caller.read_answer().status == probe.status


@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", b"allow", b"GET"),
        (get(b"/", b"Connection: Upgrade", b"Upgrade: websocket"), b"upgrade", b"HTTP/1.1"),
    ],
)
def test_t26_refusal_says_what_is_offered_instead(
    data: bytes, field: bytes, value: bytes, caller: WireCaller
) -> None:
    assert value in (caller.send(data).read_answer().headers.get(field) or b"")


def test_t17_smuggled_request_is_never_handled(caller: WireCaller) -> None:
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n"
    caller.send(post(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n" + hidden))
    assert caller.read_answer().status == 400
    assert caller.is_closed()
