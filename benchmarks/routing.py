"""What it costs to find a host and a host key for a request, in a large catalog.

``python -m benchmarks.routing`` prints microseconds for a request to be routed (a plan, and the
first key of its pool) under each strategy of selection: 1 000 models, 500 policies, 50 host keys at
each host, a few of them benched, and every request for another model under another policy.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import typer

from relay_gateway.catalog.snapshot import Policy, Snapshot
from relay_gateway.pipeline.affinity import Affinity, conversation_of
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.route import Router
from relay_gateway.plugin import PluginConfig, SystemClock
from relay_gateway.testing.catalog import CatalogDraft, PlainProvider, TableBackend
from relay_gateway.testing.context import plugin_context

MODELS = 1000
POLICIES = 500
KEYS = 50
HOSTS = 4
STRATEGIES = (
    "prioritized",
    "round-robin",
    "weighted",
    "least-recently-used",
    "least-in-flight",
)
REQUESTS = 20_000
ROUNDS = 5
BODY = b'{"model":"m","messages":[{"role":"system","content":"%b"},{"role":"user"}]}' % (
    b"x" * 20_000
)


class Routing:
    """A large catalog, and requests that are routed in it."""

    def __init__(self, directory: Path) -> None:
        self.snapshot = _snapshot(directory)
        self.router = Router()
        self.clock = SystemClock()
        self.pools = KeyPools(self.clock)
        for key_id in list(self.snapshot.host_keys)[::25]:
            self.pools.bench(key_id, "throttled by the upstream", 600)

    def measure(self, strategy: str) -> float:
        """Microseconds for one request, at best: the rest is what else the machine did."""
        return min(self._round(strategy) for _ in range(ROUNDS))

    def measure_affinity(self, *, known: bool) -> float:
        """Microseconds that the affinity of a long prompt adds, at best, where its conversation is
        ``known`` or not."""
        plan = self.router.route(self.snapshot, self._policies()[0], "m0", "plain.chat", None)
        keys, affinity = plan.candidates()[0].keys, Affinity(self.clock)

        def ask(*, known: bool) -> None:
            equals = self.pools.equals(keys, "round-robin")
            conversation = conversation_of("key", "m0", BODY)
            if conversation is None:
                raise RuntimeError("the prompt of the benchmark is too short")
            best = affinity.prefer(conversation, equals, lambda one: self.pools.serves(one, "m0"))
            if known and best is not None:
                affinity.served(conversation, best)

        best = float("inf")
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for _ in range(2000):
                ask(known=known)
            best = min(best, (time.perf_counter() - began) / 2000)
        return best * 1e6

    def _policies(self) -> list[Policy]:
        return list(self.snapshot.policies.values())

    def _requests(self) -> Iterator[tuple[Policy, str]]:
        policies = itertools.cycle(self._policies())
        names = itertools.cycle(f"m{number}" for number in range(MODELS))
        return itertools.islice(zip(policies, names, strict=False), REQUESTS)

    def _round(self, strategy: str) -> float:
        route, order, draw = self.router.route, self.pools.order, self.pools.draw
        requests, now = list(self._requests()), self.clock.monotonic
        began = time.perf_counter()
        for policy, name in requests:
            plan = route(self.snapshot, policy, name, "plain.chat", None)
            candidate = plan.candidates()[0]
            for key in order(candidate.keys, strategy, candidate.model.id):
                draw(key.id, now()).release()
                break
        return (time.perf_counter() - began) / len(requests) * 1e6


def _snapshot(directory: Path) -> Snapshot:
    draft = CatalogDraft()
    vendor = draft.add("provider", "acme", {})
    hosts = [draft.host(f"h{number}") for number in range(HOSTS)]
    policies = [draft.policy(f"p{number}") for number in range(POLICIES)]
    for number in range(MODELS):
        draft.model(f"m{number}", [hosts[number % HOSTS]], provider_id=vendor)
    for host in range(HOSTS):
        for number in range(KEYS):
            draft.host_key(f"k{host}-{number}", hosts[host], policies[0], weight=1 + number % 5)
    provider = PlainProvider(PluginConfig(), plugin_context(directory))
    return draft.snapshot({"plain": provider}, {"table": TableBackend({}, directory)})


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as directory:
        routing = Routing(Path(directory))
        for strategy in STRATEGIES:
            typer.echo(f"route and pick, {strategy:20} {routing.measure(strategy):6.2f} µs")
        for known, which in ((False, "a new conversation"), (True, "a known one")):
            typer.echo(f"affinity of {which:24} {routing.measure_affinity(known=known):6.2f} µs")


if __name__ == "__main__":
    main()
