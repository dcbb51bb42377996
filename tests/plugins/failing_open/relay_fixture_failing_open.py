"""A plugin that does not open at the first try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import SecretStr

from relay_gateway.plugin import PluginConfig, PluginContext, SecretBackend, SecretRef, hookimpl


class Ref(SecretRef):
    kind: Literal["failing_open"] = "failing_open"


class OpeningConfig(PluginConfig):
    failures: int = 2
    token: SecretStr = SecretStr("")


class Backend(SecretBackend[OpeningConfig]):
    name = "failing_open"
    Ref = Ref
    Config = OpeningConfig

    def __init__(self, config: OpeningConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.attempts = 0
        self.closed = 0

    async def aopen(self) -> None:
        self.attempts += 1
        if self.attempts <= self.config.failures:
            token = self.config.token.get_secret_value()
            raise ConnectionRefusedError(f"nobody listens to {token!r} there")

    async def aclose(self) -> None:
        self.closed += 1


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend[OpeningConfig]]]:
    return (Backend,)
