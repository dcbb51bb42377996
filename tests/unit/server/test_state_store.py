"""Which state store limits use."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from relay_gateway.errors import SettingsError
from relay_gateway.plugin import PluginConfig, StateStore
from relay_gateway.server.state_store import open_limiter, with_state_store
from relay_gateway.settings import Settings
from relay_gateway.settings.mask import without_password


class Acme(StateStore[PluginConfig]):
    name = "acme"
    schemes: ClassVar[tuple[str, ...]] = ("acme", "acmes")


def settings(tmp_path: Path, **fields: object) -> Settings:
    return Settings.model_validate({"data_dir": tmp_path, **fields})


def test_the_url_is_a_field_of_the_store_that_has_its_scheme(tmp_path: Path) -> None:
    chosen = settings(
        tmp_path, state_url="acmes://a:1", state_stores={"acme": {"prefix": "x"}, "other": {}}
    )
    sections = with_state_store(chosen, {"acme": Acme})
    assert sections["state_stores"] == {
        "acme": {"prefix": "x", "url": "acmes://a:1"},
        "other": {},
    }


def test_memory_needs_no_plugin(tmp_path: Path) -> None:
    assert with_state_store(settings(tmp_path), {})["state_stores"] == {}


def test_a_scheme_that_nobody_has_is_refused_with_those_there_are(tmp_path: Path) -> None:
    chosen = settings(tmp_path, state_url="redis://user:secret@127.0.0.1")
    with pytest.raises(SettingsError) as caught:
        with_state_store(chosen, {"acme": Acme})
    message = str(caught.value)
    assert "no installed state store has the scheme 'redis'" in message
    assert "acme, acmes, memory" in message
    assert "secret" not in message


@pytest.mark.parametrize("url", ["memory", "REDIS://x", "redis://a b", ""])
def test_what_is_no_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="must be memory://, or a URL"):
        settings(tmp_path, state_url=url)


def test_the_password_of_a_state_url_is_not_shown(tmp_path: Path) -> None:
    url = "redis://user:hush@127.0.0.1:6379/0"
    assert "hush" not in repr(settings(tmp_path, state_url=url))
    assert "hush" not in without_password(url)


async def test_one_worker_counts_in_memory_and_several_in_a_table(tmp_path: Path) -> None:
    async with open_limiter(settings(tmp_path), None) as limiter:
        assert limiter.immediate
    assert not (tmp_path / "limits").exists()
    async with open_limiter(settings(tmp_path, workers=2), None) as limiter:
        assert limiter.immediate
        (table,) = (tmp_path / "limits").glob("table-*")
        assert table.stat().st_mode & 0o777 == 0o600
