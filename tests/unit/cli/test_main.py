"""The command as a whole: what it loads, and what its exit codes mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relay_gateway import __version__

if TYPE_CHECKING:
    from .conftest import CommandLine

HEAVY = (
    "anthropic",
    "asyncpg",
    "bcrypt",
    "boto3",
    "cryptography",
    "fastapi",
    "hvac",
    "httpx",
    "openai",
    "pydantic",
    "redis",
    "relay_gateway.registry",
    "relay_gateway.server",
    "sqlalchemy",
    "uvicorn",
)
HELP = f"""
import sys
from relay_gateway.cli.main import main
try:
    main(["--help"])
finally:
    print("loaded:", [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


def test_help_loads_no_vendor_sdk_and_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", HELP]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "loaded: []" in done.stderr
    for name in ("serve", "demo", "migrate", "keys", "plugins", "config", "doctor"):
        assert name in done.stdout


def test_the_module_runs_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relay_gateway.cli.main", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == f"relay-gateway {__version__}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("keys", "create"),
        ("keys", "create", "x", "--expires", "soon"),
        ("serve", "--unknown"),
    ],
)
def test_wrong_usage_ends_with_2(relay: CommandLine, arguments: tuple[str, ...]) -> None:
    outcome = relay(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err


@pytest.mark.parametrize("command", ["serve", "demo", "migrate", "doctor"])
def test_a_bad_setting_ends_with_2_and_names_it(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("RELAY_PORT", "http")
    outcome = relay(command)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: RELAY_PORT: ")


def test_a_configuration_file_that_is_missing_ends_with_2(relay: CommandLine) -> None:
    outcome = relay("--config", "missing.toml", "config", "show")
    assert outcome.code == 2
    assert "missing.toml does not exist" in outcome.err


def test_t62_a_master_key_that_protects_nothing_ends_with_2_before_anything_is_sealed(
    relay: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_MASTER_KEY", "A" * 43 + "=")
    outcome = relay("migrate")
    assert outcome.code == 2
    assert "master key 1" in outcome.err
    assert not (tmp_path / "relay-data" / "relay.sqlite3").exists()


def test_what_is_not_there_ends_with_1(relay: CommandLine) -> None:
    outcome = relay("keys", "revoke", "nobody")
    assert outcome.code == 1
    assert outcome.err == "error: no relay key has the id or slug 'nobody'\n"
