"""The 1Password backend keeps the promises of every secret backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from relay_gateway.plugin import SecretBackend, SecretRef
from relay_gateway.testing.conformance import KnownSecret, RemoteSecretConformance, RemoteStore
from relay_gateway.testing.faultproxy import FaultProxy
from relay_gateway_secret_onepassword import OnePasswordRef

VALUE = "canary-5f1c9e7d2b"


class TestOnePasswordSecrets(RemoteSecretConformance):
    @pytest.fixture
    async def store(self, connect: Any) -> AsyncIterator[RemoteStore]:
        item = connect.vault("Models").add("Acme")
        item.set("credential", VALUE)
        private = connect.vault("Private")
        private.id, private.readable = "a" * 26, False
        private.add("Acme").set("credential", VALUE)

        async def change(value: str) -> None:
            item.set("credential", value)

        async with FaultProxy("127.0.0.1", connect.port) as link:
            yield RemoteStore(link, change, lambda: [connect.token])

    @pytest.fixture
    def backend(self, make: Any, store: RemoteStore) -> SecretBackend:
        backend: SecretBackend = make(f"http://127.0.0.1:{store.link.port}", timeout_seconds=2.0)
        return backend

    @pytest.fixture
    def known(self) -> KnownSecret:
        return KnownSecret(OnePasswordRef(vault="Models", item="Acme", field="credential"), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        return OnePasswordRef(vault="Models", item="Other", field="credential")

    @pytest.fixture
    def denied(self) -> SecretRef:
        return OnePasswordRef(vault="a" * 26, item="Acme", field="credential")
