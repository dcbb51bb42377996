"""``relay-gateway config``, ``migrate`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import CommandLine

CANARY = "canary-7f3a9c51e2"


def test_show_prints_what_is_in_force_and_where_to_set_it(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_PORT", "1234")
    rows = [line.split() for line in relay("config", "show").out.splitlines()]
    assert ["port", "1234", "RELAY_PORT"] in rows
    assert ["usage_logging.sinks", "database", "-"] in rows


def test_show_gives_json(relay: CommandLine) -> None:
    shown = relay("config", "show", "--json").json
    assert (shown["port"], shown["usage_logging"]) == (8080, {"sinks": ["database"]})


def test_t13_show_masks_every_credential(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_MASTER_KEY", f"{CANARY}-1,{CANARY}-2")
    monkeypatch.setenv("RELAY_ADMIN_TOKEN", CANARY)
    monkeypatch.setenv("RELAY_DATABASE_URL", f"postgresql://relay:{CANARY}@127.0.0.1/relay")
    (tmp_path / "relay.toml").write_text(f'[usage_sinks.absent]\npassword = "{CANARY}"', "utf-8")
    for outcome in (relay("config", "show"), relay("config", "show", "--json")):
        assert outcome.code == 0
        assert CANARY not in outcome.out + outcome.err


def test_show_and_check_make_no_files(relay: CommandLine, tmp_path: Path) -> None:
    assert relay("config", "show").code == 0
    assert relay("config", "check").code == 0
    assert list(tmp_path.iterdir()) == []


def test_check_warns_of_variables_that_mean_nothing(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_PROT", "80")
    outcome = relay("config", "check")
    assert outcome.code == 0
    assert outcome.err == "warning: the variable RELAY_PROT is not a setting and is ignored\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[secret_backends.missing]\nx = 1", "[secret_backends.missing]"),
        ('[secret_backends.env]\nalow = ["X"]', "alow"),
        ('[usage_logging]\nsinks = ["nowhere"]', "nowhere"),
        ('master_key = "short"', "master key 1"),
        ("prot = 1", "did you mean port?"),
    ],
)
def test_check_ends_with_2_and_names_what_would_refuse_a_start(
    relay: CommandLine, tmp_path: Path, text: str, named: str
) -> None:
    (tmp_path / "relay.toml").write_text(text, "utf-8")
    outcome = relay("config", "check")
    assert (outcome.code, outcome.out) == (2, "")
    assert named in outcome.err


def test_migrate_can_be_repeated(relay: CommandLine, tmp_path: Path) -> None:
    assert [relay("migrate").code, relay("migrate").code] == [0, 0]
    assert (tmp_path / "relay-data" / "relay.sqlite3").is_file()


def test_doctor_finds_a_fresh_gateway_in_order(relay: CommandLine) -> None:
    outcome = relay("doctor", "--json")
    assert [finding for finding in outcome.json if not finding["ok"]] == []
    assert outcome.code == 0
    assert "database" in {finding["name"] for finding in outcome.json}
