"""A plugin whose hook nobody would ever call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef, hookimpl


class Ref(SecretRef):
    kind: Literal["misspelt_hook"] = "misspelt_hook"


class Backend(SecretBackend[PluginConfig]):
    name = "misspelt_hook"
    Ref = Ref


@hookimpl
def relay_register_secret_backend() -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)
