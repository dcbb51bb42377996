"""A gateway before a speaking upstream, and the JavaScript clients from the package index."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay_gateway.testing.polyglot import Polyglot, SpokenHost

HERE = Path(__file__).parent
HOSTS = {
    "chat": SpokenHost("openai", ("openai.chat", "openai.embeddings"), "/v1"),
    "responses": SpokenHost("openai", ("openai.responses",), "/v1"),
    "messages": SpokenHost("anthropic", ("anthropic.messages",)),
    "gemini": SpokenHost("gemini", ("gemini.generate",)),
}


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polyglot]:
    with Polyglot(tmp_path_factory.mktemp("js"), HOSTS) as gateway:
        yield gateway
        assert (gateway.upstream.errors, gateway.upstream.malformed) == ([], [])


@pytest.fixture(scope="session")
def programs() -> Path:
    """The programs beside an installation of what they need, which is kept between runs."""
    locked = (HERE / "package-lock.json").read_bytes()
    name = f"relay-gateway-js-{hashlib.sha256(locked).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name
    cache.mkdir(parents=True, exist_ok=True)
    for path in (*HERE.glob("*.mjs"), *HERE.glob("package*.json")):
        shutil.copy(path, cache)
    if not (cache / "node_modules" / ".package-lock.json").exists():
        subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=cache, check=True
        )
    return cache
