"""One scenario with one stack, measured."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import BenchmarkError
from benchmarks.programs import Load, LoadResult, Upstream
from benchmarks.relay import Relay
from benchmarks.results import Measurement
from benchmarks.scenarios import Kind, Scenario
from benchmarks.stacks import Ask, Stack

MIB = 1024 * 1024
_WARM_REQUESTS = 20_000
_HELD_SECONDS = 2.0
_REST_SECONDS = 2.0
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed to measure: the two programs, and for how long."""

    upstream: Upstream
    load: Path
    directory: Path
    seconds: float
    warmup: float

    def measure(self, scenario: Scenario, stack: Stack, number: int) -> Measurement | None:
        """The figures of round ``number``; ``None`` where the scenario says nothing of ``stack``.

        Raises :class:`BenchmarkError` when any answer was wrong.
        """
        try:
            if scenario.kind is Kind.LOAD:
                return self._load(scenario, stack, number)
            if stack.child is None:
                return None
            if scenario.kind is Kind.START:
                return _start(scenario, stack, number) if isinstance(stack, Relay) else None
            return self._on_fresh_process(scenario, stack, number)
        except BenchmarkError as error:
            raise BenchmarkError(f"{stack.name}, {scenario.name}: {error}") from error

    def _run(self, stack: Stack, ask: Ask, options: Sequence[str]) -> Load:
        request = self.directory / f"{stack.name}-{ask.script}-{ask.size}.http"
        request.write_bytes(stack.request(ask))
        return Load(self.load, stack.port, request, options)

    def _load(self, scenario: Scenario, stack: Stack, number: int) -> Measurement:
        with ExitStack() as exits:
            others = None
            if scenario.beside is not None:
                # They are there before the callers come and still there when those have gone.
                longer = self.seconds + self.warmup + scenario.beside.spread
                others = exits.enter_context(self._callers(scenario.beside, stack, longer))
            load = exits.enter_context(self._callers(scenario, stack, self.seconds))
            before, upstream_before = stack.usage(), self.upstream.usage()
            result = load.finish()
            after, upstream_after = stack.usage(), self.upstream.usage()
            beside = others.finish().all_answers if others is not None else 0
        stack.settle()
        if not result.answers:
            raise BenchmarkError(f"no answer within {self.seconds:g} s")
        window = _Window(
            requests=result.all_answers + beside,
            cpu=after.cpu_seconds - before.cpu_seconds,
            late_cpu=stack.usage().cpu_seconds - after.cpu_seconds,
            upstream_cpu=upstream_after.cpu_seconds - upstream_before.cpu_seconds,
        )
        return _figures(scenario, stack, number, result, window)

    def _callers(self, scenario: Scenario, stack: Stack, seconds: float) -> Load:
        options = (
            f"connections={scenario.connections}",
            f"spread={scenario.spread}",
            # Callers that start one after the other are all there before anything is measured.
            f"warmup={self.warmup + scenario.spread}",
            f"seconds={seconds + scenario.spread}",
            *scenario.checks(exact=stack.exact),
        )
        return self._run(stack, scenario.ask, options)

    def _on_fresh_process(self, scenario: Scenario, stack: Stack, number: int) -> Measurement:
        """What an allocator has kept from earlier work would hide what this work needs."""
        fresh = stack.fresh()
        try:
            fresh.start([scenario.ask.script])
            if scenario.kind is Kind.OPEN:
                return self._hold(scenario, fresh, number)
            return self._grow(scenario, fresh, number)
        finally:
            fresh.stop()

    def _hold(self, scenario: Scenario, stack: Stack, number: int) -> Measurement:
        options = (f"connections={scenario.connections}", "hold=1")
        with self._run(stack, scenario.ask, ("connections=16", "hold=1")) as load:
            load.wait_for("holding")
            load.finish()
        stack.settle()
        before = stack.usage().resident_bytes
        with self._run(stack, scenario.ask, options) as load:
            load.wait_for("holding")
            time.sleep(_HELD_SECONDS)
            held = stack.usage().resident_bytes - before
            load.finish()
        return Measurement(
            scenario=scenario.name,
            stack=stack.name,
            round=number,
            requests=scenario.connections,
            kib_per_stream=held / scenario.connections / 1024,
        )

    def _grow(self, scenario: Scenario, stack: Stack, number: int) -> Measurement:
        def resident_after(requests: int) -> int:
            options = (
                f"connections={scenario.connections}",
                "warmup=0",
                f"requests={requests}",
                *scenario.checks(exact=stack.exact),
            )
            with self._run(stack, scenario.ask, options) as load:
                load.finish()
            stack.settle()
            return stack.usage().resident_bytes

        before = resident_after(_WARM_REQUESTS)
        growth = resident_after(scenario.requests) - before
        return Measurement(
            scenario=scenario.name,
            stack=stack.name,
            round=number,
            requests=scenario.requests,
            growth_mib=growth / MIB,
        )


@dataclass(frozen=True, slots=True)
class _Window:
    """What happened while a load was measured, and after it; seconds of CPU."""

    requests: int
    cpu: float
    late_cpu: float
    upstream_cpu: float


def _figures(
    scenario: Scenario, stack: Stack, number: int, result: LoadResult, window: _Window
) -> Measurement:
    def per_request(seconds: float) -> float | None:
        return seconds / result.answers * 1e6 if stack.child is not None else None

    streams = result.events > 0
    paid = window.cpu / result.events * 1e6 if streams and stack.child is not None else None
    busy = window.upstream_cpu + result.cpu_seconds
    return Measurement(
        scenario=scenario.name,
        stack=stack.name,
        round=number,
        requests=window.requests,
        requests_per_second=result.answers / result.seconds,
        p50_us=result.latency_us.p50,
        p99_us=result.latency_us.p99,
        first_byte_p50_us=result.first_byte_us.p50,
        events_per_second=result.events / result.seconds if streams else None,
        cpu_us_per_request=per_request(window.cpu),
        cpu_us_per_event=paid,
        late_cpu_us_per_request=per_request(window.late_cpu),
        # What those beside used is not known.
        spare=1 - busy / result.seconds if scenario.beside is None else None,
    )


def _start(scenario: Scenario, stack: Relay, number: int) -> Measurement:
    """Ends the gateway and starts it again on the same data."""
    if stack.child is not None:
        stack.child.stop()
    request = stack.request(scenario.ask)
    began = time.monotonic()
    stack.launch()
    _until(lambda: _is_answered(stack.port, request), began + _START_SECONDS)
    seconds = time.monotonic() - began
    stack.wait_until_announced()
    time.sleep(_REST_SECONDS)
    return Measurement(
        scenario=scenario.name,
        stack=stack.name,
        round=number,
        requests=1,
        start_seconds=seconds,
        rest_mib=stack.usage().resident_bytes / MIB,
    )


def _until(condition: Callable[[], bool], deadline: float) -> None:
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"no answer within {_START_SECONDS:g} s of the start")
        time.sleep(0.005)


def _is_answered(port: int, request: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(request)
            return connection.recv(4096).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
