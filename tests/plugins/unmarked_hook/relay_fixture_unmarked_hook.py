"""A plugin that forgot to mark its hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef


class Ref(SecretRef):
    kind: Literal["unmarked_hook"] = "unmarked_hook"


class Backend(SecretBackend[PluginConfig]):
    name = "unmarked_hook"
    Ref = Ref


def relay_register_secret_backends() -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)
