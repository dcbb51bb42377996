"""Installed plugins: found, isolated, collected by name, configured, opened and closed."""

from relay_gateway.registry.inventory import PluginInfo, PluginState
from relay_gateway.registry.kinds import PluginKind
from relay_gateway.registry.lifecycle import Timing
from relay_gateway.registry.plugins import Plugins, ServedEndpoint
from relay_gateway.registry.registry import Registry

__all__ = [
    "PluginInfo",
    "PluginKind",
    "PluginState",
    "Plugins",
    "Registry",
    "ServedEndpoint",
    "Timing",
]
