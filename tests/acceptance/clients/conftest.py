"""A gateway before a speaking upstream, which the official clients are pointed at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay_gateway.testing.polyglot import Polyglot, SpokenHost

HOSTS = {
    "chat": SpokenHost("openai", ("openai.chat", "openai.embeddings"), "/v1"),
    "responses": SpokenHost("openai", ("openai.responses",), "/v1"),
    "messages": SpokenHost("anthropic", ("anthropic.messages",)),
    "gemini": SpokenHost("gemini", ("gemini.generate",)),
}


@pytest.fixture(scope="session")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polyglot]:
    with Polyglot(tmp_path_factory.mktemp("clients"), HOSTS) as gateway:
        yield gateway
        assert (gateway.upstream.errors, gateway.upstream.malformed) == ([], [])


@pytest.fixture(params=HOSTS)
def model(request: pytest.FixtureRequest) -> str:
    """A model whose host speaks one wire format, then another."""
    return str(request.param)


@pytest.fixture
def gateway(shared_gateway: Polyglot) -> Iterator[Polyglot]:
    """The gateway; every host key is put back into its pool afterwards."""
    yield shared_gateway
    shared_gateway.recover()
