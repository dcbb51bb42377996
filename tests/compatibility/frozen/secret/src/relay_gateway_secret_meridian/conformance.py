"""How the suites of secret backends are run against this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.plugin import SecretBackend, SecretRef
from relay_gateway.testing.conformance import (
    DeniedSecretConformance,
    KnownSecret,
    MissingSecretConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway_secret_meridian.backend import MeridianBackend, MeridianConfig, MeridianRef

__all__ = ["TestMeridianBackend"]

VALUE = "canary-5f1c9e7d2b84"


class TestMeridianBackend(MissingSecretConformance, DeniedSecretConformance):
    """Secrets that are there, are missing, and hold what no header could carry."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> SecretBackend:
        """The backend over two files."""
        (tmp_path / "known").write_text(VALUE + "\n", "utf-8")
        (tmp_path / "denied").write_text("two\nlines", "utf-8")
        return MeridianBackend(MeridianConfig(directory=tmp_path), plugin_context(tmp_path))

    @pytest.fixture
    def known(self) -> KnownSecret:
        """The file with a credential."""
        return KnownSecret(MeridianRef(file="known"), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        """A file that is not there."""
        return MeridianRef(file="missing")

    @pytest.fixture
    def denied(self) -> SecretRef:
        """A file with something else in it."""
        return MeridianRef(file="denied")
