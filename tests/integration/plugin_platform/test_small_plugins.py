"""The two small plugins of the tutorial: the page shows what is written, checked and served."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.cli.scaffolding import scaffold
from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.installed import PluginSite
from relay_gateway.testing.script import json_response

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = {"secret-backend netrc": "netrc-secret", "usage-sink ledger": "ledger-sink"}
CHANGED = {
    "netrc-secret": {"README.md", "backend.py", "conformance.py"},
    "ledger-sink": {"README.md", "sink.py", "conformance.py"},
}
PAGE = (DOCS / "tutorial" / "two-small-plugins.md").read_text("utf-8")
CREDENTIAL = "made-up-0123456789"
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "large",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42},
}


def shown(command: str) -> str:
    """What the page says that a command prints."""
    (output,) = re.findall(rf"```console\n\$ {re.escape(command)}\n(.*?)```", PAGE, re.DOTALL)
    return str(output)


def sources(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text("utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> PluginSite:
    """Both, installed from copies: building leaves files behind."""
    directory = tmp_path_factory.mktemp("vendor")
    site = PluginSite(directory / "site")
    copies = [directory / name for name in EXAMPLES.values()]
    for copy in copies:
        shutil.copytree(DOCS / "examples" / copy.name, copy)
    site.install(*copies)
    return site


@pytest.fixture
async def app(site: PluginSite, tmp_path: Path) -> AsyncIterator[GatewayApp]:
    """A gateway with the configuration of the page."""
    (configuration,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "netrc").write_text(
        f"machine api.example.com login relay password {CREDENTIAL}\n", "utf-8"
    )
    environ = {"PYTHONPATH": str(site.directory)}
    async with GatewayApp(tmp_path, configuration, environ) as app:
        yield app


def test_every_piece_of_code_on_the_page_is_in_the_examples() -> None:
    text = "\n".join(
        source
        for name in EXAMPLES.values()
        for source in sources(DOCS / "examples" / name / "src").values()
    )
    pieces = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(pieces) >= 5
    assert [piece for piece in pieces if piece not in text] == []


@pytest.mark.parametrize(("command", "example"), EXAMPLES.items(), ids=EXAMPLES.values())
def test_the_examples_are_what_the_command_writes_but_for_what_the_page_changes(
    command: str, example: str, tmp_path: Path
) -> None:
    kind, name = command.split()
    fresh = sources(scaffold(kind, name, tmp_path))
    changed = sources(DOCS / "examples" / example)
    assert changed.keys() == fresh.keys()
    differing = {Path(name).name for name, text in fresh.items() if changed[name] != text}
    assert differing == CHANGED[example]


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_command_that_writes_them_says_what_the_page_shows(
    command: str, site: PluginSite, tmp_path: Path
) -> None:
    done = site.gateway("plugins", "new", *command.split(), cwd=tmp_path)
    expected = shown(f"relay-gateway plugins new {command}")
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.mark.parametrize("name", ["netrc", "ledger"])
def test_the_checks_print_what_the_page_shows(name: str, site: PluginSite, tmp_path: Path) -> None:
    done = site.gateway("plugins", "check", name, cwd=tmp_path)
    expected = shown(f"relay-gateway plugins check {name}")
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


async def test_a_credential_comes_from_the_file_and_usage_goes_into_the_table(
    app: GatewayApp,
) -> None:
    await app.serve(
        "large",
        adapter="openai",
        wire_formats=["openai.chat"],
        value_from={"kind": "netrc", "machine": "api.example.com"},
    )
    asked = {"model": "large", "messages": [{"role": "user", "content": "Hi"}]}
    for _ in range(3):
        app.upstream.enqueue(json_response(200, ANSWER))
        tags = {"x-relay-request-tags": '{"team": "search"}'}
        answer = await app.post("/v1/chat/completions", asked, tags)
        assert (answer.status_code, answer.json()) == (200, ANSWER)
    for seen in app.upstream.ledger:
        assert (b"authorization", f"Bearer {CREDENTIAL}".encode()) in seen.headers
    await app.gateway.stop()
    (command,) = re.findall(r"\$ (sqlite3 .*)\n", PAGE)
    path, query = re.fullmatch(r'sqlite3 relay-data/(\S+) "(.*)"', command).groups()  # type: ignore[union-attr]
    rows = await asyncio.to_thread(selected, app.gateway.data_dir / path, query)
    assert rows == shown(command)


def selected(path: Path, query: str) -> str:
    """What the command line of SQLite prints."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(query).fetchall()
    return "".join("|".join(map(str, row)) + "\n" for row in rows)
