"""What may be shown of a plugin: its line, the schema of its section, its configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import Plugin, PluginConfig
from relay_gateway.registry.configure import Blueprint
from relay_gateway.registry.inventory import Record
from relay_gateway.registry.masking import masked
from relay_gateway.registry.vetting import REQUIRED_KEY

_REQUIRED = {
    "type": "boolean",
    "default": False,
    "description": "Refuse to start when the plugin cannot be opened.",
}


class PluginDescription(msgspec.Struct, frozen=True):
    """What the inventory says of a plugin, with the JSON Schema of its section and, where it is
    configured, the values in force, defaults included and credentials masked."""

    name: str
    kind: str
    distribution: str
    version: str
    state: str
    error: str | None
    config_schema: dict[str, Any] | None
    config: dict[str, Any] | None


def describe(
    record: Record, plugin: type[Plugin[Any]] | None, blueprint: Blueprint | None
) -> PluginDescription:
    """What is known of the plugin of ``record``."""
    schema = None if plugin is None else _schema_of(plugin.Config)
    config = None if blueprint is None else _shown(blueprint)
    info = record.info()
    return PluginDescription(
        info.name,
        str(info.kind),
        info.distribution,
        info.version,
        str(info.state),
        info.error,
        schema,
        config,
    )


def _schema_of(model: type[PluginConfig]) -> dict[str, Any] | None:
    try:
        schema = model.model_json_schema()
    except Exception:  # noqa: BLE001 - a model may have types that JSON Schema has no word for
        return None
    properties = {**schema.get("properties", {}), REQUIRED_KEY: _REQUIRED}
    return {**schema, "properties": properties}


def _shown(blueprint: Blueprint) -> dict[str, Any] | None:
    try:
        values = blueprint.config.model_dump(mode="json", by_alias=True)
    except Exception:  # noqa: BLE001 - the same
        return None
    return {**masked(type(blueprint.config), values), REQUIRED_KEY: blueprint.required}
