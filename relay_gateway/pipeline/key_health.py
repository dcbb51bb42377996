"""What becomes of a host key when its credential cannot be had, is refused, or is replaced.

A refused credential is fetched anew once, for all who were refused. Meanwhile the key is the last
to be drawn, and who draws it waits for the fetch. Another value puts the key back with a clean
slate; the same one benches it, and from then on it is looked for another value now and again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.errors import SecretError
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.keypool import Cause, KeyPools
from relay_gateway.pipeline.known_credentials import CredentialSource
from relay_gateway.pipeline.route import Candidate
from relay_gateway.plugin.providers import Classification, Scope, Verdict
from relay_gateway.secret import Secret

REFUSED_BENCH: Final = 60.0
"""How long the first bench of a refused credential lasts; each further one is twice as long."""
LONGEST_BENCH: Final = 600.0
WATCH_SECONDS: Final = 1.0
"""When the backend is first asked again whether it has another value than the refused one."""
REFUSED: Final = "refused by the upstream"
THROTTLED: Final = "throttled by the upstream"
REFUSED_MODEL_BENCH: Final = 300.0
"""How long a key is left out for a model that it may not use."""
_ABOUT_KEYS = frozenset({Verdict.CREDENTIAL, Verdict.THROTTLED})

_log = logging.getLogger(__name__)


class KeyHealth:
    """Ties the states of keys to their credentials."""

    def __init__(self, credentials: Credentials, pools: KeyPools) -> None:
        self._credentials = credentials
        self._pools = pools
        self._said: dict[str, str] = {}
        credentials.observer = self

    async def secret(self, key: HostKey) -> Secret | None:
        """The credential of a key that was drawn; ``None`` when the key turns out to be of no use,
        and is benched."""
        secret = self._credentials.peek(key)
        if secret is not None:
            return secret
        try:
            secret = await self._credentials.get(key)
        except SecretError as error:
            if not self._pools.is_benched(key.id):
                self._bench_unresolved(key.id, error, None)
            return None
        # The fetch that was waited for may have shown that the refused value is still the one.
        return None if self._pools.is_benched(key.id) else secret

    def take(
        self,
        classification: Classification,
        key: HostKey | None,
        secret: Secret | None,
        model_id: str,
    ) -> None:
        """Draws the consequences of a refusal for the key that met it with a model. What a value
        met that has been replaced since says nothing about the new one."""
        if key is None or secret is None or self._credentials.is_replaced(key, secret):
            return
        verdict, scope, wait = classification.verdict, classification.scope, None
        if verdict is Verdict.THROTTLED:
            wait = classification.retry_after
        if verdict not in _ABOUT_KEYS or scope is Scope.HOST:
            return
        if scope is Scope.MODEL:
            reason = f"{REFUSED} for this model" if verdict is Verdict.CREDENTIAL else THROTTLED
            wait = REFUSED_MODEL_BENCH if verdict is Verdict.CREDENTIAL else wait
            self._pools.bench_model(key.id, model_id, reason, wait)
        elif verdict is Verdict.CREDENTIAL:
            self._refused(key, secret)
        else:
            self._pools.bench(key.id, THROTTLED, wait, Cause.THROTTLED)

    async def renewed(self, key: HostKey, secret: Secret) -> bool:
        """Whether the key has another credential than the refused ``secret``; waits until that is
        known."""
        return await self._credentials.renewed(key, secret)

    def retain(self, keys: Mapping[str, HostKey]) -> None:
        """Lets go of keys that are gone, or have another reference: that starts anew."""
        self._pools.renew_rings()
        for key_id in self._credentials.retain(keys):
            self._pools.forget(key_id)
            self._said.pop(key_id, None)

    def reset(self, key_id: str) -> None:
        """Puts a key back as if nothing had happened; its credential is asked for at once."""
        self._pools.reset(key_id)
        self._credentials.retry(key_id)

    # Called by the credentials.

    def resolved(self, key: CredentialSource, secret: Secret) -> None:
        """The credential is known, for the first time or anew."""
        state = self._pools.state(key.id)
        before = state.value
        self._pools.renew(key.id, secret.fingerprint())
        if self._pools.trust(key.id) and before == state.value:
            self._bench_refused(key, f"{REFUSED}, and {key.backend!r} has no other value")
        if before not in (None, state.value):
            _log.info("the credential of host key %s was replaced", key.id)
        if self._said.pop(key.id, None) is not None:
            _log.info("the credential of host key %s can be had again", key.id)
        if state.cause is not Cause.REFUSED:
            self._credentials.unwatch(key)

    def unresolved(self, key: CredentialSource, error: SecretError, pause: float) -> None:
        """The credential could not be had; an older one may still be in use."""
        if self._said.get(key.id) != str(error):
            self._said[key.id] = str(error)
            _log.warning("the credential of host key %s cannot be had: %s", key.id, error)
        if self._pools.trust(key.id):
            self._bench_refused(key, f"{REFUSED}; {error.reason}: {error}")
        elif self._credentials.peek(key) is None:
            self._bench_unresolved(key.id, error, pause)

    def _refused(self, key: HostKey, secret: Secret) -> None:
        state = self._pools.state(key.id)
        if state.cause is Cause.REFUSED and self._pools.is_benched(key.id):
            return  # one of many that were under way; the value has been compared
        self._pools.doubt(key.id)
        self._credentials.refused(key, secret)

    def _bench_refused(self, key: CredentialSource, reason: str) -> None:
        strikes = self._pools.state(key.id).strikes
        seconds = min(LONGEST_BENCH, REFUSED_BENCH * 2.0 ** min(strikes, 10))
        self._pools.bench(key.id, reason, seconds, Cause.REFUSED)
        self._credentials.watch(key, WATCH_SECONDS)

    def _bench_unresolved(self, key_id: str, error: SecretError, pause: float | None) -> None:
        self._pools.bench(key_id, f"{error.reason}: {error}", pause, Cause.UNRESOLVED)


class Healing:
    """The credentials that were refused to one request. Each of their keys is tried once more when
    it turns out to have another one."""

    __slots__ = ("_health", "_refused", "_seen")

    def __init__(self, health: KeyHealth) -> None:
        self._health = health
        self._refused: list[tuple[Candidate, HostKey, Secret]] = []
        self._seen: set[tuple[int, str]] = set()

    def note(self, candidate: Candidate, key: HostKey, secret: Secret) -> None:
        """``secret`` was refused."""
        place = id(candidate), key.id
        if place not in self._seen:
            self._seen.add(place)
            self._refused.append((candidate, key, secret))

    async def next(self) -> tuple[Candidate, HostKey] | None:
        """Where to try again, once nothing else is left to try; waits for what is being fetched."""
        while self._refused:
            candidate, key, secret = self._refused.pop(0)
            if await self._health.renewed(key, secret):
                return candidate, key
        return None
