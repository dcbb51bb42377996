"""A plugin that cannot do without a section of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import HttpUrl, SecretStr, field_validator

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef, hookimpl


class Ref(SecretRef):
    kind: Literal["bad_config"] = "bad_config"


class Config(PluginConfig):
    url: HttpUrl
    token: SecretStr
    timeout: float = 5.0

    @field_validator("token")
    @classmethod
    def _long(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 20:
            # What no plugin should do, and one will: quote the credential.
            raise ValueError(f"{value.get_secret_value()} is too short")
        return value


class Backend(SecretBackend[Config]):
    name = "bad_config"
    Ref = Ref
    Config = Config


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend[Config]]]:
    return (Backend,)
