"""The page that says which kinds of plugin a request goes through, route by route.

``tests/integration/guards/test_plugin_routes.py`` sends a request for each row, and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from relay_gateway.registry import ServedEndpoint

Mode = Literal["same format", "translated", "proxy"]
Ran = frozenset[str]
OTHER = "any other path"
COLUMNS = (
    "state store",
    "secret backend",
    "upstream provider",
    "guard: request",
    "guard: whole answer",
    "guard: stream",
    "usage sink",
    "payload logger",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One way that a request can take; ``served`` is ``None`` for a path of no wire format."""

    served: ServedEndpoint | None
    mode: Mode
    streamed: bool
    ran: Ran

    @property
    def title(self) -> str:
        """The route, for people."""
        if self.served is None:
            return OTHER
        return f"{self.served.endpoint.method} {self.served.endpoint.path}"


def rows(endpoints: Iterable[ServedEndpoint]) -> Iterator[Row]:
    """Every way, with the kinds of plugin that run."""
    for served in endpoints:
        has_codec = served.wire_format.codec() is not None
        modes: tuple[Mode, ...] = ("same format", "translated", "proxy")
        for mode in modes:
            if mode == "translated" and not has_codec:
                continue
            for streamed in _forms(served):
                ran = _ran(mode, has_codec=has_codec, streamed=streamed)
                yield Row(served, mode, streamed, ran)
    ran = _ran("proxy", has_codec=False, streamed=False)
    yield Row(None, "proxy", streamed=False, ran=ran)


def _forms(served: ServedEndpoint) -> tuple[bool, ...]:
    """Whether answers are streams. A path that says the model says that, too."""
    if not served.endpoint.streams:
        return (False,)
    return (True,) if "{model}" in served.endpoint.path else (False, True)


def _ran(mode: Mode, *, has_codec: bool, streamed: bool) -> Ran:
    always = {"state store", "usage sink", "payload logger"}
    if has_codec:
        always.add("guard: request")
    if mode == "proxy":
        return frozenset(always)
    always |= {"secret backend", "upstream provider"}
    if has_codec:
        always.add("guard: stream" if streamed else "guard: whole answer")
    return frozenset(always)


def plugin_routes_page(endpoints: Iterable[ServedEndpoint]) -> Iterator[str]:
    """The page."""
    yield (
        "Which plugins a request goes through, by route, by how it is passed on, and by the form "
        "of its answer. A test sends a request for each line, with a plugin of each kind that "
        "writes down what it is asked for.\n\n"
        "*Same format*: the host speaks the caller's wire format. *Translated*: it speaks another "
        "one. *Proxy*: [proxy mode](../how-to/use-proxy-mode.md), where every byte goes on as it "
        "came, with the caller's own credential.\n\n"
        "State stores are asked where a limit applies, secret backends when a host key is first "
        "needed and when its time to live is over, payload loggers where payloads are kept. The "
        "usage of an answer is read by the meter of the wire format, which a provider defines, in "
        "every mode. A guard whose scope has a route, and that cannot read what is sent there "
        "(—), refuses it or lets it go on as its `on_failure` says: [guards]"
        "(../how-to/write-a-guard.md#what-a-guard-cannot-read).\n"
    )
    yield f"| route | mode | answer | {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * (3 + len(COLUMNS))}"
    for row in rows(endpoints):
        cells = ["yes" if column in row.ran else "—" for column in COLUMNS]
        answer = "stream" if row.streamed else "whole"
        yield f"| `{row.title}` | {row.mode} | {answer} | {' | '.join(cells)} |"
