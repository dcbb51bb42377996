"""Frameworks that people really use, against hosts of every wire format, in an environment of
their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.conversations import PIXEL
from relay_gateway.testing.installed import interpreter_with
from relay_gateway.testing.polyglot import Polyglot, SpokenHost
from relay_gateway.testing.speakers import EMBEDDING
from relay_gateway.testing.speakers.scene import ARGUMENTS, GREETING

HERE = Path(__file__).parent
HOSTS = {
    "chat": SpokenHost("openai", ("openai.chat", "openai.embeddings"), "/v1"),
    "responses": SpokenHost("openai", ("openai.responses",), "/v1"),
    "messages": SpokenHost("anthropic", ("anthropic.messages",)),
    "gemini": SpokenHost("gemini", ("gemini.generate",)),
}
EXPECTED: Mapping[str, object] = {
    "chat": GREETING,
    "usage": 29,
    "stream": GREETING,
    "async": GREETING,
    "vision": "I see image/png.",
    "schema": {"city": "Bern", "degrees": 21},
    "embeddings": EMBEDDING,
    "cancelled": "cancelled",
}
PROGRAMS = {"langchain_clients": 3, "pydantic_ai_clients": 4, "litellm_client": 2}
"""The programs, each with how many clients it has."""


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polyglot]:
    with Polyglot(tmp_path_factory.mktemp("frameworks"), HOSTS) as gateway:
        yield gateway
        assert (gateway.upstream.errors, gateway.upstream.malformed) == ([], [])


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the frameworks; ``FRAMEWORKS_PYTHON`` names one that has them."""
    home = tmp_path_factory.mktemp("environment")
    return interpreter_with(HERE / "requirements.txt", home, "FRAMEWORKS_PYTHON")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_framework_cannot_tell_which_format_the_host_speaks(
    program: str, gateway: Polyglot, python: Path, tmp_path: Path
) -> None:
    gateway.upstream.cancellations.clear()
    reports = run(program, gateway, python, tmp_path)
    assert len({report["client"] for report in reports}) == PROGRAMS[program]
    assert {report["model"] for report in reports} == set(HOSTS)
    wrong = [report for report in reports if not is_right(report)]
    assert wrong == []
    left = sum(report["scenario"] == "cancelled" for report in reports)
    assert left == PROGRAMS[program] * len(HOSTS)
    gateway.run(gateway.upstream.until(lambda: len(gateway.upstream.cancellations) >= left))


def run(program: str, gateway: Polyglot, python: Path, home: Path) -> list[dict[str, Any]]:
    """What a program reports, scenario by scenario."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GATEWAY_URL": gateway.url,
        "GATEWAY_KEY": gateway.relay_key,
        "GATEWAY_MODELS": ",".join(HOSTS),
        "PIXEL": PIXEL,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing is to be fetched
    }
    done = subprocess.run(
        [python, f"{program}.py"],
        cwd=HERE / "programs",
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def is_right(report: Mapping[str, Any]) -> bool:
    """Whether a scenario gave what it gives with every host."""
    scenario, value = report["scenario"], report.get("value")
    if scenario in EXPECTED:
        return bool(value == EXPECTED[scenario])
    if scenario == "tools":
        return bool(value and value[0] == ARGUMENTS and value[1].startswith("Tools say: fine; "))
    if scenario == "answered_tools":
        return bool(value and value.startswith("Tools say: ") and value.count("fine") == 2)
    if scenario == "broken":
        return "error" in report
    return "error" in report and f"told to fail with {scenario[-3:]}" in report["message"]
