"""Several workers and one control process: replaced when they die, told apart by nobody."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relay_gateway.server.open_files import PREPARED
from relay_gateway.testing.held import Held
from relay_gateway.testing.process import GatewayProcess

Serving = Callable[..., Awaitable[Held]]


class Load:
    """Callers that connect, ask and leave, one after the other, until it is enough."""

    def __init__(self, held: Held) -> None:
        self.answered = 0
        self._answer = asyncio.Event()
        self.cut = 0
        """Connections that a worker had accepted when it died."""
        self._held = held

    async def until(self, answered: int) -> None:
        """Waits for so many answers."""
        async with asyncio.timeout(10):
            while self.answered < answered:
                self._answer.clear()
                await self._answer.wait()

    async def run(self) -> None:
        while True:
            call = await self._held.connect()
            try:
                await call.ask("GET", "/v1/models", self._held.key)
                assert (await call.answer())[0] == 200
                self.answered += 1
                self._answer.set()
            except (ConnectionResetError, BrokenPipeError, asyncio.IncompleteReadError):
                self.cut += 1
            call.writer.close()


@asynccontextmanager
async def loaded(held: Held, callers: int) -> AsyncIterator[Load]:
    """A steady load; an exception in it, such as a refused connection, fails the test."""
    load = Load(held)
    running = [asyncio.ensure_future(load.run()) for _ in range(callers)]
    yield load
    for caller in running:
        caller.cancel()
    ends = await asyncio.gather(*running, return_exceptions=True)
    assert {type(end) for end in ends} == {asyncio.CancelledError}, ends


async def until_replaced(gateway: GatewayProcess, dead: int) -> int:
    """The process that came in the place of another."""
    before = set(gateway.children())
    async with asyncio.timeout(10):
        while not (new := set(gateway.children()) - before):  # noqa: ASYNC110 - /proc sets no event
            await asyncio.sleep(0.005)
    assert dead not in gateway.children()
    return new.pop()


async def test_f62_no_connection_is_refused_while_a_worker_is_replaced(serving: Serving) -> None:
    held = await serving(2)
    worker, *others = held.gateway.children()
    async with loaded(held, callers=4) as load:
        await load.until(100)
        os.kill(worker, signal.SIGKILL)
        await until_replaced(held.gateway, worker)
        await load.until(load.answered + 300)
    assert load.cut <= 4
    assert set(others) < set(held.gateway.children())
    assert len(held.gateway.children()) == 3
    assert "worker 1 ended unexpectedly: killed by SIGKILL" in held.gateway.stderr


async def test_f62_the_others_serve_for_a_worker_whose_replacement_does_not_come(
    serving: Serving,
) -> None:
    held = await serving(2)
    worker, _, control = held.gateway.children()
    os.kill(worker, signal.SIGKILL)
    replacement = await until_replaced(held.gateway, worker)
    os.kill(replacement, signal.SIGSTOP)
    try:
        async with asyncio.timeout(5):
            await held.until_every_worker_answers(200)
    finally:
        os.kill(replacement, signal.SIGCONT)
    assert control in held.gateway.children()


async def test_t41_each_worker_has_room_for_many_open_files_before_they_come(
    serving: Serving,
) -> None:
    held = await serving(2)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for worker in held.gateway.children()[:2]:
        found = re.search(r"FDSize:\s*([0-9]+)", Path(f"/proc/{worker}/status").read_text())
        assert found is not None
        assert int(found[1]) >= min(allowed, PREPARED)


async def test_a_dead_control_process_is_replaced_and_inference_goes_on(serving: Serving) -> None:
    held = await serving(2)
    *workers, control = held.gateway.children()
    (stream,) = await held.streams(1)
    os.kill(control, signal.SIGKILL)
    replacement = await until_replaced(held.gateway, control)
    # Asked on a new connection: it waits in the supervisor's socket until there is somebody.
    async with held.gateway.control() as admin:
        assert (await admin.get("/readyz")).status_code == 200
    assert held.gateway.children() == [*workers, replacement]
    held.upstream.finish.set()
    assert b"[DONE]" in await stream.reader.readuntil(b"0\r\n\r\n")


async def test_r8_a_revoked_key_is_refused_by_every_worker_within_a_second(
    serving: Serving,
) -> None:
    held = await serving(2)
    calls = [await held.connect() for _ in range(20)]
    (listed,) = (await held.scenario.admin.get("/relay-keys")).json()["items"]
    url = f"/relay-keys/by-id/{listed['metadata']['id']}/revoke"
    assert (await held.scenario.admin.post(url)).status_code == 200
    revoked = time.monotonic()
    statuses = {404}
    while statuses != {401}:
        assert time.monotonic() - revoked < 1
        for call in calls:
            await call.ask("POST", "/v1/chat/completions", held.key, {"model": "nobody"})
        statuses = {(await call.answer())[0] for call in calls}
        await asyncio.sleep(0.02)
    assert await held.gateway.stop() == 0
    # The connections were spread over both, so both have refused.
    refused = [record for record in await held.records() if record["status"] == 401]
    assert len({record["instance"] for record in refused}) == 2


async def test_f62_a_killed_supervisor_leaves_no_process_behind(serving: Serving) -> None:
    held = await serving(2)
    (stream,) = await held.streams(1)
    held.gateway.send_signal(signal.SIGKILL)
    held.upstream.finish.set()
    # What was under way is still finished.
    assert b"[DONE]" in await stream.rest()
    # Its output ends only when the last of its children has ended.
    assert await held.gateway.wait(seconds=3) == -signal.SIGKILL
    assert [record["outcome"] for record in await held.records()] == ["ok"]


async def test_the_end_is_also_heard_by_a_worker_that_has_not_started_yet(
    serving: Serving,
) -> None:
    held = await serving(2)
    worker = held.gateway.children()[0]
    os.kill(worker, signal.SIGKILL)
    await until_replaced(held.gateway, worker)
    held.gateway.send_signal(signal.SIGTERM)
    assert await held.gateway.wait(seconds=5) == 0


async def test_t55_neither_plane_answers_for_the_other(serving: Serving) -> None:
    held = await serving(2)
    call = await held.connect()
    await call.ask("GET", "/relay-keys", held.gateway.admin_token)
    assert (await call.answer())[0] == 404
    assert (await held.scenario.admin.get("/v1/models")).status_code == 404


async def test_workers_do_not_share_their_port_with_anybody_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        port = other.getsockname()[1]
        gateway = GatewayProcess(tmp_path, {"RELAY_WORKERS": "2", "RELAY_PORT": str(port)})
        with pytest.raises(AssertionError, match=f"cannot listen on .* port {port}"):
            await gateway.start()


async def test_a_child_that_cannot_start_is_the_end_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "relay.toml").write_text(
        '[usage_sinks.database]\nurl = "postgresql://nobody@127.0.0.1:1/none"\nrequired = true\n'
    )
    gateway = GatewayProcess(tmp_path, {"RELAY_WORKERS": "2"})
    first = r"(worker \d|the control process)"  # whoever came to it first
    with pytest.raises(AssertionError, match=rf"{first}: usage sink 'database'.* is required"):
        await gateway.start()
    assert await gateway.wait(seconds=5) == 1
