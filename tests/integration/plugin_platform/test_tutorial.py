"""The tutorial's provider: what the page shows is what is installed, checked and called."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from relay_gateway.cli.scaffolding import scaffold
from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.installed import PluginSite
from relay_gateway.testing.script import json_response, sse_event, sse_response

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "acme-provider"
PAGE = (DOCS / "tutorial" / "write-a-provider.md").read_text("utf-8")
CHANGED = {"conformance.py", "provider.py", "words.py"}
ANSWER: dict[str, Any] = {
    "id": "a1",
    "model": "large-1",
    "parts": [{"type": "text", "text": "Sunny."}],
    "stop": "end",
    "usage": {"tokens_in": 30, "tokens_out": 12},
}
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "start", "id": "a1", "model": "large-1"},
    {"type": "open", "number": 0, "part": {"type": "text"}},
    {"type": "more", "number": 0, "text": "Sun"},
    {"type": "more", "number": 0, "text": "ny."},
    {"type": "close", "number": 0},
    {"type": "end", "stop": "end", "usage": {"tokens_in": 30, "tokens_out": 12}},
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> PluginSite:
    """The example, installed from a copy: building leaves files behind."""
    directory = tmp_path_factory.mktemp("acme")
    shutil.copytree(EXAMPLE, directory / "source")
    site = PluginSite(directory / "site")
    site.install(directory / "source")
    return site


@pytest.fixture
async def app(site: PluginSite, tmp_path: Path) -> AsyncIterator[GatewayApp]:
    async with GatewayApp(tmp_path, environ={"PYTHONPATH": str(site.directory)}) as app:
        yield app


def sources(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text("utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_piece_of_code_on_the_page_is_in_the_example() -> None:
    text = "\n".join(sources(EXAMPLE / "src").values())
    shown = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(shown) >= 5
    assert [piece for piece in shown if piece not in text] == []


def test_the_example_is_what_the_command_writes_but_for_what_the_page_changes(
    tmp_path: Path,
) -> None:
    fresh = sources(scaffold("provider", "acme", tmp_path))
    example = sources(EXAMPLE)
    assert example.keys() - fresh.keys() == {"tests/test_verdicts.py"}
    differing = {Path(name).name for name, text in fresh.items() if example[name] != text}
    assert differing == CHANGED


def test_the_tests_of_the_example_that_a_scaffold_has_not_pass(site: PluginSite) -> None:
    configuration = ["-c", str(EXAMPLE / "pyproject.toml"), "-p", "no:cacheprovider"]
    tests = str(EXAMPLE / "tests" / "test_verdicts.py")
    assert "3 passed" in site.run("-m", "pytest", "-q", *configuration, tests)


def test_the_check_prints_what_the_page_shows(site: PluginSite, tmp_path: Path) -> None:
    done = site.gateway("plugins", "check", "acme", cwd=tmp_path)
    (shown,) = re.findall(r"\$ relay-gateway plugins check acme\n(.*?)```", PAGE, re.DOTALL)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


async def test_it_is_served_to_clients_of_two_other_apis_and_explained(app: GatewayApp) -> None:
    reference = {"kind": "stored", "value": "made-up-0123456789"}
    await app.serve("large", adapter="acme", wire_formats=["acme.talk"], value_from=reference)
    app.upstream.enqueue(json_response(200, ANSWER), sse_response(map(sse_event, EVENTS)))
    async with AsyncOpenAI(base_url=f"{app.url}/v1", api_key=app.relay_key) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="large", messages=[{"role": "user", "content": "Weather?"}]
        )
    assert raw.parse().choices[0].message.content == "Sunny."
    async with AsyncAnthropic(base_url=app.url, api_key=app.relay_key) as other:
        stream = other.messages.stream(
            model="large", max_tokens=50, messages=[{"role": "user", "content": "Weather?"}]
        )
        async with stream as events:
            message = await events.get_final_message()
    (block,) = message.content
    assert (block.type, getattr(block, "text", "")) == ("text", "Sunny.")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (30, 12)
    for seen in app.upstream.ledger:
        assert (b"acme-key", b"made-up-0123456789") in seen.headers
        assert json.loads(seen.body)["turns"][0]["parts"][0]["text"] == "Weather?"
    await explained(app, raw.headers["x-relay-request-id"])


async def explained(app: GatewayApp, request_id: str) -> None:
    """What `plugins explain` tells of a translated request."""
    assert (await app.log(request_id))["status"] == 200
    code, out, err = await app.gateway.run("plugins", "explain", request_id, "--json")
    assert code == 0, err
    told = json.loads(out)
    steps = [(step["kind"], step["plugin"]) for step in told["steps"]]
    assert steps == [
        ("wire format", "openai"),
        ("codec", "openai"),
        ("codec", "acme"),
        ("secret backend", "stored"),
        ("upstream provider", "acme"),
        ("meter", "acme"),
        ("usage sink", "database"),
    ]
    (asked,) = [step for step in told["steps"] if step["kind"] == "upstream provider"]
    assert 0 < asked["milliseconds"] <= told["durationMs"]
    code, out, _ = await app.gateway.run("plugins", "explain", request_id)
    assert "attempt 1 at large: status 200" in out
    code, _, err = await app.gateway.run("plugins", "explain", "no-such-request")
    assert code == 2
    assert "has no record of the request 'no-such-request'" in err
