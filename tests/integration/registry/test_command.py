"""``relay-gateway plugins list`` over distributions that pip installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

INSTALLED = ("healthy", "import_error", "misspelt_hook", "duplicate_name")


@pytest.fixture(scope="module")
def installed(
    tmp_path_factory: pytest.TempPathFactory, wheel_builder: Callable[[str, Path], Path]
) -> Path:
    """A directory into which pip installed some of the fixture distributions."""
    directory = tmp_path_factory.mktemp("installed")
    wheels = [str(wheel_builder(name, directory)) for name in INSTALLED]
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--quiet"]
    target = directory / "site"
    options = ["--no-index", "--no-deps", "--no-compile", "--target", str(target)]
    subprocess.run([*pip, "install", *options, *wheels], check=True, timeout=60)
    return target


def run(site: Path, *arguments: str, config: str = "") -> subprocess.CompletedProcess[str]:
    directory = site.parent / "cwd"
    directory.mkdir(exist_ok=True)
    (directory / "relay.toml").write_text(config)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    return subprocess.run(
        [sys.executable, "-m", "relay_gateway.cli.main", "plugins", "list", *arguments],
        env=kept | {"PYTHONPATH": str(site), "COLUMNS": "80", "NO_COLOR": "1"},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fixtures_in(output: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(output):
        name = line["distribution"].removeprefix("relay-fixture-")
        found.setdefault(name, []).append(line)
    return found


def test_the_list_shows_healthy_and_quarantined_plugins_as_json(installed: Path) -> None:
    result = run(installed, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = fixtures_in(result.stdout)
    assert found["import-error"] == [
        {
            "name": "import_error",
            "kind": "-",
            "distribution": "relay-fixture-import-error",
            "version": "1.0",
            "state": "quarantined",
            "error": "ModuleNotFoundError: No module named 'relay_fixture_vendor_sdk'",
            "failures": 0,
            "origin": "relay_fixture_import_error",
            "config": None,
            "fix": "install another version of relay-fixture-import-error, or tell its author; "
            "`relay-gateway plugins list --verbose` shows the traceback",
        }
    ]
    states = {line["kind"]: line["state"] for line in found["healthy"]}
    assert states.pop("secret backend") == "quarantined"
    assert set(states.values()) == {"registered"}
    (duplicate,) = found["duplicate-name"]
    assert "claimed by relay-fixture-duplicate-name 2.0" in duplicate["error"]
    assert "relay-fixture-healthy 1.0" in duplicate["error"]
    assert duplicate["fix"].startswith("uninstall one of the two")


def test_the_list_fits_eighty_columns_and_gives_reasons_below(installed: Path) -> None:
    result = run(installed)
    assert (result.returncode, result.stderr) == (0, "")
    table, *reasons = result.stdout.split("\n\n")
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert table.split()[:5] == ["name", "kind", "distribution", "version", "state"]
    rows = [line.split() for line in table.splitlines()]
    assert ["misspelt_hook", "-", "relay-fixture-misspelt-hook", "1.0", "quarantined"] in rows
    reason = next(text for text in reasons if text.startswith("misspelt_hook"))
    assert "did you mean relay_register_secret_backends?" in reason
    assert "what to do: install another version of relay-fixture-misspelt-hook" in reason
    assert "Traceback" not in result.stdout


def test_the_list_shows_configuration_without_credentials(installed: Path) -> None:
    config = '[state_stores.redis]\nurl = "redis://:canary-3f1c9e@localhost"\n'
    lines = json.loads(run(installed, "--json", config=config).stdout)
    (redis,) = [line for line in lines if line["name"] == "redis"]
    assert redis["config"] == {"url": "<secret>"}
    text = run(installed, "--verbose", config=config).stdout
    assert 'configured {"url": "<secret>"}' in text
    assert "canary-3f1c9e" not in text


def test_the_verbose_list_shows_tracebacks(installed: Path) -> None:
    text = run(installed, "-v").stdout
    assert "    Traceback (most recent call last)" in text
    assert "import relay_fixture_vendor_sdk" in text
    lines = fixtures_in(run(installed, "--json", "--verbose").stdout)
    assert lines["import-error"][0]["traceback"].startswith("Traceback")


def test_t66_the_list_honours_the_allow_list_of_the_configuration(installed: Path) -> None:
    result = run(installed, "--json", config='[plugins]\nenabled = ["relay-fixture-healthy"]\n')
    found = fixtures_in(result.stdout)
    assert {line["state"] for line in found.pop("healthy")} == {"registered"}
    left = [line for lines in found.values() for line in lines]
    assert {line["state"] for line in left} == {"discovered"}
    assert all(line["fix"].endswith("relay.toml, or uninstall it") for line in left)
