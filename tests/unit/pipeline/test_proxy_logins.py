"""Logins of egress proxies: had like credentials, checked, looked up anew after refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from relay_gateway.catalog.snapshot import ProxyCredential
from relay_gateway.errors import SecretError
from relay_gateway.pipeline.proxy_logins import PAUSE_SECONDS, ProxyLogins
from relay_gateway.plugin import RowBinding
from relay_gateway.testing.catalog import TableBackend, TableRef
from relay_gateway.testing.clock import FakeClock

BINDING = RowBinding("host", "h1", "spec.proxyCredential", 1)
CREDENTIAL = ProxyCredential("h1", "table", TableRef(entry="login"), BINDING)


class Proxies:
    """Logins over a table with one entry."""

    def __init__(self, login: str, directory: Path) -> None:
        self.clock = FakeClock()
        self.backend = TableBackend({"login": login}, directory)
        self.logins = ProxyLogins({"table": self.backend}, self.clock)

    async def refuse(self) -> None:
        """The proxy refuses what is known, and whoever then looks it up gets to do so."""
        self.logins.refused(CREDENTIAL, await self.logins.get(CREDENTIAL))
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize("login", ["relay:pass word", "relay:", "a:b:c", "relay:pässwörd"])
async def test_a_user_name_and_any_password_are_a_login(login: str, tmp_path: Path) -> None:
    proxies = Proxies(login, tmp_path)
    assert (await proxies.logins.get(CREDENTIAL)).reveal() == login
    await proxies.logins.aclose()


@pytest.mark.parametrize("login", ["relay", ":hunter2", "", "relay:a\r\nX: y"])
async def test_anything_else_is_refused_without_quoting_it(
    login: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    proxies = Proxies(login, tmp_path)
    for _ in range(3):
        with pytest.raises(SecretError, match="must be user:password") as caught:
            await proxies.logins.get(CREDENTIAL)
    assert not login or login not in str(caught.value)
    assert len([one for one in caplog.records if "proxyCredential" in one.message]) == 1


async def test_f52_a_refused_login_is_looked_up_once_and_not_again_at_each_refusal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    proxies = Proxies("relay:old", tmp_path)
    await proxies.logins.get(CREDENTIAL)
    proxies.backend.table["login"] = "relay:new"
    await proxies.refuse()
    assert (await proxies.logins.get(CREDENTIAL)).reveal() == "relay:new"
    for _ in range(5):
        await proxies.refuse()
    assert len(proxies.backend.fetches) == 2
    proxies.clock.advance(PAUSE_SECONDS)
    await proxies.refuse()
    assert len(proxies.backend.fetches) == 3
    assert len([one for one in caplog.records if "refused its" in one.message]) == 2
    assert "relay:" not in caplog.text
