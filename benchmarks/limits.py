"""What limits cost a request: ``python -m benchmarks.limits`` prints microseconds of its processor.

A request under three rules (requests, tokens, concurrency) is reserved and settled, in the memory
of one process and in the table that workers share. Then the whole admission of a request, with the
finding of its rules, its estimate and its header lines, under these rules and under none. The best
of several runs counts: what else the machine does only ever adds.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from relay_gateway.limits.choose import in_memory, memory_store
from relay_gateway.limits.immediate_store import ImmediateStore
from relay_gateway.limits.shared_store import SharedStore
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.route import Plan, Router
from relay_gateway.pipeline.settle import record_of
from relay_gateway.plugin import Hold, PluginConfig, PluginContext, Strategy, SystemClock
from relay_gateway.testing.world import PipelineWorld

STRATEGIES: tuple[Strategy, ...] = (
    "token-bucket",
    "sliding-window",
    "fixed-window",
    "session-window",
)
REQUESTS = 10_000
RUNS = 7
ROWS = 16
TITLE = "reserve + settle of three rules"
BODY = b'{"model":"m","max_tokens":40,"messages":[{"role":"user","content":"%b"}]}' % (b"x" * 1000)


def best_of_runs(request: Callable[[int], object]) -> float:
    """Microseconds that one of many requests costs, each with its number."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        for number in range(REQUESTS):
            request(number)
        best = min(best, (time.process_time() - began) / REQUESTS)
    return best * 1e6


def microseconds(store: ImmediateStore, strategy: Strategy) -> float:
    """What one request costs, the making of its claims included."""

    def request(number: int) -> None:
        request_id = f"r{number}"
        holds = (
            Hold("requests", 1, 10**9, 60.0, strategy),
            Hold("tokens", 1000, 10**12, 60.0, strategy),
            Hold("slots", 1, 100, 600.0, "gauge"),
        )
        store.reserve_now(request_id, holds)
        store.settle_now(request_id, holds, (1, 400, 0))

    return best_of_runs(request)


class Admissions:
    """Requests of one caller, whose host keys have no limits."""

    def __init__(self, directory: Path) -> None:
        self._world = PipelineWorld(directory)
        self._world.limit_by(in_memory(SystemClock()))
        free = self._world.draft.policy("free")
        for key in self._world.keys:
            self._world.change(key, policyId=free)

    def limit(self) -> None:
        """Holds the caller to three rules from now on."""
        rate_limit = self._world.rate_limit(
            "three",
            {"meter": "requests", "amount": 10**9, "windowSeconds": 60},
            {"meter": "tokens", "amount": 10**12, "windowSeconds": 60},
            {"meter": "concurrency", "amount": 100},
        )
        self._world.change(self._world.policy, rateLimits=[{"rateLimitId": rate_limit}])

    def microseconds(self) -> float:
        """What the admission of one costs, and the release of what it holds."""
        self._world.publish()
        snapshot = self._world.live.current
        (presented,) = snapshot.relay_keys.values()
        policy = snapshot.policy_of(presented.key)
        plan = Router().route(snapshot, policy, "m", "plain.chat", None)
        call = self._world.call(self._world.caller(BODY))
        call.relay_key, call.policy, call.body, call.model = (
            presented.key, policy, BODY, plan.model,
        )  # fmt: skip
        return best_of_runs(self._request(call, plan))

    def _request(self, call: Call, plan: Plan) -> Callable[[int], None]:
        admission, record = self._world.admission, record_of(call, 0, 0.0, "benchmark")

        def request(_number: int) -> None:
            admission.admit_now(call, plan)
            if call.reservation is not None:
                admission.release(call, record)

        return request


def main() -> None:
    """Prints a line for each strategy, and two for admission."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        context = PluginContext(plugin="memory", data_dir=path, database_url="")
        shared = SharedStore(PluginConfig(), context, directory=path, rows=ROWS)
        asyncio.run(shared.aopen())
        sys.stdout.write(f"{TITLE:<32} one process   shared table\n")
        for strategy in STRATEGIES:
            alone = microseconds(memory_store(SystemClock()), strategy)
            together = microseconds(shared, strategy)
            sys.stdout.write(f"{strategy:<32} {alone:8.2f} us {together:11.2f} us\n")
        asyncio.run(shared.aclose())
        admissions = Admissions(path)
        sys.stdout.write(f"admission without limits {admissions.microseconds():16.2f} us\n")
        admissions.limit()
        sys.stdout.write(f"admission under three rules {admissions.microseconds():13.2f} us\n")


if __name__ == "__main__":
    main()
