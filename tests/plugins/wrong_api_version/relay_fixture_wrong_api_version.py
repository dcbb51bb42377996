"""A plugin for a plugin API of another time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef, hookimpl


class Ref(SecretRef):
    kind: Literal["wrong_api_version"] = "wrong_api_version"


class Backend(SecretBackend[PluginConfig]):
    name = "wrong_api_version"
    api_version = 99
    Ref = Ref


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)
