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
from relay_gateway_secret_netrc.backend import NetrcBackend, NetrcConfig, NetrcRef

__all__ = ["TestNetrcBackend"]

VALUE = "canary-5f1c9e7d2b84"
ENTRIES = f"""\
machine known.test login relay password {VALUE}
machine denied.test login relay password "two
lines"
"""


class TestNetrcBackend(MissingSecretConformance, DeniedSecretConformance):
    """Machines that are there, are missing, and have a password that no header could carry."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> SecretBackend:
        """The backend over a file with two machines."""
        path = tmp_path / "netrc"
        path.write_text(ENTRIES, "utf-8")
        path.chmod(0o600)
        return NetrcBackend(NetrcConfig(file=path), plugin_context(tmp_path))

    @pytest.fixture
    def known(self) -> KnownSecret:
        """The machine with a credential."""
        return KnownSecret(NetrcRef(machine="known.test"), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        """A machine that is not there."""
        return NetrcRef(machine="missing.test")

    @pytest.fixture
    def denied(self) -> SecretRef:
        """A machine whose password has two lines."""
        return NetrcRef(machine="denied.test")
