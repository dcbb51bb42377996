"""What happens to a connection over time: reuse, pipelining, half-close, slow callers, shutdown."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from relay_gateway.http.exchange import CallerGoneError, ServerExchange
from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
IMPATIENT = ServerLimits(
    header_seconds=0.3,
    idle_seconds=0.6,
    body_grace_seconds=0.3,
    write_stall_seconds=0.4,
    linger_seconds=0.3,
    sweep_seconds=0.05,
)


class Stage:
    """A handler that plays the part its path names, and lets the test's thread watch and cue it."""

    def __init__(self) -> None:
        self.cue = threading.Event()
        self.begun = threading.Event()
        self.gone = threading.Event()
        self.exchange: ServerExchange | None = None
        self.seen: list[str] = []
        self.pauses = 0

    async def __call__(self, exchange: ServerExchange) -> None:
        self.exchange = exchange
        self.seen.append(exchange.path)
        self.begun.set()
        await getattr(self, exchange.path.strip("/").partition("/")[0])(exchange)

    async def echo(self, exchange: ServerExchange) -> None:
        body = await exchange.read_body(2**20)
        exchange.respond(200, b"", exchange.path.encode() + body)

    async def wait(self, exchange: ServerExchange) -> None:
        """Answers when cued; ends when the caller leaves."""
        await self._wait_for_cue(exchange)
        if not self.gone.is_set():
            exchange.respond(200, b"", b"waited")

    async def stream(self, exchange: ServerExchange) -> None:
        """Sends one piece, waits for the cue, sends another one."""
        exchange.start(200, b"", None)
        exchange.write(b"one")
        await self._wait_for_cue(exchange)
        exchange.write(b"two")
        exchange.finish()

    async def refuse(self, exchange: ServerExchange) -> None:
        exchange.respond(403, b"", b"no")

    async def read(self, exchange: ServerExchange) -> None:
        try:
            await exchange.read_body(2**30)
        except CallerGoneError:
            self.gone.set()

    async def flood(self, exchange: ServerExchange) -> None:
        """Writes 64 MiB, without looking whether the caller takes it."""
        exchange.on_disconnect = self.gone.set
        exchange.start(200, b"", None)
        for _ in range(64):
            exchange.write(bytes(1024 * 1024))
        await self._wait_for_cue(exchange)

    async def obey(self, exchange: ServerExchange) -> None:
        """Writes 32 MiB in pieces of 64 KiB, and none while it is told to wait."""
        writable = asyncio.Event()
        writable.set()

        def flow(go_on: bool) -> None:
            self.pauses += not go_on
            (writable.set if go_on else writable.clear)()

        exchange.on_flow = flow
        exchange.start(200, b"", 512 * 65_536)
        for _ in range(512):
            await writable.wait()
            exchange.write(bytes(65_536))
        exchange.finish()

    async def crash(self, exchange: ServerExchange) -> None:
        raise ZeroDivisionError("the handler is broken")

    async def crash_late(self, exchange: ServerExchange) -> None:
        exchange.start(200, b"", None)
        exchange.write(b"one")
        raise ZeroDivisionError("the handler is broken")

    async def forget(self, exchange: ServerExchange) -> None:
        """Returns without an answer."""

    async def _wait_for_cue(self, exchange: ServerExchange) -> None:
        loop = asyncio.get_running_loop()
        left = asyncio.Event()

        def leave() -> None:
            self.gone.set()
            left.set()

        exchange.on_disconnect = leave
        cued = loop.run_in_executor(None, self.cue.wait, 10)
        waiting = asyncio.ensure_future(left.wait())
        await asyncio.wait((cued, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.cue.set()
        await cued


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Iterator[InferenceServer]:
    with InferenceServer(stage) as server:
        yield server
        stage.cue.set()


@pytest.fixture
def caller(server: InferenceServer) -> Iterator[WireCaller]:
    with WireCaller(server.port) as caller:
        yield caller


@pytest.fixture
def impatient(stage: Stage) -> Iterator[InferenceServer]:
    with InferenceServer(stage, IMPATIENT) as server:
        yield server
        stage.cue.set()


def until(condition: threading.Event) -> bool:
    return condition.wait(10)


# Reuse and order.


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


# Bodies.


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


# Callers that leave.


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


# Handlers that fail.


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


# Slow callers.


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


# Shutdown.


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


def test_r17_active_request_is_answered_before_the_server_stops(stage: Stage) -> None:
    with InferenceServer(stage) as server, WireCaller(server.port) as caller:
        idle = WireCaller(server.port)
        caller.send(GET % b"wait")
        assert until(stage.begun)
        server.begin_to_stop()
        assert idle.is_closed()
        idle.close()
        stage.cue.set()
        answer = caller.read_answer()
        assert (answer.body, answer.headers.get(b"connection")) == (b"waited", b"close")
        assert caller.is_closed()


def test_r17_open_stream_ends_cleanly_and_then_its_connection(stage: Stage) -> None:
    with InferenceServer(stage) as server, WireCaller(server.port) as caller:
        idle = WireCaller(server.port)
        caller.send(GET % b"stream")
        assert until(stage.begun)
        server.begin_to_stop()
        assert idle.is_closed()
        idle.close()
        stage.cue.set()
        answer = caller.read_answer()
        assert (answer.body, answer.complete) == (b"onetwo", True)
        assert caller.is_closed()


def test_r17_request_that_outlasts_the_drain_is_told_so(stage: Stage) -> None:
    with InferenceServer(stage, drain_seconds=1) as server, WireCaller(server.port) as caller:
        caller.send(GET % b"wait")
        assert until(stage.begun)
        server.begin_to_stop()
        assert caller.read_answer().status == 503
        stage.cue.set()


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
