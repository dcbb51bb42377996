"""Every exception the gateway raises on purpose.

    RelayError
    ├── ConfigurationError            the process must not start like this
    │   ├── SettingsError             relay.toml or RELAY_*: unknown key, bad value
    │   ├── PluginConfigError         a plugin's own section does not validate
    │   └── DuplicatePluginError      two distributions claim one name
    ├── PluginError                   one plugin misbehaves, the others go on
    │   ├── PluginLoadError           it cannot be imported, registered or opened
    │   └── PluginUnavailableError    something needs a plugin that is absent or quarantined
    ├── SecretError                   a credential cannot be had; carries a stable ``reason``
    │   ├── SecretNotFoundError
    │   ├── SecretDeniedError
    │   ├── SecretUnavailableError    the backend is down, slow or overloaded: try later
    │   └── SecretRefError            the reference itself is not acceptable; names the field
    ├── CatalogError                  a control-plane write or read is refused
    │   ├── InvalidEntityError        every offending field, with what is wrong
    │   ├── EntityNotFoundError
    │   ├── SlugTakenError
    │   ├── EntityReferencedError     who still points at it
    │   ├── VersionConflictError      somebody else wrote first
    │   └── KeyReusedError            an idempotency key came with another request before
    ├── StorageUnavailableError       the database cannot be asked right now
    ├── RequestRefusedError           an inference request ends here; status, code, message
    └── UpstreamError                 the exchange with an upstream failed
        ├── UpstreamConnectError      refused, unreachable, name not found, address denied
        ├── UpstreamTlsError
        ├── UpstreamTimeoutError      connect, first byte, idle or total
        ├── UpstreamProtocolError     what came back is not HTTP as it should be
        ├── UpstreamClosedError       the peer closed before the answer was complete
        └── UpstreamOverloadedError   the pool of this host is full and its queue too

No message ever contains a credential; what a message may quote is the catalog's own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class RelayError(Exception):
    """Base of all errors the gateway raises on purpose."""


class ConfigurationError(RelayError):
    """The process must not start with this configuration."""


class SettingsError(ConfigurationError):
    """``relay.toml`` or a ``RELAY_*`` variable is unknown or has a bad value."""


class PluginConfigError(ConfigurationError):
    """The section of one plugin in ``relay.toml`` does not validate."""


class DuplicatePluginError(ConfigurationError):
    """Two distributions claim the same plugin, wire format or endpoint name."""


class PluginError(RelayError):
    """One plugin misbehaves; the gateway and the other plugins go on."""


class PluginLoadError(PluginError):
    """A plugin cannot be imported, registered, configured or opened."""


class PluginUnavailableError(PluginError):
    """Configuration or catalog needs a plugin that is not installed or is quarantined."""


class SecretError(RelayError):
    """A credential cannot be had. ``reason`` is a stable code that may be shown to an operator."""

    reason = "secret_error"


class SecretNotFoundError(SecretError):
    """The backend answered, and it has no such secret."""

    reason = "secret_not_found"


class SecretDeniedError(SecretError):
    """The backend answered that the gateway may not read this secret."""

    reason = "secret_denied"


class SecretUnavailableError(SecretError):
    """The backend did not answer in time or at all; worth another try later."""

    reason = "secret_backend_unavailable"


class SecretRefError(SecretError):
    """A ``valueFrom`` that its backend does not accept.

    ``field`` is the path below ``valueFrom`` (``"env"``), empty for the reference as a whole.
    """

    reason = "secret_ref_invalid"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One offending field of a control-plane write: where, a stable code, and what to do."""

    field: str
    code: str
    message: str


class CatalogError(RelayError):
    """A control-plane read or write is refused."""


class InvalidEntityError(CatalogError):
    """The write does not validate; ``problems`` names every offending field."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
        self.problems = tuple(problems)


class EntityNotFoundError(CatalogError):
    """No entity of this kind has this id or slug."""

    def __init__(self, kind: str, ref: str) -> None:
        super().__init__(f"no {kind} has the id or slug {ref!r}")
        self.kind = kind
        self.ref = ref


class SlugTakenError(CatalogError):
    """The slug (or another unique name) that the client asked for is in use."""

    def __init__(self, kind: str, slug: str) -> None:
        super().__init__(f"another {kind} already has the slug {slug!r}")
        self.kind = kind
        self.slug = slug


@dataclass(frozen=True, slots=True)
class Referrer:
    """An entity that points at another one, and the field with which it does."""

    kind: str
    id: str
    slug: str
    field: str


class EntityReferencedError(CatalogError):
    """The entity cannot be deleted while others point at it."""

    def __init__(self, kind: str, ref: str, referrers: Sequence[Referrer]) -> None:
        names = ", ".join(f"{referrer.kind} {referrer.slug}" for referrer in referrers)
        super().__init__(f"{kind} {ref!r} is still referenced by {names}")
        self.referrers = tuple(referrers)


class VersionConflictError(CatalogError):
    """The caller's version is not the current one: somebody else wrote first."""

    def __init__(self, kind: str, ref: str, *, expected: int, current: int) -> None:
        super().__init__(f"{kind} {ref!r} is at version {current}, the write expected {expected}")
        self.expected = expected
        self.current = current


class KeyReusedError(CatalogError):
    """An idempotency key that came with another request before."""

    def __init__(self) -> None:
        super().__init__(
            "this Idempotency-Key came with another request before; "
            "repeat that request unchanged, or use a new key"
        )


class StorageUnavailableError(RelayError):
    """The database cannot be asked right now; answered as 503 with ``Retry-After``, never as
    401."""


class RequestRefusedError(RelayError):
    """An inference request ends here with this status and code, in the caller's wire format.

    ``retry_after`` is in seconds. ``param`` names the offending request field where there is one.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.headers = tuple(headers)


class UpstreamError(RelayError):
    """The exchange with an upstream failed.

    ``sent`` says whether any byte of the request may have reached the peer; ``reason`` is a stable
    code for records and metrics.
    """

    reason = "upstream_error"

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UpstreamConnectError(UpstreamError):
    """Refused, unreachable, name not found, or an address the gateway does not dial."""

    reason = "upstream_unreachable"


class UpstreamTlsError(UpstreamError):
    """The TLS handshake or certificate check failed; never retried without verification."""

    reason = "upstream_tls"


class UpstreamTimeoutError(UpstreamError):
    """A deadline passed; ``phase`` is ``connect``, ``first_byte``, ``idle`` or ``total``."""

    reason = "upstream_timeout"

    def __init__(self, message: str, *, phase: str, sent: bool = True) -> None:
        super().__init__(message, sent=sent)
        self.phase = phase


class UpstreamProtocolError(UpstreamError):
    """What came back is not an HTTP response as it should be, or breaks a limit."""

    reason = "upstream_invalid_response"


class UpstreamClosedError(UpstreamError):
    """The peer closed or reset the connection before the answer was complete."""

    reason = "upstream_closed"


class UpstreamOverloadedError(UpstreamError):
    """Every connection of this host is in use and its waiting line is full or too slow."""

    reason = "overloaded"

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)
