"""A Vault for tests: speaks its HTTP API, as far as this plugin and its tests use it."""

from relay_gateway_secret_vault.testing.server import FakeVault

__all__ = ["FakeVault"]
