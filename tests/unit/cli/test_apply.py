"""``apply``, ``export`` and ``catalog import`` on the embedded database."""

from __future__ import annotations

import io
import json
import stat
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import CommandLine

SET = """
kind: policy
metadata: {slug: search, labels: {team: search}}
spec: {models: ["*"]}
---
kind: relay-key
metadata: {slug: app, labels: {team: search}}
spec: {policyId: search}
"""
LISTS = Path(__file__).parents[1] / "declarative"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "set.yaml"
    path.write_text(SET)
    return path


class Terminal(io.StringIO):
    """Standard input of somebody who answers."""

    def isatty(self) -> bool:
        return True


def test_a_dry_run_shows_the_plan_and_changes_nothing(relay: CommandLine, manifest: Path) -> None:
    outcome = relay("apply", "-f", str(manifest), "--dry-run")
    assert outcome.code == 0
    assert "+ policy search" in outcome.out
    assert "+ relay key app" in outcome.out
    assert "2 to create, 0 to update, 0 to delete, 0 unchanged" in outcome.out
    assert "sk-relay-" not in outcome.out
    assert relay("keys", "list", "--json").json == []


def test_consent_prints_the_plaintext_once_and_a_second_time_changes_nothing(
    relay: CommandLine, manifest: Path
) -> None:
    first = relay("apply", "-f", str(manifest), "--yes")
    assert first.code == 0
    assert first.out.splitlines()[-1].startswith("relay key app: sk-relay-")
    second = relay("apply", "-f", str(manifest), "--detailed-exitcode")
    assert (second.code, second.out) == (0, "no changes; 2 unchanged\n")


def test_the_detailed_exit_code_tells_changes_from_none(relay: CommandLine, manifest: Path) -> None:
    pending = relay("apply", "-f", str(manifest), "--dry-run", "--detailed-exitcode")
    made = relay("apply", "-f", str(manifest), "--yes", "--detailed-exitcode")
    assert (pending.code, made.code) == (3, 3)


@pytest.mark.parametrize(("answer", "code", "keys"), [("y\n", 0, 1), ("n\n", 1, 0)])
def test_a_terminal_is_asked(
    relay: CommandLine,
    manifest: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    keys: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert relay("apply", "-f", str(manifest)).code == code
    assert len(relay("keys", "list", "--json").json) == keys


def test_nobody_to_ask_is_no_consent(
    relay: CommandLine, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    outcome = relay("apply", "-f", str(manifest))
    assert outcome.code == 2
    assert "--yes" in outcome.err
    assert relay("keys", "list", "--json").json == []


def test_json_has_the_steps_and_the_plaintexts(relay: CommandLine, manifest: Path) -> None:
    planned = relay("apply", "-f", str(manifest), "--dry-run", "--json").json
    assert (planned["applied"], planned["plaintexts"]) == (False, {})
    applied = relay("apply", "-f", str(manifest), "--yes", "--json").json
    assert applied["applied"]
    assert applied["steps"] == planned["steps"]
    assert [step["slug"] for step in applied["steps"]] == ["search", "app"]
    assert applied["plaintexts"]["app"].startswith("sk-relay-")


def test_every_fault_is_a_line_with_its_place(relay: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(SET.replace('["*"]', "5").replace("policyId: search", "policyId: none"))
    outcome = relay("apply", "-f", str(path), "--yes")
    assert outcome.code == 1
    lines = outcome.err.splitlines()
    assert lines[0].startswith(f"error: {path}:4: policy search: spec.models: ")
    assert lines[1].startswith(f"error: {path}:8: relay key app: spec.policyId: ")
    assert relay("keys", "list", "--json").json == []


@pytest.mark.parametrize("options", [["--prune"], ["-l", "team=search"]])
def test_pruning_and_its_selector_go_together(
    relay: CommandLine, manifest: Path, options: list[str]
) -> None:
    outcome = relay("apply", "-f", str(manifest), "--yes", *options)
    assert outcome.code == 2
    assert "--prune and --selector go together" in outcome.err


def test_pruning_deletes_what_is_no_longer_declared(relay: CommandLine, manifest: Path) -> None:
    relay("apply", "-f", str(manifest), "--yes")
    manifest.write_text(SET.partition("---")[0])
    outcome = relay("apply", "-f", str(manifest), "--prune", "-l", "team=search", "--yes")
    assert "- relay key app" in outcome.out
    assert relay("keys", "list", "--json").json == []


def test_an_export_is_applied_to_another_empty_catalog(
    relay: CommandLine, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay("apply", "-f", str(manifest), "--yes")
    exported = tmp_path / "all.yaml"
    assert relay("export", "-o", str(exported)).code == 0
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    assert relay("apply", "-f", str(exported)).out.startswith("no changes")
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path / "elsewhere"))
    assert relay("apply", "-f", str(exported), "--yes", "--no-seeds").code == 0
    assert relay("export").out == exported.read_text()


def test_an_export_takes_kinds_by_their_names(relay: CommandLine, manifest: Path) -> None:
    relay("apply", "-f", str(manifest), "--yes")
    exported = relay("export", "-k", "relay-key", "-l", "team=search")
    assert exported.out.count("---") == exported.out.count("kind: relay-key") == 1
    outcome = relay("export", "-k", "thing")
    assert outcome.code == 2
    assert "rate-limit" in outcome.err


def test_prices_come_from_a_file_and_a_second_time_changes_nothing(relay: CommandLine) -> None:
    source = str(LISTS / "per_million.json")
    planned = relay("catalog", "import", source, "--provider", "acme", "--dry-run", "--json").json
    assert {step["kind"] for step in planned["steps"]} == {"provider", "pricing", "model"}
    first = relay("catalog", "import", source, "--provider", "acme", "--yes", "--json").json
    assert first["steps"] == planned["steps"]
    second = relay("catalog", "import", source, "--provider", "acme")
    assert (second.code, second.out) == (0, "no changes; 4 unchanged\n")


class PriceList(BaseHTTPRequestHandler):
    """Serves a list, and addresses that have none."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/there")
            self.end_headers()
            return
        found = self.path == "/list.json"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write((LISTS / "per_token.json").read_bytes() if found else b"nothing")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), PriceList) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_prices_come_from_an_address(relay: CommandLine, server: str) -> None:
    outcome = relay("catalog", "import", f"{server}/list.json", "--dry-run", "--model", "whisper")
    assert outcome.code == 0
    assert "+ model whisper" in outcome.out


def test_an_address_without_a_list_is_a_clear_error(relay: CommandLine, server: str) -> None:
    missing = relay("catalog", "import", f"{server}/other.json")
    assert (missing.code, "answers with 404" in missing.err) == (2, True)
    moved = relay("catalog", "import", f"{server}/moved")
    assert (moved.code, "leads to http://127.0.0.1:1/there" in moved.err) == (2, True)
    nobody = relay("catalog", "import", "http://127.0.0.1:1/list.json")
    assert (nobody.code, "cannot be read" in nobody.err) == (2, True)


def test_output_of_a_terminal_is_not_obeyed(relay: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    metadata = {"slug": "a", "description": "\x1b[2Jgone"}
    path.write_text(json.dumps({"kind": "provider", "metadata": metadata}))
    outcome = relay("apply", "-f", str(path), "--dry-run")
    assert "\x1b" not in outcome.out
    assert "gone" in outcome.out
