"""What every plugin class has in common: a name, a configuration model, a life cycle."""

from __future__ import annotations

from typing import Any, ClassVar, Generic

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from typing_extensions import TypeVar

from relay_gateway.plugin.context import PluginContext

API_VERSION = 1
"""Version of the plugin API. A plugin class that declares another one is quarantined."""


class PluginConfig(BaseModel):
    """Base of a plugin's own section in ``relay.toml``, for example ``[secret_backends.acme]``.

    Frozen; an unknown key is an error that names it. Fields that hold a credential are declared as
    ``pydantic.SecretStr`` so that ``config show`` masks them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


class CatalogModel(BaseModel):
    """Base of models that appear inside catalog entities: camelCase in JSON, unknown fields
    refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


ConfigT = TypeVar("ConfigT", bound=PluginConfig, default=Any)


class Plugin(Generic[ConfigT]):
    """Base of everything a hook registers.

    Life of an instance: ``__init__`` (no I/O, must not fail on a valid configuration) → ``aopen``
    (connect, check; may raise, is then retried in the background unless the configuration says
    ``required = true``) → calls → ``aclose`` (idempotent, also after a failed ``aopen``).
    """

    name: ClassVar[str]
    """What configuration and catalog call this plugin, unique within its kind; lower case, ``-`` or
    ``_``."""

    api_version: ClassVar[int] = API_VERSION

    Config: ClassVar[type[PluginConfig]] = PluginConfig

    def __init__(self, config: ConfigT, context: PluginContext) -> None:
        self.config = config
        self.context = context

    async def aopen(self) -> None:
        """Acquire what the plugin needs. The default needs nothing."""

    async def aclose(self) -> None:
        """Release everything; called exactly once by the gateway, but must bear a second call."""
