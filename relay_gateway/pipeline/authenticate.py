"""Who is calling: from a presented relay key to the key in the snapshot, or a refusal.

No database, no comparison loop: one SHA-256, one look-up by the whole digest.
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address

from relay_gateway.catalog.snapshot import PresentedKey, RelayKey, Snapshot
from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers
from relay_gateway.security.relay_keys import has_valid_checksum

UNKNOWN = "the relay key is not known, or it has been revoked"
_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class Authenticator:
    """Reads the relay key from the headers that may carry it and finds it in a snapshot."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._own = tuple(f"{prefix.lower()}api-key".encode() for prefix in prefixes)
        self._accepted = ", ".join((f"{prefixes[0]}API-Key", "Authorization: Bearer", "x-api-key"))

    def authenticate(
        self, snapshot: Snapshot, headers: Headers, address: str, now: float
    ) -> RelayKey:
        """The relay key of a request; ``now`` is in seconds since the epoch.

        Raises :class:`RequestRefusedError`; an unknown, a disabled and a revoked key are not told
        apart.
        """
        found = self.find(snapshot, headers)
        check(found, address, now)
        return found.key

    def find(self, snapshot: Snapshot, headers: Headers) -> PresentedKey:
        """The key that a request presents, if the gateway knows it."""
        presented = self.present(headers)
        if presented is None:
            raise unauthorized(f"no relay key found: send it in one of {self._accepted}")
        return look_up(snapshot, presented)

    def present(self, headers: Headers) -> str | None:
        """The relay key as sent; 400 ``duplicate_auth`` when a header that carries it comes
        twice."""
        value = self.present_own(headers)
        if value is not None:
            return value
        value = _single(headers, b"authorization")
        if value is not None and value[:7].lower() == "bearer ":
            return value[7:].strip()
        value = _single(headers, b"x-api-key")
        return value if value is not None else _single(headers, b"x-goog-api-key")

    def present_own(self, headers: Headers) -> str | None:
        """The relay key in the gateway's own header, where the others carry what is not the
        gateway's; 400 as :meth:`present`."""
        for name in self._own:
            value = _single(headers, name)
            if value is not None:
                return value
        return None


def look_up(snapshot: Snapshot, presented: str) -> PresentedKey:
    """What a presented relay key stands for; 401 where that is nothing."""
    found = snapshot.relay_keys.get(sha256(presented.encode()).digest())
    if found is None:
        raise unauthorized(_explain(presented))
    return found


def check_relay_key(key: RelayKey, address: str, now: float) -> None:
    """Refuses a known key that may not be used now, or not from ``address``: raises
    :class:`RequestRefusedError`."""
    if key.expires_at is not None and key.expires_at <= now:
        raise RequestRefusedError(403, "key_expired", "the relay key has expired")
    if key.networks and not _within(key, address):
        raise RequestRefusedError(
            403, "address_not_allowed", "the relay key may not be used from this address"
        )


def check(found: PresentedKey, address: str, now: float) -> None:
    """Whether a known key may be used from ``address`` at ``now``; raises as
    :meth:`Authenticator.authenticate` does."""
    if found.until is not None and found.until <= now:
        raise unauthorized(UNKNOWN)
    check_relay_key(found.key, address, now)


def _explain(presented: str) -> str:
    # A look-up costs less than the checksum, so the checksum only chooses the words of a refusal.
    if has_valid_checksum(presented):
        return UNKNOWN
    return "the relay key is not well formed; check it for a typing mistake"


def _single(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    if value is None:
        return None
    if headers.is_repeated(name):
        raise RequestRefusedError(
            400, "duplicate_auth", f"the header {name.decode()} was sent more than once"
        )
    return value.decode("latin-1")


def _within(key: RelayKey, address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in key.networks)


def unauthorized(message: str = UNKNOWN) -> RequestRefusedError:
    """The refusal of a key that is missing, malformed, unknown, disabled or revoked."""
    return RequestRefusedError(401, "invalid_api_key", message, headers=_CHALLENGE)
