"""The inventory: what is installed, in which state, and why something is not usable."""

from __future__ import annotations

import enum
import traceback as tracebacks
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from relay_gateway.errors import RelayError
from relay_gateway.redaction import LIVE
from relay_gateway.registry.calls import CallCounts
from relay_gateway.registry.kinds import UNKNOWN_KIND, PluginKind
from relay_gateway.secret import MASK, Secret

_LONGEST_ERROR = 500
_LONGEST_TRACE = 20_000


class PluginState(enum.StrEnum):
    """Where a plugin is in its life.

    discovered → registered → configured → opening → open → closed; ``failed`` while an opening that
    went wrong waits to be repeated, ``quarantined`` for good.
    """

    DISCOVERED = "discovered"
    """Installed and left alone: outside ``[plugins] enabled``, never imported."""
    REGISTERED = "registered"
    """Imported and collected; configuration does not use it, or lacks what it needs."""
    CONFIGURED = "configured"
    OPENING = "opening"
    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"
    QUARANTINED = "quarantined"


class PluginInfo(msgspec.Struct, frozen=True):
    """One line of the inventory.

    ``name`` is what configuration and catalog call the plugin; of one that has none yet it is the
    name of its entry point, and ``kind`` is ``-``. ``failures`` counts what requests ran into.
    """

    name: str
    kind: str
    distribution: str
    version: str
    state: PluginState
    error: str | None = None
    traceback: str | None = None
    failures: int = 0


class PluginFigures(msgspec.Struct, frozen=True):
    """What a plugin was asked for in this process: ``calls`` that were awaited, and how many
    ``seconds`` they took together."""

    kind: PluginKind
    name: str
    calls: int
    seconds: float


class Origin(msgspec.Struct, frozen=True):
    """Where a plugin comes from: its entry point and its distribution."""

    entry_point: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(slots=True)
class Record:
    """The line of one plugin while the process lives, kept by whoever moves the plugin on."""

    name: str
    kind: PluginKind | None
    origin: Origin
    state: PluginState = PluginState.REGISTERED
    error: str | None = None
    traceback: str | None = None
    failures: int = 0
    counts: CallCounts = field(default_factory=CallCounts)
    _secrets: frozenset[str] = field(default=frozenset(), repr=False)
    _live: list[Secret] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        kind = self.kind or "plugin"
        return f"{kind} {self.name!r} ({self.origin})"

    def hide(self, secrets: Iterable[str]) -> None:
        """Adds what must not be shown, should an error of the plugin quote it."""
        self._secrets = self._secrets.union(secrets)
        # Those of the plugin's own section are used by nobody else, but its libraries may log them.
        self._live = [Secret(value) for value in self._secrets]
        for secret in self._live:
            LIVE.add(secret)

    def adopt_secrets(self, other: Record) -> None:
        """Hides also what ``other``, of the same plugin, hides."""
        self.hide(other._secrets)

    def enter(self, state: PluginState, error: BaseException | str | None = None) -> None:
        """Notes the new state with its reason; without one, the reason of the old state is gone."""
        self.state = state
        self.error = None if error is None else self.wording(error)
        self.traceback = self._trace(error) if isinstance(error, BaseException) else None

    def fail(self, error: BaseException) -> None:
        """Notes a failure while working, which does not change the state."""
        self.failures += 1
        self.error = self.wording(error)
        self.traceback = self._trace(error)

    def wording(self, error: BaseException | str) -> str:
        """The error in one printable line, without the plugin's own credentials."""
        if isinstance(error, str | RelayError):
            text = str(error)
        else:
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
        # Masked whole, so that no part of a credential is left where it is cut.
        return _one_line(self._masked(text)[: 8 * _LONGEST_ERROR])

    def info(self) -> PluginInfo:
        """The line as it may be shown."""
        return PluginInfo(
            name=self.name,
            kind=self.kind or UNKNOWN_KIND,
            distribution=self.origin.distribution,
            version=self.origin.version,
            state=self.state,
            error=self.error,
            traceback=self.traceback,
            failures=self.failures,
        )

    def figures(self) -> PluginFigures | None:
        """What it was asked for; ``None`` for a plugin without a kind."""
        if self.kind is None:
            return None
        return PluginFigures(self.kind, self.name, self.counts.calls, self.counts.seconds)

    def successor(self) -> Record:
        """The line of the instance that takes the place of this one's, with its figures."""
        return replace(self, state=PluginState.REGISTERED, error=None, traceback=None)

    def _trace(self, error: BaseException) -> str:
        return self._masked("".join(tracebacks.format_exception(error)))[-_LONGEST_TRACE:]

    def _masked(self, text: str) -> str:
        # The longest first, so that one which contains another is replaced whole.
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    printable = "".join(character if character.isprintable() else "?" for character in line)
    if len(printable) <= _LONGEST_ERROR:
        return printable
    return printable[: _LONGEST_ERROR - 1] + "…"
