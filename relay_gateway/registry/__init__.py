"""Installed plugins: found, isolated, collected by name, configured, opened and closed."""

from relay_gateway.registry.changes import Change, Planned, PluginChange
from relay_gateway.registry.description import PluginDescription
from relay_gateway.registry.inventory import PluginInfo, PluginState
from relay_gateway.registry.kinds import ALWAYS_MADE, PluginKind
from relay_gateway.registry.lifecycle import Timing
from relay_gateway.registry.plugins import Plugins, ServedEndpoint
from relay_gateway.registry.registry import Registry

__all__ = [
    "ALWAYS_MADE",
    "Change",
    "Planned",
    "PluginChange",
    "PluginDescription",
    "PluginInfo",
    "PluginKind",
    "PluginState",
    "Plugins",
    "Registry",
    "ServedEndpoint",
    "Timing",
]
