"""What a stopping server does with idle connections, requests and streams."""

from __future__ import annotations

import time

from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireAnswer, WireCaller

from .stage import GET, Stage, until


def test_r17_idle_connections_close_at_once(stage: Stage) -> None:
    with InferenceServer(stage) as server:
        callers = [WireCaller(server.port) for _ in range(50)]
        for caller in callers:
            assert caller.send(GET % b"echo").read_answer().status == 200
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 2
        for caller in callers:
            assert caller.is_closed()
            caller.close()


def answer_while_stopping(stage: Stage, part: bytes) -> WireAnswer:
    """The answer to a request in the middle of which the server begins to stop: idle connections
    are closed meanwhile, its own after it."""
    with (
        InferenceServer(stage) as server,
        WireCaller(server.port) as caller,
        WireCaller(server.port) as idle,
    ):
        caller.send(GET % part)
        assert until(stage.begun)
        server.begin_to_stop()
        assert idle.is_closed()
        stage.cue.set()
        answer = caller.read_answer()
        assert caller.is_closed()
    return answer


def test_r17_active_request_is_answered_before_the_server_stops(stage: Stage) -> None:
    answer = answer_while_stopping(stage, b"wait")
    assert (answer.body, answer.headers.get(b"connection")) == (b"waited", b"close")


def test_r17_open_stream_ends_cleanly_and_then_its_connection(stage: Stage) -> None:
    answer = answer_while_stopping(stage, b"stream")
    assert (answer.body, answer.complete) == (b"onetwo", True)


def test_r17_request_that_outlasts_the_drain_is_told_so(stage: Stage) -> None:
    with InferenceServer(stage, drain_seconds=1) as server, WireCaller(server.port) as caller:
        caller.send(GET % b"wait")
        assert until(stage.begun)
        server.begin_to_stop()
        assert caller.read_answer().status == 503
        stage.cue.set()
