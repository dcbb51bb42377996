"""The data directory: its modes, the secrets made in it, the key that must not be replaced."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret
from relay_gateway.settings import Settings, prepare_data_dir


@pytest.fixture(autouse=True)
def _restore_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def key_of(settings: Settings) -> str:
    return settings.master_key[0].reveal()


def token_of(settings: Settings) -> str:
    assert settings.admin_token is not None
    return settings.admin_token.reveal()


def test_a_first_start_makes_the_directory_and_both_secrets(tmp_path: Path) -> None:
    prepared = prepare_data_dir(Settings(data_dir=tmp_path / "a" / "b"))
    directory = tmp_path / "a" / "b"
    assert prepared.created == (directory / "master-key", directory / "admin-token")
    assert (prepared.master_key_file, prepared.admin_token_file) == prepared.created
    assert len(base64.b64decode(key_of(prepared.settings), validate=True)) == 32
    assert len(token_of(prepared.settings)) >= 43


def test_only_the_owner_may_read_what_is_made(tmp_path: Path) -> None:
    prepared = prepare_data_dir(Settings(data_dir=tmp_path / "data"))
    assert mode(tmp_path / "data") == 0o700
    assert [mode(path) for path in prepared.created] == [0o600, 0o600]
    later = tmp_path / "data" / "later"
    later.touch()
    assert mode(later) == 0o600


def test_a_second_start_reads_the_same_secrets_back(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    first, second = prepare_data_dir(settings), prepare_data_dir(settings)
    assert second.created == ()
    assert second.master_key_file == first.master_key_file
    assert key_of(second.settings) == key_of(first.settings)
    assert token_of(second.settings) == token_of(first.settings)


def test_nothing_is_made_for_what_is_configured(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path / "data", master_key=(Secret("a-key"),), admin_token=Secret("a-token")
    )
    prepared = prepare_data_dir(settings)
    assert prepared.settings is not settings
    assert (key_of(prepared.settings), token_of(prepared.settings)) == ("a-key", "a-token")
    assert list((tmp_path / "data").iterdir()) == []


def test_postgresql_gets_no_secrets_made(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", database_url="postgresql://127.0.0.1/relay")
    prepared = prepare_data_dir(settings)
    assert (prepared.settings.master_key, prepared.settings.admin_token) == ((), None)
    assert list((tmp_path / "data").iterdir()) == []


def test_processes_that_start_together_agree_on_the_secrets(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(prepare_data_dir, [settings] * 16))
    assert len({key_of(prepared.settings) for prepared in results}) == 1
    assert len({token_of(prepared.settings) for prepared in results}) == 1
    assert sum(len(prepared.created) for prepared in results) == 2
    names = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert names == ["admin-token", "master-key"]


def test_a_database_whose_master_key_is_gone_gets_no_other_key(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    (tmp_path / "relay.sqlite3").touch()
    with pytest.raises(SettingsError, match="put it back"):
        prepare_data_dir(settings)
    assert not (tmp_path / "master-key").exists()


def test_an_emptied_secret_is_refused_by_path(tmp_path: Path) -> None:
    (tmp_path / "master-key").touch(mode=0o600)
    with pytest.raises(SettingsError, match="master-key is empty"):
        prepare_data_dir(Settings(data_dir=tmp_path))


def test_a_secret_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(data_dir=tmp_path)
    prepare_data_dir(settings)
    (tmp_path / "admin-token").chmod(0o640)
    prepare_data_dir(settings)
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/admin-token can be read by other users; run: chmod 600 {tmp_path}/admin-token"
    ]


def test_a_directory_that_cannot_be_made_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="RELAY_DATA_DIR"):
        prepare_data_dir(Settings(data_dir=tmp_path / "file" / "data"))


def test_t63_the_file_of_the_generated_key_may_have_a_list(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    old = key_of(prepare_data_dir(settings).settings)
    new = base64.b64encode(os.urandom(32)).decode()
    (tmp_path / "data" / "master-key").write_text(f"{new}, {old}\n", "ascii")
    ring = prepare_data_dir(settings).settings.master_key
    assert [key.reveal() for key in ring] == [new, old]
