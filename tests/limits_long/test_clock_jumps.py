"""A gateway whose wall clock jumps by a day, forwards and backwards (needs a C compiler)."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from relay_gateway.testing.held import MODEL, Held, running_held

DAY = 86_400
SOURCE = Path(__file__).with_name("wall_clock.c")


class Wall:
    """The wall clock of the gateway, ahead of the real one by what a mapped file says.

    libfaketime is of no use here: with the monotonic clock left alone, its ``clock_nanosleep``
    fails for waits of that clock.
    """

    def __init__(self, directory: Path) -> None:
        self._library, self._file = directory / "wall_clock.so", directory / "ahead"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", self._library, SOURCE], check=True)
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """Sets it so far ahead, or behind, at once."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a process that has this clock."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_FILE": str(self._file)}


async def status(held: Held, key: str) -> int:
    """The status of one request; a stream that begins is left."""
    call = await held.connect()
    body = {"model": MODEL, "stream": True, "messages": []}
    await call.ask("POST", "/v1/chat/completions", key, body)
    head = await call.reader.readuntil(b"\r\n\r\n")
    call.writer.close()
    return int(head.split(b" ", 2)[1])


@pytest.mark.parametrize("workers", ["1", "4"])
@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window"]
)
async def test_f60_a_jump_of_a_day_frees_no_limit_and_ends_no_request(
    tmp_path: Path, strategy: str, workers: str
) -> None:
    wall = Wall(tmp_path)
    directory = tmp_path / "data"
    directory.mkdir()
    environ = {**wall.environ, "RELAY_WORKERS": workers}
    async with running_held(directory, "openai", environ) as held:
        scenario = held.scenario
        rules = [
            {"meter": "requests", "amount": 3, "windowSeconds": 7200, "strategy": strategy},
            {"meter": "concurrency", "amount": 3},
        ]
        rate_limit = await scenario.create("rate-limits", "tight", rules=rules)
        policy = await scenario.create("policies", "tight", models=["*"])
        free = await scenario.relay_key("free", policy)
        key = await scenario.relay_key("tight", policy, rateLimitIds=[rate_limit])
        limited = held.called_with(key)
        await limited.until_every_worker_answers(200)
        streams = await limited.streams(3)
        for seconds in (DAY, -DAY, 0):
            wall.jump(seconds)
            assert [await status(held, key) for _ in range(2)] == [429, 429]
            assert await status(held, free) == 200
        held.upstream.finish.set()
        await asyncio.wait_for(asyncio.gather(*(one.whole_stream() for one in streams)), 10)
        assert "Traceback" not in held.gateway.stderr
        assert await status(held, key) == 429


async def test_the_clock_of_this_test_does_jump(tmp_path: Path) -> None:
    wall = Wall(tmp_path)
    directory = tmp_path / "data"
    directory.mkdir()
    async with running_held(directory, "openai", wall.environ) as held:
        before = await created_at(held, "before")
        wall.jump(DAY)
        assert await created_at(held, "after") > before
        wall.jump(-DAY)
        assert await created_at(held, "later") < before


async def created_at(held: Held, name: str) -> str:
    created = await held.scenario.post("policies", name, models=["*"])
    return str(created["metadata"]["createdAt"])


async def test_f60_request_ids_go_on_increasing(tmp_path: Path) -> None:
    wall = Wall(tmp_path)
    directory = tmp_path / "data"
    directory.mkdir()
    async with running_held(directory, "openai", wall.environ) as held:
        ids = []
        for seconds in (0, DAY, -DAY, 0):
            wall.jump(seconds)
            for _ in range(3):
                call = await held.connect()
                body = {"model": MODEL, "stream": True, "messages": []}
                await call.ask("POST", "/v1/chat/completions", held.key, body)
                head = (await call.reader.readuntil(b"\r\n\r\n")).decode().lower()
                ids.append(head.partition("x-relay-request-id: ")[2].partition("\r\n")[0])
                call.writer.close()
        assert ids == sorted(ids)
        assert len(set(ids)) == len(ids)
