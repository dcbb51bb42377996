"""A deprecated hook works for as long as it is there, and says what takes its place."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import ModuleType

import pytest

from relay_gateway.plugin import SecretBackend, hookimpl, hookspecs
from relay_gateway.registry import Registry, discovery
from relay_gateway.testing.catalog import TableBackend

ADVICE = "relay_register_secret_backends is deprecated since 0.2: use relay_register_vaults"


class Brought:
    """A plugin of before the deprecation."""

    @hookimpl
    def relay_register_secret_backends(self) -> Sequence[type[SecretBackend]]:
        return (TableBackend,)


@pytest.fixture
def _deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of a later gateway, in which one is deprecated."""

    def relay_register_secret_backends() -> None:
        """What it was."""

    later = ModuleType("later")
    mark = hookspecs.hookspec(warn_on_impl=DeprecationWarning(ADVICE))
    hook = {"relay_register_secret_backends": mark(relay_register_secret_backends)}
    later.__dict__.update({**vars(hookspecs), **hook})
    monkeypatch.setattr(discovery, "hookspecs", later)


@pytest.mark.usefixtures("_deprecated")
def test_a_plugin_with_a_deprecated_hook_is_loaded_and_its_author_is_warned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "relay_gateway.registry")
    with pytest.warns(DeprecationWarning, match="use relay_register_vaults"):
        registry = Registry.discover(entry_points=(), extra=(Brought(),))
    assert list(registry.secret_backends.values()) == [TableBackend]
    assert ADVICE in caplog.text


def test_nobody_is_warned_of_a_hook_that_stays(caplog: pytest.LogCaptureFixture) -> None:
    Registry.discover(entry_points=(), extra=(Brought(),))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
