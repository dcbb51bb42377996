"""The watch over gateways finds what leaks, wherever to, and says where it could not look."""

from __future__ import annotations

import base64
import gzip
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from relay_gateway.testing.http_tap import tapped
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import Script, json_response
from relay_gateway.testing.upstream import ScriptedUpstream
from relay_gateway.testing.watch import Watch

TOKEN = secrets.token_hex(20)
RELAY_KEY = "sk-relay-" + base64.b32encode(secrets.token_bytes(30)).decode()
CONFTEST = Path(__file__).parents[2] / "acceptance" / "conftest.py"


@dataclass(slots=True)
class Left:
    """What a gateway left behind."""

    directory: Path
    environ: Mapping[str, str] = field(default_factory=lambda: {"RELAY_ADMIN_TOKEN": TOKEN})
    command: str = "serve"
    stdout: str = ""
    stderr: str = ""
    inference_url: str = ""
    control_url: str = ""

    @property
    def data_dir(self) -> Path:
        return self.directory


def in_file(left: Left, text: str) -> None:
    (left.directory / "snapshot").write_text(text)


def in_packed_file(left: Left, text: str) -> None:
    (left.directory / "spool.gz").write_bytes(gzip.compress(text.encode()))


def in_row(left: Left, text: str) -> None:
    with closing(sqlite3.connect(left.directory / "relay.sqlite3")) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("INSERT INTO t VALUES (?)", ["y" * 5000 + text])
        database.commit()


def on_stdout(left: Left, text: str) -> None:
    left.stdout += text


def on_stderr(left: Left, text: str) -> None:
    left.stderr += text


PLACES = (in_file, in_packed_file, in_row, on_stdout, on_stderr)
FORMS: tuple[Callable[[str], str], ...] = (
    str,
    lambda value: value.encode().hex(),
    lambda value: base64.b64encode(value.encode()).decode(),
    lambda value: f"{value[:8]}…",
    lambda value: f"…{value[-8:]}",
)


def swept(watch: Watch, left: Left) -> None:
    """The life of a process, as far as the watch sees it."""
    watch.begun(left)
    watch.ended(left)


def test_r27_what_leaks_nothing_passes(tmp_path: Path) -> None:
    watch = Watch()
    left = Left(tmp_path, stdout="ready", stderr="a warning")
    (tmp_path / "admin-token").write_text(TOKEN)
    swept(watch, left)
    watch.judge()
    assert watch.swept == {"processes": 1, "texts": 2}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_r27_a_planted_credential_is_found(
    tmp_path: Path, place: Callable[[Left, str], None], form: Callable[[str], str]
) -> None:
    watch = Watch()
    left = Left(tmp_path)
    place(left, f"before {form(TOKEN)} after")
    swept(watch, left)
    with pytest.raises(AssertionError, match="secrets leaked:\nRELAY_ADMIN_TOKEN 1") as caught:
        watch.judge()
    assert TOKEN not in str(caught.value)


def test_r27_a_credential_that_the_gateway_made_is_looked_for_outside_its_file(
    tmp_path: Path,
) -> None:
    watch = Watch()
    left = Left(tmp_path, environ={}, stderr=f"made {TOKEN}")
    (tmp_path / "master-key").write_text(f"{TOKEN}\n")
    swept(watch, left)
    with pytest.raises(AssertionError, match=r"master-key 1 \(plain\) in stderr"):
        watch.judge()


def test_t64_the_dump_of_a_postgresql_database_is_searched(tmp_path: Path) -> None:
    watch = Watch()
    watch.dump = {"postgresql://u@127.0.0.1/x": f"COPY t ({TOKEN})"}.__getitem__
    environ = {"RELAY_ADMIN_TOKEN": TOKEN, "RELAY_DATABASE_URL": "postgresql://u@127.0.0.1/x"}
    swept(watch, Left(tmp_path, environ))
    with pytest.raises(AssertionError, match=r"in pg_dump"):
        watch.judge()


async def test_r27_answers_are_heard_and_a_new_relay_key_may_be_in_one_of_them(
    tmp_path: Path,
) -> None:
    def answer(request: SeenRequest) -> Script:
        if request.method == "POST":
            return json_response(201, {"plaintext": RELAY_KEY})
        return json_response(200, {"items": [{"plaintext": RELAY_KEY}], "x": TOKEN[:8]})

    async with ScriptedUpstream(answer) as control:
        watch, left = Watch(), Left(tmp_path, control_url=control.url)
        watch.begun(left)
        with tapped(watch):
            async with httpx.AsyncClient(base_url=control.url) as client:
                value = {"value": secrets.token_hex(20)}
                assert (await client.post("/relay-keys", json=value)).status_code == 201
            with httpx.Client(base_url=control.url, trust_env=False):
                pass
        watch.ended(left)
        watch.judge()
        assert len(watch.canary.names) == 3
        watch.begun(left)
        with tapped(watch):
            async with httpx.AsyncClient(base_url=control.url) as client:
                assert (await client.get("/relay-keys")).status_code == 200
        watch.ended(left)
    found = {(hit.canary.rpartition(" ")[0], hit.form) for hit in watch.hits}
    assert ("relay key", "plain") in found
    assert ("RELAY_ADMIN_TOKEN", "first 8") in found
    assert {hit.place for hit in watch.hits} == {"answer to GET /relay-keys (200)"}


def test_r27_what_a_command_prints_is_searched(tmp_path: Path) -> None:
    watch, left = Watch(), Left(tmp_path)
    watch.begun(left)
    watch.printed(left, "keys create", f"your key: {RELAY_KEY}")
    watch.printed(left, "keys list", f"all keys: {RELAY_KEY}")
    watch.printed(left, "doctor", f"all is well with {TOKEN}")
    watch.ended(left)
    assert {hit.place for hit in watch.hits} == {"keys list", "doctor"}


def test_r27_what_could_not_be_searched_fails_too(tmp_path: Path) -> None:
    watch = Watch()
    watch.begun(Left(tmp_path))
    with pytest.raises(AssertionError, match="1 gateways have not ended"):
        watch.judge()
    watch = Watch()
    swept(watch, Left(tmp_path, {"ACME_API_KEY": "short"}))
    with pytest.raises(AssertionError, match="ACME_API_KEY: make it of a canary"):
        watch.judge()
    watch = Watch()
    with pytest.raises(AssertionError, match="how to dump"):
        swept(watch, Left(tmp_path, {"RELAY_DATABASE_URL": "postgresql://u@127.0.0.1/x"}))


@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=["one process", "workers"])
def test_r27_a_run_of_acceptance_tests_fails_when_something_leaks(
    tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_leak.py").write_text(LEAK)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    settings = ["--rootdir", str(tmp_path), "-o", "asyncio_mode=auto"]
    done = subprocess.run(
        [*command, *settings, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed, 1 error" in done.stdout
    assert "RELAY_ADMIN_TOKEN 1 (hex) in " in done.stdout


LEAK = """
import secrets
from relay_gateway.testing.process import GatewayProcess

async def test_leaves_a_credential_in_a_file(tmp_path):
    token = secrets.token_urlsafe(30)
    async with GatewayProcess(tmp_path, {"RELAY_ADMIN_TOKEN": token}) as gateway:
        (gateway.data_dir / "debug.txt").write_text("token: " + token.encode().hex())
"""
