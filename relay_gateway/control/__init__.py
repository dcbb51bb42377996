"""The control plane: catalog, keys, operations and logs over HTTP, for administrators."""

from relay_gateway.control.app import create_control_app
from relay_gateway.control.services import (
    ControlServices,
    PluginEntry,
    Readiness,
    ReloadReport,
)

__all__ = [
    "ControlServices",
    "PluginEntry",
    "Readiness",
    "ReloadReport",
    "create_control_app",
]
