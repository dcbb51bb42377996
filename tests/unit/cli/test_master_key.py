"""``master-key generate|status|rotate|adopt``, and what other commands say of a wrong key."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relay_gateway.storage import create_engine
from relay_gateway.testing.context import master_key
from relay_gateway.testing.sealing import Fleet

if TYPE_CHECKING:
    from .conftest import CommandLine


def use_keys(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    ring = ",".join(master_key(name).reveal() for name in names)
    monkeypatch.setenv("RELAY_MASTER_KEY", ring)


@pytest.fixture
def sealed(relay: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    """A database with two values that the key ``old`` seals."""
    use_keys(monkeypatch, "old")
    assert relay("migrate").code == 0

    async def seal() -> None:
        engine = create_engine(f"sqlite:///{tmp_path}/relay-data/relay.sqlite3")
        await (await Fleet(engine, tmp_path).instance("old")).add_keys("sk-1", "sk-2")
        await engine.dispose()

    asyncio.run(seal())
    return relay


def test_a_generated_key_is_good_and_new_each_time(relay: CommandLine) -> None:
    keys = [relay("master-key", "generate").out.strip() for _ in range(2)]
    assert [len(base64.b64decode(key, validate=True)) for key in keys] == [32, 32]
    assert keys[0] != keys[1]


def test_t63_the_master_key_is_rotated_step_by_step(
    sealed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keys(monkeypatch, "new", "old")
    rotated = sealed("master-key", "rotate")
    assert (rotated.code, rotated.out) == (0, "2 values sealed anew, 0 could not be\n")
    assert "2 of 2" in rotated.err
    (state,) = sealed("master-key", "status", "--json").json
    assert state["state"] == "good"
    assert state["remaining"] == 0
    assert [(key["references"], key["removable"]) for key in state["keys"]] == [
        (2, False),
        (0, True),
    ]
    use_keys(monkeypatch, "new")
    assert sealed("master-key", "status").code == 0
    assert sealed("master-key", "rotate", "--json").json["rewrapped"] == 0


def test_t63_a_wrong_key_is_told_by_status_and_doctor_and_changes_nothing(
    sealed: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_keys(monkeypatch, "wrong")
    status = sealed("master-key", "status")
    assert status.code == 1
    assert "do not belong to this database" in status.err
    rotated = sealed("master-key", "rotate")
    assert (rotated.code, "nothing is sealed anew" in rotated.err) == (1, True)
    findings = {item["name"]: item for item in sealed("doctor", "--json").json}
    master = findings["master key of stored"]
    assert not master["ok"]
    assert "2 values are sealed with keys that are not here" in master["detail"]
    assert master_key("wrong").reveal() not in status.err + status.out + rotated.err
    use_keys(monkeypatch, "old")
    assert sealed("master-key", "status").code == 0


def test_t63_a_lost_key_is_given_up_only_on_purpose(
    sealed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keys(monkeypatch, "new")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert sealed("master-key", "adopt").code == 1
    assert "adopted" in sealed("master-key", "adopt", "--yes").out
    assert "nothing to adopt" in sealed("master-key", "adopt", "--yes").out
    (state,) = sealed("master-key", "status", "--json").json
    assert (state["state"], state["unreadable"]) == ("good", 2)
    rotated = sealed("master-key", "rotate")
    assert rotated.code == 1
    assert "undecryptable" in rotated.err
