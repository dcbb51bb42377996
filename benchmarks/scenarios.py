"""The scenarios: what is asked of each stack, and what the gateway is to reach."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from benchmarks.stacks import Ask


class Kind(Enum):
    """How a scenario is measured."""

    LOAD = "load"
    """Callers in a closed loop."""
    OPEN = "open"
    """Slow streams that are all open at once, on a fresh process."""
    START = "start"
    """A start on a catalog that is there, until the first answer; then memory at rest."""
    GROWTH = "growth"
    """Memory after many requests, on a fresh process."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """``connections`` callers that ask the same; ``spread`` seconds keep them out of step.

    ``beside`` is a scenario whose callers are there at the same time and are not measured.
    """

    name: str
    kind: Kind
    ask: Ask
    connections: int
    spread: float = 0.0
    quick: bool = True
    with_peers: bool = False
    requests: int = 0
    beside: Scenario | None = None

    def checks(self, *, exact: bool) -> list[str]:
        """What makes an answer complete, as options of the load generator.

        Of a stack that is not ``exact`` only the framing is known, and that streams have events.
        """
        if self.ask.streamed:
            return [f"events={self.ask.events if exact else 1}"]
        return [f"bytes={ANSWER_BYTES}"] if exact else []


EVENTS = 200
ANSWER_BYTES = 1024
KIB = 1024

_SMALL = Ask(f"json{ANSWER_BYTES}", KIB)
_NUMBERED = Ask(f"json{ANSWER_BYTES}", KIB, numbered=True)
_STREAM = Ask(f"events{EVENTS}", KIB, streamed=True)
_SHORT = Ask("events10every1", KIB, streamed=True)
"""A stream during which its upstream leaves the core to others, so that they get its first byte."""
_PACED = Ask(f"events{EVENTS}every5", KIB, streamed=True)
_OPEN = Ask("events600every1000", KIB, streamed=True)

_STREAMS = Scenario("streams paced 5 ms, 64 callers", Kind.LOAD, _PACED, 64, spread=1.0)
_MIXED = "1 KB, 16 callers beside paced streams"

SCENARIOS = (
    Scenario("1 KB, 1 caller", Kind.LOAD, _SMALL, 1, with_peers=True),
    Scenario("1 KB, 16 callers", Kind.LOAD, _SMALL, 16, quick=False),
    Scenario("1 KB, 64 callers", Kind.LOAD, _SMALL, 64, with_peers=True),
    Scenario("1 KB, 64 callers, no head twice", Kind.LOAD, _NUMBERED, 64),
    Scenario("1 KB, 256 callers", Kind.LOAD, _SMALL, 256),
    Scenario("100 KB bodies, 64 callers", Kind.LOAD, Ask(_SMALL.script, 100 * KIB), 64),
    Scenario("5 MB bodies, 8 callers", Kind.LOAD, Ask(_SMALL.script, 5 * KIB * KIB), 8),
    Scenario(
        "upstream takes 50 ms, 64 callers",
        Kind.LOAD,
        Ask("wait50", KIB),
        64,
        spread=0.05,
        with_peers=True,
    ),
    Scenario("first key throttled, 64 callers", Kind.LOAD, Ask("throttled", KIB), 64, quick=False),
    Scenario("stream, 1 caller", Kind.LOAD, _SHORT, 1),
    Scenario("streams, 16 callers", Kind.LOAD, _STREAM, 16, with_peers=True),
    _STREAMS,
    Scenario(_MIXED, Kind.LOAD, _SMALL, 16, quick=False, beside=_STREAMS),
    Scenario("1 000 slow streams open", Kind.OPEN, _OPEN, 1000),
    Scenario("5 000 slow streams open", Kind.OPEN, _OPEN, 5000, quick=False),
    Scenario("start", Kind.START, _SMALL, 1),
    Scenario("200 000 requests", Kind.GROWTH, _SMALL, 64, quick=False, requests=200_000),
)


class Figure(Enum):
    """What is read off a measurement: its field, and its unit."""

    REQUESTS = ("requests_per_second", "requests/s")
    P50 = ("p50_us", "p50, µs")
    P99 = ("p99_us", "p99, µs")
    FIRST_BYTE = ("first_byte_p50_us", "first byte p50, µs")
    EVENTS = ("events_per_second", "events/s")
    CPU_PER_REQUEST = ("cpu_us_per_request", "CPU per request, µs")
    CPU_PER_EVENT = ("cpu_us_per_event", "CPU per event, µs")
    MEMORY_PER_STREAM = ("kib_per_stream", "KiB per stream")
    START = ("start_seconds", "to the first answer, s")
    REST = ("rest_mib", "at rest, MiB")
    GROWTH = ("growth_mib", "growth, MiB")

    def __init__(self, field: str, unit: str) -> None:
        self.field = field
        self.unit = unit


class Comparison(Enum):
    """How a figure of the gateway is held against a target."""

    RATIO = "ratio"
    ADDED_RATIO = "ratio of what is added"
    """To the direct way, by both."""
    ADDED = "added"
    ABSOLUTE = "absolute"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a figure of the gateway, held against that of ``reference``.

    ``least`` or ``most`` is the target, if there is one.
    """

    scenario: str
    figure: Figure
    comparison: Comparison
    least: float | None = None
    most: float | None = None
    reference: str = "nginx"


