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
    │   ├── RedirectedKeysError       credentials would be sent elsewhere, and nobody confirmed it
    │   ├── VersionConflictError      somebody else wrote first
    │   ├── BatchRefusedError         a write of several entities: what is wrong with which
    │   ├── MasterKeyError            sealed with a master key that does not belong here
    │   ├── ManagedByFileError        files declare it, so it is not changed beside them
    │   └── KeyReusedError            an idempotency key came with another request before
    ├── StorageUnavailableError       the database cannot be asked right now
    ├── StateUnavailableError         the state store of limits cannot be asked right now
    │   └── StateBusyError            it is there, and somebody else has it for a moment
    ├── RequestRefusedError           an inference request ends here; status, code, message
    └── UpstreamError                 the exchange with an upstream failed
        ├── UpstreamConnectError      refused, unreachable, name not found, address denied
        │   └── EgressProxyError      the egress proxy of the host did not open a tunnel
        ├── UpstreamTlsError
        ├── UpstreamTimeoutError      connect, first byte, idle or total
        ├── UpstreamProtocolError     what came back is not HTTP as it should be
        ├── UpstreamClosedError       the peer closed before the answer was complete
        └── UpstreamOverloadedError   the pool of this host is full and its queue too

No message ever contains a credential; what a message may quote is the catalog's own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MANY = 5
"""So many of several errors are quoted in the message of one."""
FAULTS = (Exception, SystemExit)
"""What code of a plugin may raise; let through, ``sys.exit()`` would stop the event loop and with
it everything else."""


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


class RedirectedKeysError(CatalogError):
    """The write would send the credentials of ``keys`` to another place, and is not confirmed."""

    def __init__(
        self, kind: str, ref: str, fields: Sequence[str], keys: Sequence[Referrer]
    ) -> None:
        names = ", ".join(key.slug for key in keys)
        super().__init__(
            f"the change of {', '.join(fields)} of {kind} {ref!r} would send the credentials of "
            f"these host keys to another place: {names}; confirm it where that is wanted"
        )
        self.keys = tuple(keys)


class VersionConflictError(CatalogError):
    """The caller's version is not the current one: somebody else wrote first."""

    def __init__(self, kind: str, ref: str, *, expected: int, current: int) -> None:
        super().__init__(f"{kind} {ref!r} is at version {current}, the write expected {expected}")
        self.expected = expected
        self.current = current


class BatchRefusedError(CatalogError):
    """A write of several entities, of which nothing was done. ``refusals`` has what is wrong with
    each offending one, by id."""

    def __init__(self, refusals: Mapping[str, CatalogError]) -> None:
        shown = [f"{entity_id}: {refusal}" for entity_id, refusal in refusals.items()][:MANY]
        more = [f"and {len(refusals) - MANY} more"] if len(refusals) > MANY else []
        super().__init__("; ".join([*shown, *more]))
        self.refusals = dict(refusals)


class MasterKeyError(CatalogError):
    """A value is sealed with a master key that does not belong to this database, or no longer."""


class ManagedByFileError(CatalogError):
    """Files declare this entity: the next ``apply`` would undo what is changed beside them."""

    def __init__(self, kind: str, slug: str) -> None:
        super().__init__(
            f"{kind} {slug!r} is managed by files, which would undo this when they are applied "
            "again; change the file, or add force=true"
        )


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


class StateUnavailableError(RelayError):
    """The state store of limits cannot be asked right now."""


class StateBusyError(StateUnavailableError):
    """The state store is there, and somebody else has it to himself for the moment: ask again
    shortly. To count without it would count wrongly."""


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


class EgressProxyError(UpstreamConnectError):
    """The egress proxy of the host did not open a tunnel, or its credential cannot be had.

    ``status`` is the proxy's answer, 407 when it refused the credential, 0 when there was none.
    """

    reason = "egress_proxy"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message, sent=False)
        self.status = status


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
