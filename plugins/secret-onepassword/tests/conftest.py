"""Connect servers, and backends that are closed after the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.context import plugin_context
from relay_gateway_secret_onepassword import OnePasswordConfig, OnePasswordSecrets
from relay_gateway_secret_onepassword.testing import FakeConnect

TOKEN = "access-token-canary-4a5b6c7d8e9f"
MakeBackend = Callable[..., OnePasswordSecrets]


@pytest.fixture
def connect() -> Iterator[FakeConnect]:
    with FakeConnect(TOKEN) as server:
        yield server


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeBackend]:
    made: list[OnePasswordSecrets] = []

    def backend(
        url: str, environ: dict[str, str] | None = None, **config: Any
    ) -> OnePasswordSecrets:
        login = {} if environ is not None or "token_file" in config else {"token": TOKEN}
        section = OnePasswordConfig.model_validate({"url": url, **login, **config})
        context = plugin_context(tmp_path, plugin="onepassword", environ=environ)
        made.append(OnePasswordSecrets(section, context))
        return made[-1]

    yield backend
    for one in made:
        await one.aclose()
        await one.context.aclose()
