"""Workers and their control process, as ``GET /instances`` shows them."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable

from relay_gateway.storage import InstanceStore, create_engine
from relay_gateway.testing.held import Held
from relay_gateway.testing.life_signs import Listed, listed_when

Serving = Callable[..., Awaitable[Held]]
PROCESSES = ["control", "worker-1", "worker-2"]


async def seen(held: Held, condition: Callable[[Listed], object]) -> Listed:
    return await listed_when(held.scenario.admin, condition)


async def write(held: Held, name: str) -> int:
    """Makes a provider; the revision of that."""
    body = {"metadata": {"displayName": name}, "spec": {}}
    answer = await held.scenario.admin.post("/providers", json=body)
    assert answer.status_code == 201, answer.text
    revision: int = (await held.scenario.admin.get("/readyz")).json()["revision"]
    return revision


def all_at(revision: int) -> Callable[[Listed], bool]:
    def they_are(items: Listed) -> bool:
        return [(one["process"], one["revision"]) for one in items] == [
            (process, revision) for process in PROCESSES
        ]

    return they_are


async def test_every_process_is_listed_and_moves_with_a_write(serving: Serving) -> None:
    held = await serving(2)
    items = await seen(held, all_at(await write(held, "Acme")))
    assert len({one["gatewayId"] for one in items}) == 1
    assert all(one["thisGateway"] and one["state"] == "ready" for one in items)
    port = held.gateway.inference_url.rpartition(":")[2]
    assert {one["gateway"].rpartition(":")[2] for one in items} == {port}
    pids = [int(one["instance"].rpartition(":")[2]) for one in items]
    *workers, control = held.gateway.children()
    assert pids == [control, *workers]


async def test_a_worker_that_is_replaced_has_one_row_and_a_later_beginning(
    serving: Serving,
) -> None:
    held = await serving(2)
    before = await seen(held, all_at(await write(held, "Acme")))
    os.kill(held.gateway.children()[0], signal.SIGKILL)
    after = await seen(held, lambda items: items[1]["instance"] != before[1]["instance"])
    assert [one["process"] for one in after] == PROCESSES
    assert after[1]["startedAt"] > before[1]["startedAt"]
    assert after[2]["startedAt"] == before[2]["startedAt"]


async def test_a_stopped_worker_falls_behind_and_comes_back(serving: Serving) -> None:
    held = await serving(2)
    await seen(held, all_at(await write(held, "Acme")))
    worker = held.gateway.children()[1]
    os.kill(worker, signal.SIGSTOP)
    try:
        await write(held, "Beta")
        await write(held, "Gamma")
        lags = [0, 0, 2]
        still = await seen(held, lambda items: [one["lagRevisions"] for one in items] == lags)
        await seen(held, lambda items: items[2]["lagSeconds"] > still[2]["lagSeconds"] + 1)
    finally:
        os.kill(worker, signal.SIGCONT)
    last = await seen(held, all_at(await write(held, "Delta")))
    assert {one["lagRevisions"] for one in last} == {0}


async def test_nobody_is_left_behind_by_a_gateway_that_ends_in_order(serving: Serving) -> None:
    held = await serving(2)
    await seen(held, all_at(await write(held, "Acme")))
    assert await held.gateway.stop() == 0
    engine = create_engine(f"sqlite:///{held.gateway.data_dir}/relay.sqlite3")
    assert (await InstanceStore(engine).known(10)).known == []
    await engine.dispose()
