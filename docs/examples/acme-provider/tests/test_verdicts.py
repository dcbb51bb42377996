"""What Acme's own answers are taken for."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.plugin import PluginConfig, Scope, Secret, Verdict
from relay_gateway.testing.context import plugin_context
from relay_gateway_provider_acme import AcmeProvider


@pytest.fixture
def provider(tmp_path: Path) -> AcmeProvider:
    return AcmeProvider(PluginConfig(), plugin_context(tmp_path))


def test_an_account_without_credit_is_about_the_key(provider: AcmeProvider) -> None:
    assert provider.classify(402, {}, b"").verdict is Verdict.CREDENTIAL


def test_a_busy_model_is_about_the_model(provider: AcmeProvider) -> None:
    found = provider.classify(429, {b"retry-after": b"3"}, b'{"error":{"code":"model_busy"}}')
    assert (found.verdict, found.scope, found.retry_after) == (Verdict.THROTTLED, Scope.MODEL, 3)


def test_the_credential_is_a_header_of_its_own(provider: AcmeProvider) -> None:
    assert provider.credential(Secret("made-up")) == b"acme-key: made-up\r\n"
