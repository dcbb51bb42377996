"""The backend: seals what is written, opens it where it belongs, shows neither."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from relay_gateway.errors import SecretDeniedError, SecretRefError, SecretUnavailableError
from relay_gateway.plugin import (
    PluginConfig,
    PluginContext,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
)
from relay_gateway_secret_stored.envelope import UndecryptableError, open_value, seal_value
from relay_gateway_secret_stored.refs import PublicRef, SealedRef, ValueRef
from relay_gateway_secret_stored.ring import HOW_TO_MAKE, KeyRing, WrappingKey, parse_ring

MAX_VALUE = 16_384
"""Longest value, in characters; longer than any header a model host accepts."""


class StoredSecrets(SecretBackend[PluginConfig]):
    """Credentials encrypted in the catalog under the master key ring of the gateway."""

    name: ClassVar[str] = "stored"
    Ref = ValueRef
    StoredRef = SealedRef
    PublicRef = PublicRef
    seals: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._ring: KeyRing | None = None

    async def aopen(self) -> None:
        """Reads the key ring, which may be empty. Raises :class:`PluginLoadError` on a bad key."""
        self._ring = parse_ring(self.context.master_keys)

    async def aclose(self) -> None:
        """Forgets the keys."""
        self._ring = None

    def check(self, ref: SecretRef) -> None:
        """Refuses a value that cannot be sent as a credential."""
        if isinstance(ref, ValueRef) and ref.value is not None:
            _check_value(ref.value.get_secret_value())

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        """Encrypts the value for ``binding``; without one, gives ``previous`` back as it is.

        ``previous`` stays readable only under the generation it was sealed for. Raises
        :class:`SecretRefError` where there is no value, a bad one, or no master key to seal with.
        """
        if not isinstance(ref, ValueRef):
            raise SecretRefError(f"a reference of kind {ref.kind!r} is not a stored credential")
        if ref.value is None:
            return _kept(previous)
        value = ref.value.get_secret_value()
        _check_value(value)
        return await self.wrap(Secret(value), binding, None)

    def key_ids(self) -> Sequence[str]:
        """Fingerprints of the master key ring, current key first."""
        return tuple(self._opened_ring().by_id)

    async def wrap(
        self, value: Secret, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        """Encrypts ``value`` with the current key; the time of the last new value stays."""
        if previous is not None:
            updated_at = _sealed(previous).updated_at
        else:
            updated_at = datetime.fromtimestamp(self.context.clock.time(), UTC)
        return seal_value(value, self._sealing_key(), binding, updated_at)

    def publish(self, stored: SecretRef) -> SecretRef:
        """The key's id and the time of the last new value."""
        sealed = _sealed(stored)
        return PublicRef(key_id=sealed.key_id, updated_at=sealed.updated_at)

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """Decrypts the value for the row it was sealed for.

        Raises :class:`SecretUnavailableError` without a master key, :class:`SecretDeniedError` when
        the value is undecryptable: sealed with a key that is not in the ring, altered, or moved
        here from another row, field or generation.
        """
        sealed = _sealed(stored)
        key = self._opening_key(sealed.key_id, binding)
        try:
            value = open_value(sealed, key, binding)
        except UndecryptableError:
            raise SecretDeniedError(
                f"the stored value of {_place(binding)} is undecryptable: it was altered or "
                "belongs to another place or generation; write the credential again"
            ) from None
        return ResolvedSecret(value, version=str(binding.generation))

    def _sealing_key(self) -> WrappingKey:
        key = self._opened_ring().current
        if key is None:
            raise SecretRefError(f"a value cannot be stored without a master key: {HOW_TO_MAKE}")
        return key

    def _opening_key(self, key_id: str, binding: RowBinding) -> WrappingKey:
        ring = self._opened_ring()
        if not ring.keys:
            raise SecretUnavailableError(
                f"the stored value of {_place(binding)} cannot be read without a master key: set "
                f"RELAY_MASTER_KEY to the key with the id {key_id}"
            )
        key = ring.by_id.get(key_id)
        if key is None:
            raise SecretDeniedError(
                f"the stored value of {_place(binding)} is undecryptable: it is sealed with master "
                f"key {key_id}, RELAY_MASTER_KEY has {', '.join(ring.by_id)}; add that key to the "
                "list or write the credential again"
            )
        return key

    def _opened_ring(self) -> KeyRing:
        if self._ring is None:
            raise SecretUnavailableError(
                "the secret backend 'stored' is not open: see `relay-gateway plugins list`"
            )
        return self._ring


def _check_value(value: str) -> None:
    if not value or len(value) > MAX_VALUE:
        raise SecretRefError(f"must have 1 to {MAX_VALUE} characters", field="value")
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise SecretRefError(
            "must be printable ASCII without spaces or newlines at its ends", field="value"
        )


def _kept(previous: SecretRef | None) -> SealedRef:
    if isinstance(previous, SealedRef):
        return previous
    raise SecretRefError("a credential is needed here: none is stored yet", field="value")


def _sealed(stored: SecretRef) -> SealedRef:
    if not isinstance(stored, SealedRef):
        raise SecretDeniedError(f"a kept reference of kind {stored.kind!r} is no stored credential")
    return stored


def _place(binding: RowBinding) -> str:
    return f"{binding.kind} {binding.id} {binding.field}"
