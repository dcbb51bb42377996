"""The Vault backend keeps the promises of every secret backend, with both versions of KV."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from relay_gateway.plugin import SecretBackend, SecretRef
from relay_gateway.testing.conformance import KnownSecret, RemoteSecretConformance, RemoteStore
from relay_gateway.testing.faultproxy import FaultProxy
from relay_gateway_secret_vault import VaultRef

VALUE = "canary-5f1c9e7d2b"
READABLE = ("data/known", "known", "data/unknown", "unknown")


@pytest.mark.parametrize("version", [1, 2])
class TestVaultSecrets(RemoteSecretConformance):
    @pytest.fixture
    def token(self, peer: Any, version: int) -> str:
        return str(peer.token(*(f"kv{version}/{path}" for path in READABLE), ttl="600s"))

    @pytest.fixture
    async def store(self, peer: Any, version: int, token: str) -> AsyncIterator[RemoteStore]:
        async def put(path: str, value: str) -> None:
            await asyncio.to_thread(peer.put, mount, version, path, api_key=value)

        async def change(value: str) -> None:
            await put("known", value)

        mount = await asyncio.to_thread(peer.mount, f"kv{version}", version)
        await put("known", VALUE)
        await put("denied", VALUE)
        async with FaultProxy("127.0.0.1", urlsplit(peer.url).port or 0) as link:
            yield RemoteStore(link, change, lambda: [token])

    @pytest.fixture
    def backend(self, make: Any, token: str, version: int, store: RemoteStore) -> SecretBackend:
        backend: SecretBackend = make(
            f"http://127.0.0.1:{store.link.port}",
            auth="token",
            token=token,
            mounts=[f"kv{version}"],
            timeout_seconds=1.0,
        )
        return backend

    @pytest.fixture
    def known(self, version: int) -> KnownSecret:
        return KnownSecret(VaultRef(path="known", key="api_key"), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        return VaultRef(path="unknown", key="api_key")

    @pytest.fixture
    def denied(self) -> SecretRef:
        return VaultRef(path="denied", key="api_key")

    @pytest.fixture
    def refused(self) -> Sequence[SecretRef]:
        return [VaultRef(mount="another", path="known", key="api_key")]
