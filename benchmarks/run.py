"""A run: all stacks up, the scenarios in turn, the stacks interleaved round by round."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare import Bare
from benchmarks.measure import Bench
from benchmarks.nginx import Nginx
from benchmarks.peers import PEERS, Peer
from benchmarks.processes import BenchmarkError
from benchmarks.programs import Upstream, compile_program
from benchmarks.relay import Relay
from benchmarks.results import Measurement, Report, machine, now, revision
from benchmarks.scenarios import SCENARIOS, Kind, Scenario
from benchmarks.sinks import cost_per_record
from benchmarks.stacks import Direct, Stack


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: ``only`` is part of the names of the scenarios that are wanted, ``sink`` what
    takes the gateway's usage records, ``bare`` adds a proxy in Python that only forwards."""

    quick: bool
    rounds: int
    seconds: float
    peers: bool
    only: str = ""
    sink: str = "file"
    bare: bool = False

    @property
    def scenarios(self) -> list[Scenario]:
        """The scenarios, in their order."""
        wanted = [s for s in SCENARIOS if s.quick or not self.quick]
        return [scenario for scenario in wanted if self.only in scenario.name]


def run(plan: Plan, command: str, tell: Callable[[str], None]) -> Report:
    """Measures everything; raises :class:`BenchmarkError` when any answer was wrong.

    A peer whose answer was wrong is left out where it was.
    """
    started, where = now(), machine()
    failures: list[str] = []
    with _bench(plan) as (bench, stacks):
        measurements = list(_rounds(plan, bench, stacks, tell, failures))
        relay = next(stack for stack in stacks if isinstance(stack, Relay))
        asked = sum(
            m.requests
            for m in measurements
            if m.stack == relay.name and m.requests_per_second is not None
        )
        return Report(
            command=command,
            started_at=started,
            revision=revision(),
            machine=where,
            versions={stack.name: stack.version() for stack in stacks if stack.child is not None},
            rounds=plan.rounds,
            lost_records=max(0, asked - relay.recorded()),
            failures=failures,
            measurements=measurements,
            sink=plan.sink,
            sink_us_per_record=cost_per_record(plan.sink),
        )


@contextmanager
def _bench(plan: Plan) -> Iterator[tuple[Bench, list[Stack]]]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        program = compile_program("upstream", directory)
        upstream = stack.enter_context(Upstream(program, directory / "upstream.log"))
        peers = [kind(upstream.port) for kind in PEERS] if plan.peers else []
        relay = Relay(upstream.port, plan.sink)
        bare = [Bare(upstream.port)] if plan.bare else []
        stacks = [Direct(upstream.port), Nginx(upstream.port), *bare, relay, *peers]
        asked = [each for s in plan.scenarios for each in (s, s.beside) if each is not None]
        scripts = sorted({scenario.ask.script for scenario in asked})
        for each in stacks:
            stack.callback(each.stop)
            each.start(scripts)
        load = compile_program("load", directory)
        # A just-in-time compiler has to get warm too.
        warmup = 0.5 if plan.quick else 1.0
        yield Bench(upstream, load, directory, plan.seconds, warmup), stacks


def _rounds(
    plan: Plan,
    bench: Bench,
    stacks: Sequence[Stack],
    tell: Callable[[str], None],
    failures: list[str],
) -> Iterator[Measurement]:
    failed: set[tuple[str, str]] = set()
    for number in range(plan.rounds):
        for scenario in plan.scenarios:
            if number and plan.quick and scenario.kind is not Kind.LOAD:
                continue
            for stack in stacks:
                at = (scenario.name, stack.name)
                if at in failed or (isinstance(stack, Peer) and not scenario.with_peers):
                    continue
                tell(f"round {number + 1} of {plan.rounds}: {scenario.name}, {stack.name}")
                try:
                    measurement = bench.measure(scenario, stack, number)
                except BenchmarkError as error:
                    if not isinstance(stack, Peer):
                        raise
                    failed.add(at)
                    failures.append(f"Not measured: {' '.join(str(error).split())[:200]}")
                else:
                    if measurement is not None:
                        yield measurement
