"""Requests and upstream answers changed at random, through a whole gateway process on sockets.

After each of them the next request has to be answered as if nothing had happened, on the same
connection where it stays open and on a fresh one. What is sent carries marks, so that an answer to
somebody else's request is found out.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relay_gateway.testing.json_reference import JsonMutator
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.memory import resident_bytes
from relay_gateway.testing.mutation import Mutator
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import (
    EVENT_STREAM_HEADERS,
    JSON_HEADERS,
    LAST_CHUNK,
    Close,
    Script,
    Send,
    chunk,
    head,
    response,
    sse_event,
)
from relay_gateway.testing.wire import WireAnswer, split_answers
from relay_gateway.testing.wire_judge import split_by_h11

HANG_SECONDS: Final = 5.0
MOST_RESETS: Final = 10
WARM_UP: Final = 50
_MARK: Final = re.compile(rb"mark-[0-9a-f]{16}")
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Route:
    """Where the traffic goes: a model at one host with one key, and who may ask for it."""

    port: int
    relay_key: str
    model: str
    host_id: str
    host_key_id: str


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: open descriptors, and bytes of memory."""

    descriptors: int
    resident: int


class ChangedTraffic:
    """Sends changed requests, and has the upstream send changed answers; the same ``seed`` gives
    the same ones. ``statuses`` counts what callers were told.

    Every method raises ``AssertionError`` for an answer that is broken, somebody else's, late, or
    a 500.
    """

    def __init__(self, scenario: Scenario, route: Route, seed: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.resets = 0
        """How often a host had to be put back to use, which its changed answers had told ill of."""
        self._scenario = scenario
        self._route = route
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._marks: set[bytes] = set()
        self._scripts: dict[bytes, Script] = {}
        bodies = [self._body("seed", streamed=streamed) for streamed in (False, True)]
        self._bodies = JsonMutator(seed, bodies)
        self._requests = Mutator(seed, self._seeds(bodies))
        self._answers = Mutator(seed, [self._plain(b"seed"), self._stream(b"seed")])
        scenario.upstream.answer = self._answer

    async def send_changed_request(self) -> None:
        """One changed request and a sound one on a connection, then one on a fresh connection."""
        mark = self._mark()
        last = self._request(self._body(mark.decode(), streamed=False))
        data = self._changed_request(last)
        received = await self._exchange(data)
        answers = split_answers(received)
        self._judge(data, mark, last, answers)
        self.statuses.update(answer.status for answer in answers)
        await self.ask_soundly()

    async def receive_changed_answer(self) -> None:
        """A sound request with a changed answer, then a sound one that follows it, then one on a
        fresh connection."""
        mark = self._mark()
        streamed = self._random.random() < 0.5
        script, told = self._changed_answer(mark, streamed=streamed)
        self._scripts[mark] = script
        async with RawCaller(self._route.port, seconds=HANG_SECONDS) as caller:
            try:
                asked = self._body(mark.decode(), streamed=streamed)
                answer = await caller.ask(self._request(asked))
            except TimeoutError:
                raise AssertionError(f"no end {HANG_SECONDS} s after {told!r}") from None
            self.statuses[answer.status] += 1
            assert answer.status != 500 or b" 500" in told, f"{told!r} became {answer!r}"
            self._check_marks(answer.body, {mark}, told)
            stays = answer.complete and b"\r\nconnection: close" not in answer.head.lower()
            if stays:
                await self._ask_until_sound(caller)
            else:
                assert await caller.is_closed(), f"open after {answer!r}, which {told!r} became"
        await self.ask_soundly()

    async def ask_soundly(self) -> None:
        """A sound request on a fresh connection, which has to be answered soundly."""
        async with RawCaller(self._route.port, seconds=HANG_SECONDS) as caller:
            await self._ask_until_sound(caller)

    def held(self) -> Held:
        """What the gateway holds now."""
        pid = self._scenario.gateway.pid
        return Held(len(list(Path(f"/proc/{pid}/fd").iterdir())), resident_bytes(pid))

    def forget(self) -> None:
        """Drops what the upstream remembers, which a long run would fill the memory with."""
        upstream = self._scenario.upstream
        upstream.ledger.clear()
        for connection in upstream.connections:
            connection.received.clear()
        self._scripts.clear()

    async def until_held(self, descriptors: int) -> None:
        """Waits until the gateway has no more than ``descriptors`` open."""
        deadline = asyncio.get_running_loop().time() + HANG_SECONDS
        while (now := self.held().descriptors) > descriptors:
            assert asyncio.get_running_loop().time() < deadline, f"{now} descriptors are open"
            await self.ask_soundly()

    async def _ask_until_sound(self, caller: RawCaller) -> None:
        for _ in range(MOST_RESETS):
            mark = self._mark()
            answer = await caller.ask(self._request(self._body(mark.decode(), streamed=False)))
            if answer.status == 200:
                self._check_sound(answer, mark)
                return
            assert answer.status in {429, 502, 503}, f"a sound request was answered {answer!r}"
            await self._reset()
        raise AssertionError(f"the host is not asked again after {MOST_RESETS} resets: {answer!r}")

    def _check_sound(self, answer: RawAnswer, mark: bytes) -> None:
        assert answer.complete, f"a sound request was answered {answer!r}"
        assert set(_MARK.findall(answer.body)) == {mark}, f"somebody else's answer: {answer!r}"

    async def _reset(self) -> None:
        """Host and key are in use again, whatever the upstream has said of them."""
        self.resets += 1
        route = self._route
        for path in (
            f"/host-keys/by-id/{route.host_key_id}/reset",
            f"/hosts/by-id/{route.host_id}/reset",
        ):
            answer = await self._scenario.admin.post(path)
            assert answer.is_success, answer.text

    async def _exchange(self, data: bytes) -> bytes:
        """All that comes back until the gateway ends the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._route.port)
        received = b""
        try:
            async with asyncio.timeout(HANG_SECONDS):
                for piece in self._requests.pieces(data):
                    writer.write(piece)
                    await asyncio.sleep(0)
                if not writer.transport.is_closing():
                    writer.write_eof()
                while piece := await reader.read(_READ_BYTES):
                    received += piece
        except ConnectionError:
            pass  # refused before its end was sent; what came until then counts
        except TimeoutError:
            raise AssertionError(f"no end {HANG_SECONDS} s after {data!r}: {received!r}") from None
        finally:
            writer.transport.abort()
        return received

    def _judge(self, data: bytes, mark: bytes, last: bytes, answers: list[WireAnswer]) -> None:
        assert all(answer.complete for answer in answers), f"{data!r} was answered {answers}"
        assert 500 not in {answer.status for answer in answers}, f"{data!r} made {answers}"
        for answer in answers[:-1]:
            assert mark not in answer.body, f"{data!r}: not the last of {answers}"
        for answer in answers:
            self._check_marks(answer.body, {mark}, data)
        sizes = [message.size for message in split_by_h11(data)]
        is_heard = sum(sizes) == len(data) and sizes[-1] == len(last)
        if is_heard and not any(answer.closes for answer in answers):
            assert answers, f"{data!r} was not answered"
            assert mark in answers[-1].body, f"{data!r}: the last request got {answers[-1]}"

    def _check_marks(self, body: bytes, own: set[bytes], cause: bytes) -> None:
        """A mark may have been changed, too, but never into one that another request has."""
        others = (set(_MARK.findall(body)) & self._marks) - own
        assert not others, f"somebody else's answer {body!r}, after {cause!r}"

    def _mark(self) -> bytes:
        mark = b"mark-%016x" % self._random.getrandbits(64)
        self._marks.add(mark)
        return mark

    def _body(self, said: str, *, streamed: bool) -> bytes:
        messages = [{"role": "user", "content": said}]
        fields = {"model": self._route.model, "messages": messages}
        return json.dumps({**fields, "stream": True} if streamed else fields).encode()

    def _request(self, body: bytes) -> bytes:
        return self._head(b"Content-Length: %d" % len(body)) + body

    def _head(self, framing: bytes, version: bytes = b"1.1") -> bytes:
        key = self._route.relay_key.encode()
        return (
            b"POST /v1/chat/completions HTTP/%b\r\nHost: a\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/json\r\n%b\r\n\r\n" % (version, key, framing)
        )

    def _seeds(self, bodies: list[bytes]) -> list[bytes]:
        """Requests as callers send them, to be changed."""
        chunked = self._head(b"Transfer-Encoding: chunked")
        old = b"Connection: keep-alive\r\nContent-Length: %d" % len(bodies[0])
        listing = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n\r\n"
        return [
            *map(self._request, bodies),
            *(chunked + chunk(body[:20]) + chunk(body[20:]) + LAST_CHUNK for body in bodies),
            self._head(old, b"1.0") + bodies[0],
            listing % self._route.relay_key.encode(),
        ]

    def _changed_request(self, last: bytes) -> bytes:
        if self._random.random() < 0.4:
            return self._request(self._bodies.body()) + last
        return self._requests.request(last)

    def _changed_answer(self, mark: bytes, *, streamed: bool) -> tuple[Script, bytes]:
        """What the upstream does, and the bytes of it."""
        sound = self._stream(mark) if streamed else self._plain(mark)
        kind = self._random.randrange(3)
        if kind == 0:  # sound, and one that nobody has asked for behind it
            told = sound + self._plain(self._mark())
            return [Send(told)], told
        if kind == 1:  # what is in it is changed, and framed as it should be
            content = self._answers.changed(_events(mark) if streamed else _completion(mark))
            headers = EVENT_STREAM_HEADERS if streamed else JSON_HEADERS
            return response(200, content, headers, chunked=streamed), content
        told = self._answers.changed(sound)
        return [Send(told), Close()], told

    def _answer(self, request: SeenRequest) -> Script:
        """What the upstream does: as arranged for the mark in the request, or soundly."""
        marks = _MARK.findall(request.body)
        mark = marks[-1] if marks else b"none"
        script = self._scripts.get(mark)
        if script is not None:
            return script
        streamed = b'"stream":true' in request.body.replace(b" ", b"")
        return [Send(self._stream(mark) if streamed else self._plain(mark))]

    def _plain(self, mark: bytes) -> bytes:
        content = _completion(mark)
        return head(200, JSON_HEADERS, length=len(content)) + content

    def _stream(self, mark: bytes) -> bytes:
        return head(200, EVENT_STREAM_HEADERS) + chunk(_events(mark)) + LAST_CHUNK


def _completion(mark: bytes) -> bytes:
    message = {"role": "assistant", "content": mark.decode()}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "x", "choices": [choice], "usage": usage}).encode()


def _events(mark: bytes) -> bytes:
    deltas = [{"role": "assistant"}, {"content": mark.decode()}, {}]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    events = [sse_event({"id": "x", "choices": [choice]}) for choice in choices]
    return b"".join((*events, sse_event("[DONE]")))


@asynccontextmanager
async def changed_traffic(
    directory: Path, *, adapter: str, seed: int
) -> AsyncIterator[ChangedTraffic]:
    """A gateway in a process of its own that has answered soundly before; ``adapter`` is that of
    the upstream, and its wire format is that of chat completions.

    In the end the gateway must have spoken nothing but sound HTTP upstream, logged no exception,
    and end in order. Raises ``AssertionError`` otherwise.
    """
    environ = {"ACME_API_KEY": "sk-made-up", "RELAY_LOG_LEVEL": "warning"}
    async with running_scenario(directory, lambda _: [], environ) as scenario:
        route = await _route(scenario, adapter)
        traffic = ChangedTraffic(scenario, route, seed)
        for _ in range(WARM_UP):
            await traffic.ask_soundly()
        yield traffic
        assert scenario.upstream.malformed == []
        assert scenario.upstream.errors == []
        assert await scenario.gateway.stop() == 0
        assert "Traceback" not in scenario.gateway.stderr, scenario.gateway.stderr


async def _route(scenario: Scenario, adapter: str) -> Route:
    provider = await scenario.create("providers", "Acme")
    url = f"{scenario.upstream.url}/v1"
    host = await scenario.create("hosts", "Acme", baseUrl=url, adapter=adapter)
    bindings = [{"hostId": host}]
    await scenario.create("models", "M", name="m", providerId=provider, bindings=bindings)
    policy = await scenario.create("policies", "All", models=["*"])
    source = {"kind": "env", "env": "ACME_API_KEY"}
    key = await scenario.create("host-keys", "Key", hostId=host, policyId=policy, valueFrom=source)
    port = int(scenario.gateway.inference_url.rpartition(":")[2])
    return Route(port, await scenario.relay_key("app", policy), "m", host, key)
