"""A plugin that wants arguments that no hook has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relay_gateway.plugin import PluginConfig, SecretBackend, SecretRef, hookimpl


class Ref(SecretRef):
    kind: Literal["bad_signature"] = "bad_signature"


class Backend(SecretBackend[PluginConfig]):
    name = "bad_signature"
    Ref = Ref


@hookimpl
def relay_register_secret_backends(
    settings: object,  # what is wrong with it
) -> Sequence[type[SecretBackend[PluginConfig]]]:
    return (Backend,)
