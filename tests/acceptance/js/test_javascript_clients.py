"""The official JavaScript clients against hosts of every wire format."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.conversations import PIXEL
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.speakers import EMBEDDING
from relay_gateway.testing.speakers.scene import ARGUMENTS, GREETING, SIGNATURE

from .conftest import HOSTS

EXPECTED: Mapping[str, object] = {
    "chat": [GREETING, 29],
    "stream": GREETING,
    "tools": [ARGUMENTS, f"Tools say: fine; fine. Signed {SIGNATURE}."],
    "vision": "I see image/png.",
    "schema": {"city": "Bern", "degrees": 21},
    "responses": GREETING,
    "responses_stream": [True, ARGUMENTS],
    "embeddings": EMBEDDING,
    "cancelled": "left",
}
ERRORS: Mapping[str, Mapping[str, str]] = {
    "openai": {
        "error_400": "BadRequestError",
        "error_404": "NotFoundError",
        "error_500": "InternalServerError",
    },
    "anthropic": {
        "error_400": "BadRequestError",
        "error_404": "NotFoundError",
        "error_500": "InternalServerError",
    },
    "genai": {"error_400": "ApiError", "error_404": "ApiError", "error_500": "ApiError"},
}


def run(program: Path, gateway: Polyglot, models: str) -> list[dict[str, Any]]:
    """What a program reports, scenario by scenario."""
    environ = {
        "PATH": os.environ["PATH"],
        "GATEWAY_URL": gateway.url,
        "GATEWAY_KEY": gateway.relay_key,
        "GATEWAY_MODELS": models,
        "PIXEL": PIXEL,
    }
    done = subprocess.run(
        ["node", program.name],
        cwd=program.parent,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    gateway.gateway.heard(program.name, done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("client", ERRORS)
def test_the_client_cannot_tell_which_format_the_host_speaks(
    client: str, gateway: Polyglot, programs: Path
) -> None:
    gateway.upstream.cancellations.clear()
    reports = run(programs / f"{client}.mjs", gateway, ",".join(HOSTS))
    assert {report["model"] for report in reports} == set(HOSTS)
    for report in reports:
        scenario = report["scenario"]
        if scenario in EXPECTED:
            assert report.get("value") == EXPECTED[scenario], report
        elif scenario == "broken":
            assert "value" not in report, report
        else:
            assert report.get("error") == ERRORS[client][scenario], report
            assert report["status"] == int(scenario[-3:]), report
    gateway.run(gateway.upstream.until(lambda: len(gateway.upstream.cancellations) >= len(HOSTS)))
