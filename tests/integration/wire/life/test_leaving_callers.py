"""Callers that stop sending, that leave, and that are slow."""

from __future__ import annotations

import time

import pytest

from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

from .stage import GET, Stage, until


def test_f56_half_closed_caller_gets_its_answer(caller: WireCaller, stage: Stage) -> None:
    caller.send(GET % b"wait").stop_sending()
    assert until(stage.begun)
    assert not stage.gone.wait(0.3)
    stage.cue.set()
    assert caller.read_answer().body == b"waited"
    assert caller.is_closed()


def test_f56_half_closed_caller_gets_all_pipelined_answers(caller: WireCaller) -> None:
    caller.send(GET % b"echo/1" + GET % b"echo/2" + GET % b"echo/3").stop_sending()
    assert [caller.read_answer().body for _ in range(3)] == [b"/echo/1", b"/echo/2", b"/echo/3"]
    assert caller.is_closed()


def test_f56_half_closed_caller_gets_its_whole_stream(caller: WireCaller, stage: Stage) -> None:
    caller.send(GET % b"stream")
    assert until(stage.begun)
    caller.stop_sending()
    assert not stage.gone.wait(0.3)
    stage.cue.set()
    answer = caller.read_answer()
    assert (answer.body, answer.complete) == (b"onetwo", True)


def test_r21_body_that_a_half_closed_caller_cannot_finish_is_not_waited_for(
    caller: WireCaller, stage: Stage
) -> None:
    broken = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc"
    caller.send(GET % b"wait" + broken).stop_sending()
    assert until(stage.begun)
    # Its end has been heard when the first answer is given, and the second request has to wait.
    assert not stage.gone.wait(0.3)
    stage.cue.set()
    assert caller.read_answer().body == b"waited"
    heard = time.monotonic()
    assert caller.is_closed()
    assert time.monotonic() - heard < 5
    assert until(stage.gone)


@pytest.mark.parametrize("path", [b"wait", b"stream"])
def test_f54_f55_caller_that_closes_is_noticed_at_once(
    server: InferenceServer, stage: Stage, path: bytes
) -> None:
    with WireCaller(server.port) as caller:
        caller.send(GET % path)
        assert until(stage.begun)
        if path == b"stream":
            caller.read_line()
        left = time.monotonic()
    assert until(stage.gone)
    assert time.monotonic() - left < 0.25
    assert stage.exchange is not None
    assert stage.exchange.disconnected


def test_f54_http_1_0_caller_that_closes_is_noticed(server: InferenceServer, stage: Stage) -> None:
    with WireCaller(server.port) as caller:
        caller.send(b"GET /wait HTTP/1.0\r\n\r\n")
        assert until(stage.begun)
    assert until(stage.gone)


def test_f54_caller_that_leaves_inside_its_body_is_noticed(
    server: InferenceServer, stage: Stage
) -> None:
    with WireCaller(server.port) as caller:
        caller.send(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")
        assert until(stage.begun)
    assert until(stage.gone)


def test_r16_nothing_is_left_of_callers_that_left(server: InferenceServer, stage: Stage) -> None:
    for number in range(300):
        with WireCaller(server.port) as caller:
            caller.send(
                (GET % b"echo", GET % b"stream", b"POST /read HTTP/1.1\r\nHost:")[number % 3]
            )
    stage.cue.set()
    for _ in range(200):
        if not server.open_connections and not server.running_handlers:
            break
        with WireCaller(server.port) as caller:
            # One more turn of the server's loop.
            caller.send(GET % b"echo").read_answer()
    assert server.running_handlers == 0
    assert server.open_connections <= 1


def test_t27_slow_head_is_cut_off(impatient: InferenceServer) -> None:
    with WireCaller(impatient.port) as caller:
        assert caller.send(b"GET / HTTP/1.1\r\nHost:").read_answer().status == 408
        assert caller.is_closed()


def test_t27_slow_body_is_cut_off(impatient: InferenceServer) -> None:
    with WireCaller(impatient.port) as caller:
        caller.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")
        assert caller.read_answer().status == 408
        assert caller.is_closed()


def test_t27_idle_connection_is_closed_without_a_word(impatient: InferenceServer) -> None:
    with WireCaller(impatient.port) as fresh, WireCaller(impatient.port) as used:
        assert used.send(GET % b"echo").read_answer().status == 200
        assert fresh.is_closed()
        assert used.is_closed()


def test_t27_reader_that_takes_nothing_is_cut_off(impatient: InferenceServer, stage: Stage) -> None:
    with WireCaller(impatient.port) as caller:
        caller.send(GET % b"flood")
        assert until(stage.gone)


def test_f57_slow_reader_pauses_the_writer_and_gets_everything(
    caller: WireCaller, stage: Stage
) -> None:
    caller.send(GET % b"obey")
    assert until(stage.begun)
    answer = caller.read_answer()
    assert (len(answer.body), answer.complete) == (512 * 65_536, True)
    assert stage.pauses > 0


def test_t27_long_wait_for_the_handler_is_nobodys_fault(
    impatient: InferenceServer, stage: Stage
) -> None:
    with WireCaller(impatient.port) as caller:
        caller.send(GET % b"wait")
        assert until(stage.begun)
        assert not stage.gone.wait(1.0)
        stage.cue.set()
        assert caller.read_answer().body == b"waited"