_RATIO, _ADDED_RATIO = Comparison.RATIO, Comparison.ADDED_RATIO
ROWS = (
    Row("1 KB, 1 caller", Figure.P50, _ADDED_RATIO, most=2.0),
    Row("1 KB, 16 callers", Figure.REQUESTS, _RATIO),
    Row("1 KB, 64 callers", Figure.REQUESTS, _RATIO, least=0.45),
    Row("1 KB, 64 callers", Figure.P99, _RATIO, most=2.5),
    Row("1 KB, 64 callers", Figure.CPU_PER_REQUEST, _RATIO),
    Row("1 KB, 64 callers", Figure.REQUESTS, _RATIO, least=180, reference="litellm"),
    Row("1 KB, 64 callers", Figure.REQUESTS, _RATIO, least=28, reference="portkey"),
    Row("1 KB, 64 callers, no head twice", Figure.REQUESTS, _RATIO),
    Row("1 KB, 64 callers, no head twice", Figure.CPU_PER_REQUEST, _RATIO),
    Row("1 KB, 256 callers", Figure.REQUESTS, _RATIO, least=0.40),
    Row("100 KB bodies, 64 callers", Figure.REQUESTS, _RATIO, least=0.5),
    Row("5 MB bodies, 8 callers", Figure.REQUESTS, _RATIO, least=0.4),
    Row("upstream takes 50 ms, 64 callers", Figure.P50, _ADDED_RATIO, most=1.2),
    Row("upstream takes 50 ms, 64 callers", Figure.P99, Comparison.ADDED, most=600.0),
    Row("upstream takes 50 ms, 64 callers", Figure.CPU_PER_REQUEST, _RATIO),
    Row("first key throttled, 64 callers", Figure.REQUESTS, _RATIO),
    Row("stream, 1 caller", Figure.FIRST_BYTE, Comparison.ADDED, most=400.0),
    Row("streams, 16 callers", Figure.EVENTS, _RATIO, least=0.9),
    Row("streams, 16 callers", Figure.EVENTS, _RATIO, reference="litellm"),
    Row("streams paced 5 ms, 64 callers", Figure.CPU_PER_EVENT, _RATIO, most=1.4),
    Row(_MIXED, Figure.REQUESTS, _RATIO),
    Row(_MIXED, Figure.P99, _RATIO),
    Row("1 000 slow streams open", Figure.MEMORY_PER_STREAM, Comparison.ABSOLUTE, most=17.0),
    Row("5 000 slow streams open", Figure.MEMORY_PER_STREAM, Comparison.ABSOLUTE, most=17.0),
    Row("start", Figure.START, Comparison.ABSOLUTE, most=1.0),
    Row("start", Figure.REST, Comparison.ABSOLUTE, most=90.0),
    Row("200 000 requests", Figure.GROWTH, Comparison.ABSOLUTE),
)
