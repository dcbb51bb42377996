"""``users hash-password`` and ``audit verify``."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import pytest

from relay_gateway.secret import Secret
from relay_gateway.server.audit_upkeep import checkpoint_signer
from relay_gateway.storage import create_engine
from relay_gateway.storage.audit_retention import AuditRetention

if TYPE_CHECKING:
    from .conftest import CommandLine


def test_a_password_is_hashed_from_standard_input(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse\n"))
    done = relay("users", "hash-password", "--rounds", "10")
    assert done.code == 0
    assert done.out.startswith("$2b$10$")
    assert bcrypt.checkpw(b"correct horse", done.out.strip().encode())


@pytest.mark.parametrize("password", ["", "x" * 73])
def test_t47_a_password_that_bcrypt_would_cut_off_is_not_hashed(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
    done = relay("users", "hash-password")
    assert (done.code, done.out) == (2, "")
    assert "error: the password" in done.err


def test_t47_plain_text_where_others_can_reach_it_is_no_start(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_CONTROL_HOST", "0.0.0.0")
    monkeypatch.setenv("RELAY_ADMIN_PASSWORD", "pl41n t3xt")
    done = relay("config", "check")
    assert done.code == 2
    assert "hash-password" in done.err
    assert "pl41n" not in done.err
    assert "pl41n" not in relay("config", "show").out


def test_t59_a_tampered_audit_log_is_found_out(relay: CommandLine, tmp_path: Path) -> None:
    assert relay("keys", "create", "app").code == 0
    whole = relay("audit", "verify")
    assert (whole.code, "is whole" in whole.out) == (0, True)
    database = sqlite3.connect(tmp_path / "relay-data" / "relay.sqlite3", isolation_level=None)
    database.execute("DROP TRIGGER audit_records_no_update")
    database.execute("UPDATE audit_records SET actor = 'nobody' WHERE sequence = 1")
    database.close()
    broken = relay("audit", "verify")
    assert broken.code == 1
    assert "record 1 was changed" in broken.err
    assert relay("audit", "verify", "--json").json["problem"].startswith("record 1")


def test_a_password_in_the_environment_wins_over_the_file_and_is_what_is_checked(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hashed = bcrypt.hashpw(b"from the file", bcrypt.gensalt(4)).decode()
    (tmp_path / "relay.toml").write_text(f'admin_password = "{hashed}"\ncontrol_host = "0.0.0.0"\n')
    assert relay("config", "check").code == 0
    monkeypatch.setenv("RELAY_ADMIN_PASSWORD", "pl41n t3xt")
    overridden = relay("config", "check")
    assert overridden.code == 2
    assert "is plain text" in overridden.err
    assert "pl41n" not in overridden.err
    monkeypatch.setenv("RELAY_ADMIN_PASSWORD", hashed)
    (tmp_path / "relay.toml").write_text('admin_password = "pl41n"\ncontrol_host = "0.0.0.0"\n')
    assert relay("config", "check").code == 0


def test_a_pruned_audit_log_is_whole(relay: CommandLine, tmp_path: Path) -> None:
    assert relay("keys", "create", "app").code == 0
    assert relay("audit", "verify", "--json").json["pruned"] == 0
    key = Secret((tmp_path / "relay-data" / "master-key").read_text().strip())

    async def prune() -> None:
        engine = create_engine(f"sqlite:///{tmp_path}/relay-data/relay.sqlite3")
        await AuditRetention(engine, checkpoint_signer([key])).prune("9999")
        await engine.dispose()

    asyncio.run(prune())
    shown = relay("audit", "verify", "--json").json
    assert (shown["records"], shown["problem"]) == (1, None)
    assert shown["pruned"] > 0
    assert "that were pruned" in relay("audit", "verify").out
