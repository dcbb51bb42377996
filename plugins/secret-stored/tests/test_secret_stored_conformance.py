"""The stored backend keeps the promises of every secret backend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef
from relay_gateway.testing.conformance import (
    DeniedSecretConformance,
    KnownSecret,
    SealingConformance,
)
from relay_gateway.testing.context import master_key, plugin_context
from relay_gateway_secret_stored import SealedRef, StoredSecrets, ValueRef

VALUE = "canary-5f1c9e7d2b"


class TestStoredSecrets(DeniedSecretConformance, SealingConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> SecretBackend:
        return StoredSecrets(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def rotated(self, tmp_path: Path) -> SecretBackend:
        keys = [master_key("next"), master_key()]
        return StoredSecrets(PluginConfig(), plugin_context(tmp_path, master_keys=keys))

    @pytest.fixture
    def known(self) -> KnownSecret:
        return KnownSecret(ValueRef(value=SecretStr(VALUE)), VALUE)

    @pytest.fixture
    def denied(self) -> SecretRef:
        return SealedRef(
            key_id="0" * 16,
            updated_at=datetime(2026, 1, 1, tzinfo=UTC),
            nonce="QQ==",
            ciphertext="QQ==",
            key_nonce="QQ==",
            wrapped_key="QQ==",
        )

    @pytest.fixture
    def refused(self) -> Sequence[SecretRef]:
        return [ValueRef(value=SecretStr(f"{VALUE}\n"))]
