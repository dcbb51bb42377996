"""Requests changed at random: one answer or a closed connection, and never a confused server."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

SEEDS = (
    b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET http://a/b?c HTTP/1.1\r\nHost: a\r\nX: y\r\nConnection: keep-alive\r\n\r\n",
    b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
)
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TOKENS = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b":",
    b"Content-Length: 3\r\n",
    b"0\r\n\r\n",
    b"..",
    b"%2e",
)

edits = st.lists(
    st.tuples(
        st.integers(0, 200), st.integers(0, 3), st.sampled_from(TOKENS) | st.binary(max_size=3)
    ),
    min_size=1,
    max_size=3,
)


def change(data: bytes, made: list[tuple[int, int, bytes]]) -> bytes:
    for position, removed, added in made:
        at = position % (len(data) + 1)
        data = data[:at] + added + data[at + removed :]
    return data


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(SEEDS), edits)
def test_r21_changed_request_gets_answers_and_then_the_end(
    echo_server: InferenceServer, seed: bytes, made: list[tuple[int, int, bytes]]
) -> None:
    """The half-close ends every wait; what is answered is well-formed; 500 never occurs."""
    with WireCaller(echo_server.port) as caller:
        caller.send(change(seed, made) + LAST).stop_sending()
        for _ in range(50):
            try:
                answer = caller.read_answer()
            except EOFError:
                break
            assert answer.complete
            assert answer.status in {200, 400, 405, 408, 413, 414, 417, 426, 431, 501, 505}
    with WireCaller(echo_server.port) as caller:
        assert caller.send(LAST).read_answer().body == b"GET /last? "
