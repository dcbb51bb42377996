"""The environment backend keeps the promises of every secret backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from relay_gateway.plugin import SecretBackend, SecretRef
from relay_gateway.testing.conformance import (
    DeniedSecretConformance,
    KnownSecret,
    MissingSecretConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway_secret_env import EnvConfig, EnvironmentSecrets, EnvRef

VALUE = "canary-5f1c9e7d2b"


class TestEnvironmentSecrets(MissingSecretConformance, DeniedSecretConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> SecretBackend:
        environ = {"ACME_KEY": VALUE, "RELAY_MASTER_KEY": VALUE}
        return EnvironmentSecrets(EnvConfig(), plugin_context(tmp_path, environ=environ))

    @pytest.fixture
    def known(self) -> KnownSecret:
        return KnownSecret(EnvRef(env="ACME_KEY"), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        return EnvRef(env="OTHER_KEY")

    @pytest.fixture
    def denied(self) -> SecretRef:
        return EnvRef(env="RELAY_MASTER_KEY")

    @pytest.fixture
    def refused(self) -> Sequence[SecretRef]:
        return [EnvRef(env="RELAY_MASTER_KEY"), EnvRef(env="DATABASE_URL")]
