"""The backend: reads secrets in threads and keeps the gateway logged in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from relay_gateway.errors import (
    SecretDeniedError,
    SecretError,
    SecretNotFoundError,
    SecretRefError,
)
from relay_gateway.plugin import (
    PluginContext,
    ResolvedSecret,
    RowBinding,
    SecretBackend,
    SecretRef,
    credential_in,
)
from relay_gateway_secret_vault.login import member
from relay_gateway_secret_vault.models import KIND, VaultConfig, VaultRef
from relay_gateway_secret_vault.session import Session

FIRST_RETRY, LONGEST_RETRY = 1.0, 300.0


class VaultSecrets(SecretBackend[VaultConfig]):
    """Credentials from a secrets engine of Vault or OpenBao: KV 1, KV 2, or one with leases."""

    name: ClassVar[str] = KIND
    Config = VaultConfig
    Ref = VaultRef

    def __init__(self, config: VaultConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._session = Session(config, context)
        self._keeper: asyncio.Task[None] | None = None

    async def aopen(self) -> None:
        """Logs in. Raises :class:`SecretError` where that fails; resolving tries it again."""
        await self.context.run_blocking(self._session.open)
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep_alive())

    async def aclose(self) -> None:
        """Forgets the token; it ends by itself."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        self._session.close()

    def check(self, ref: SecretRef) -> None:
        """Refuses a mount that the operator did not list."""
        mount = _own(ref).mount
        if mount is not None and mount not in self.config.mounts:
            raise SecretRefError(
                f"mount {mount!r} is not on the list of [secret_backends.vault] mounts",
                field="mount",
            )

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        """``ref`` itself, once it passed :meth:`check`."""
        self.check(ref)
        return ref

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The value of ``key``; ``version`` is that of KV 2, ``ttl`` that of a lease.

        Raises :class:`SecretNotFoundError` for a secret, version or key that is not there,
        :class:`SecretDeniedError` for what may not be read, the list of mounts included, or is no
        credential, :class:`SecretUnavailableError` when Vault is sealed, busy or out of reach.
        """
        ref = _own(stored)
        try:
            self.check(ref)
        except SecretRefError as error:
            raise SecretDeniedError(str(error)) from None
        version, answer = await self.context.run_blocking(self._session.read, ref)
        return _of_kv_2(answer, ref) if version == 2 else _of_kv_1(answer, ref)

    async def _keep_alive(self) -> None:
        failures = 0
        while True:
            retry = min(FIRST_RETRY * 2**failures, LONGEST_RETRY)
            await asyncio.sleep(retry if failures else self._session.pause)
            try:
                await self.context.run_blocking(self._session.keep_alive)
            except SecretError as error:
                failures = min(failures + 1, 16)
                self.context.logger.warning("the token for Vault could not be kept: %s", error)
            else:
                failures = 0


def _own(ref: SecretRef) -> VaultRef:
    if not isinstance(ref, VaultRef):
        raise SecretRefError(f"a reference of kind {ref.kind!r} is not one to Vault")
    return ref


def _of_kv_1(answer: Mapping[str, Any], ref: VaultRef) -> ResolvedSecret:
    if ref.version is not None:
        raise SecretDeniedError(f"{ref.place}: this engine keeps no versions; leave out version")
    values = member(answer, "data")
    seconds = answer.get("lease_duration")
    # KV 1 tells a lease for everything; it means something where the writer gave one.
    leased = bool(answer.get("lease_id")) or "ttl" in values or "lease" in values
    ttl = float(seconds) if leased and isinstance(seconds, int) and seconds > 0 else None
    return _resolved(values, ref, ttl=ttl)


def _of_kv_2(answer: Mapping[str, Any], ref: VaultRef) -> ResolvedSecret:
    data = member(answer, "data")
    version = member(data, "metadata").get("version")
    return _resolved(member(data, "data"), ref, version=None if version is None else str(version))


def _resolved(
    values: Mapping[str, Any], ref: VaultRef, ttl: float | None = None, version: str | None = None
) -> ResolvedSecret:
    if ref.key not in values:
        raise SecretNotFoundError(f"{ref.place}: the secret has no such key")
    value = values[ref.key]
    if not isinstance(value, str):
        raise SecretDeniedError(f"the value of {ref.place} is no string")
    return ResolvedSecret(credential_in(value, ref.place), ttl, version)
