"""A connection that is used again: order, pipelining, bodies, handlers that fail."""

from __future__ import annotations

import threading

import pytest

from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

from .stage import GET, Stage, until


def test_connection_serves_one_request_after_the_other(caller: WireCaller) -> None:
    for number in range(5):
        assert caller.send(GET % b"echo/%d" % number).read_answer().body == b"/echo/%d" % number


def test_http_1_0_connection_is_kept_only_when_asked(server: InferenceServer) -> None:
    with WireCaller(server.port) as caller:
        keep = b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        answer = caller.send(keep).read_answer()
        assert answer.headers.get(b"connection") == b"keep-alive"
        assert caller.send(b"GET /echo HTTP/1.0\r\n\r\n").read_answer().status == 200
        assert caller.is_closed()


def test_http_1_0_stream_ends_with_the_connection(server: InferenceServer, stage: Stage) -> None:
    stage.cue.set()
    with WireCaller(server.port) as caller:
        request = b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        answer = caller.send(request).read_answer()
        assert answer.headers.get(b"transfer-encoding") is None
        assert answer.headers.get(b"connection") == b"close"
        assert answer.body == b"onetwo"


def test_connection_close_is_honoured(caller: WireCaller) -> None:
    caller.send(b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert caller.read_answer().headers.get(b"connection") == b"close"
    assert caller.is_closed()


def test_head_is_answered_without_a_body(caller: WireCaller) -> None:
    answer = caller.send(b"HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n").read_answer(head_only=True)
    assert (answer.status, answer.headers.get(b"content-length")) == (200, b"5")
    assert caller.send(GET % b"echo").read_answer().body == b"/echo"


def test_head_of_a_stream_is_answered_without_chunks(caller: WireCaller, stage: Stage) -> None:
    stage.cue.set()
    caller.send(b"HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n")
    assert caller.read_answer(head_only=True).status == 200
    assert caller.send(GET % b"echo").read_answer().body == b"/echo"


def test_f58_pipelined_requests_are_answered_in_order_one_at_a_time(
    caller: WireCaller, stage: Stage
) -> None:
    caller.send(GET % b"wait" + b"".join(GET % b"echo/%d" % n for n in range(20)))
    assert until(stage.begun)
    assert stage.seen == ["/wait"]
    stage.cue.set()
    bodies = [caller.read_answer().body for _ in range(21)]
    assert bodies == [b"waited", *(b"/echo/%d" % n for n in range(20))]


def test_f58_pipelined_body_is_not_taken_for_the_next_request(caller: WireCaller) -> None:
    post = (
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    caller.send(post + post + GET % b"echo/last")
    bodies = [caller.read_answer().body for _ in range(3)]
    assert bodies == [b"/echoabc", b"/echoabc", b"/echo/last"]


def test_f58_more_is_pipelined_than_is_read_ahead(server: InferenceServer, stage: Stage) -> None:
    requests = 20_000
    with WireCaller(server.port) as caller:
        data = GET % b"wait" + (GET % b"echo") * requests
        sender = threading.Thread(target=caller.send, args=(data,))
        sender.start()
        assert until(stage.begun)
        stage.cue.set()
        assert caller.read_answer().body == b"waited"
        answers = [caller.read_answer().body for _ in range(requests)]
        sender.join(10)
    assert answers == [b"/echo"] * requests


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_body_arrives_whole(caller: WireCaller, *, size: int, chunked: bool) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    if chunked:
        pieces = [content[at : at + 7001] for at in range(0, size, 7001)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        framing = b"Transfer-Encoding: chunked"
    else:
        body, framing = content, b"Content-Length: %d" % size
    caller.send(b"POST /echo HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (framing, body))
    assert caller.read_answer().body == b"/echo" + content
    assert caller.send(GET % b"echo").read_answer().body == b"/echo"


def test_t26_continue_is_sent_when_the_body_is_asked_for(caller: WireCaller) -> None:
    fields = b"Host: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    caller.send(b"POST /echo HTTP/1.1\r\n" + fields)
    assert caller.read_answer().status == 100
    assert caller.send(b"hi").read_answer().body == b"/echohi"
    assert caller.send(GET % b"echo").read_answer().body == b"/echo"


def test_t26_continue_is_not_sent_for_a_body_nobody_wants(caller: WireCaller) -> None:
    fields = b"Host: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    answer = caller.send(b"POST /refuse HTTP/1.1\r\n" + fields).read_answer()
    assert (answer.status, answer.headers.get(b"connection")) == (403, b"close")
    assert caller.is_closed()


def test_t29_body_too_large_is_refused_before_continue(caller: WireCaller) -> None:
    fields = b"Host: a\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
    assert caller.send(b"POST /echo HTTP/1.1\r\n" + fields).read_answer().status == 413


def test_t29_caller_that_is_still_sending_sees_the_refusal(server: InferenceServer) -> None:
    with WireCaller(server.port) as caller:
        caller.send(b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n")
        for _ in range(80):
            caller.send(bytes(100_000))
        assert caller.read_answer().body == b"no"


def test_t17_broken_chunk_after_the_handler_began_is_refused(
    caller: WireCaller, stage: Stage
) -> None:
    caller.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n")
    assert until(stage.begun)
    assert caller.send(b"hiX").read_answer().status == 400
    assert caller.is_closed()


def test_f66_failing_handler_is_answered_for(caller: WireCaller) -> None:
    answer = caller.send(GET % b"crash").read_answer()
    assert answer.status == 500
    assert answer.body.startswith(b"500 internal_error")
    assert caller.send(GET % b"echo").read_answer().body == b"/echo"


def test_f66_handler_that_forgets_to_answer_is_answered_for(caller: WireCaller) -> None:
    assert caller.send(GET % b"forget").read_answer().status == 500


def test_f66_handler_that_fails_inside_its_answer_cuts_it(caller: WireCaller) -> None:
    answer = caller.send(GET % b"crash_late").read_answer()
    assert (answer.status, answer.body, answer.complete) == (200, b"one", False)
    assert caller.is_closed()


def test_f35_cut_answer_to_http_1_0_is_no_clean_end(caller: WireCaller) -> None:
    caller.send(b"GET /crash_late HTTP/1.0\r\n\r\n")
    with pytest.raises(ConnectionResetError):
        caller.read(10_000)
