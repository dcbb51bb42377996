"""What is known of one credential: its value, how long that is good, what went wrong last."""

from __future__ import annotations

import math
import random
from typing import Final, Protocol

import msgspec

from relay_gateway.errors import SecretError
from relay_gateway.plugin.resolved import ResolvedSecret
from relay_gateway.plugin.secrets import RowBinding, SecretRef
from relay_gateway.secret import Secret

DEFAULT_TTL: Final = 300.0
MIN_TTL: Final = 1.0
"""A backend that gives a credential less time than this is not asked more often."""
REFRESH_AT: Final = 0.8
"""The part of its time after which a credential is fetched again, at the latest."""
MAX_STALE: Final = 86_400.0
"""How long a credential is used beyond its time while its backend cannot be asked."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0


class CredentialSource(Protocol):
    """What has a credential by reference: a host key, for one."""

    @property
    def id(self) -> str:
        """By which the credential is known here."""

    @property
    def backend(self) -> str:
        """The name of the backend to ask."""

    @property
    def stored(self) -> SecretRef:
        """The reference."""

    @property
    def binding(self) -> RowBinding:
        """The place that a sealed value belongs to."""


class Known(msgspec.Struct):
    """A credential and the reference it was fetched for. Times are of the monotonic clock."""

    stored: SecretRef | None
    backend: str | None
    secret: Secret | None = None
    version: str | None = None
    fetched_at: float = 0.0
    good_until: float = 0.0
    due: float = 0.0
    """When it should be fetched again."""
    error: SecretError | None = None
    """Why the last fetch failed."""
    failures: int = 0
    """How many fetches have failed since one did not."""
    doubted: bool = False
    """An upstream refused it, and it was not fetched again since."""
    watched: float | None = None
    """It is of no use as it is; after how many seconds the backend is asked again."""
    source: CredentialSource | None = None

    @classmethod
    def nothing(cls) -> Known:
        """What is known before anybody asked."""
        return cls(None, None)

    def is_usable(self, now: float) -> bool:
        """Whether it can be handed out although it should be fetched again."""
        return self.secret is not None and not self.doubted and now <= self.good_until + MAX_STALE

    def renew(self, resolved: ResolvedSecret, now: float) -> Secret:
        """Takes in what a fetch brought. The same value stays the same object."""
        if self.secret is None or not self.secret.matches(resolved.value.reveal()):
            self.secret, self.watched = resolved.value, None
        ttl = DEFAULT_TTL if resolved.ttl is None else resolved.ttl
        ttl = max(MIN_TTL, ttl) if math.isfinite(ttl) else DEFAULT_TTL
        self.version = resolved.version
        self.fetched_at, self.good_until = now, now + ttl
        # Not all at the same time, where many were fetched at the same time.
        pause = ttl * REFRESH_AT * random.uniform(0.9, 1.0)  # noqa: S311 - jitter
        if self.watched is not None:
            pause = min(pause, self.watched)
            self.watched = min(LONGEST_PAUSE, 2 * self.watched)
        self.due = now + pause
        self.error, self.failures, self.doubted = None, 0, False
        return self.secret

    def fail(self, error: SecretError, now: float, jitter: float) -> float:
        """Notes a fetch that failed; the seconds until the next one is worth while."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures, 10)) * jitter
        self.error, self.failures, self.doubted = error, self.failures + 1, False
        self.due = now + pause
        return pause

    def described(self, now: float) -> dict[str, object]:
        """What may be shown of it; nothing of the value."""
        known = self.secret is not None
        return {
            "resolved": known and now <= self.good_until + MAX_STALE,
            "backend": self.backend,
            "version": self.version,
            "ageSeconds": round(now - self.fetched_at, 1) if known else None,
            "stale": known and now > self.good_until,
            "refreshSeconds": round(max(0.0, self.due - now), 1) if self.backend else None,
            "lastError": f"{self.error.reason}: {self.error}" if self.error else None,
        }


def check_sendable(secret: Secret) -> None:
    """Raises :class:`SecretError` for a value that cannot stand in a header."""
    value = secret.reveal()
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise SecretError("the credential has characters that a header cannot carry")
