"""Settings: what the gateway is told by ``relay.toml`` and ``RELAY_*``, as one frozen object."""

from relay_gateway.settings.data_dir import Prepared, prepare_data_dir
from relay_gateway.settings.load import (
    CONFIG_VARIABLE,
    SECRET_VARIABLES,
    config_file,
    environment_names,
    load_settings,
    unknown_variables,
)
from relay_gateway.settings.mask import masked, without_password
from relay_gateway.settings.model import (
    PLUGIN_SECTIONS,
    LoginUser,
    PluginSelection,
    Settings,
    UsageLogging,
)

__all__ = [
    "CONFIG_VARIABLE",
    "PLUGIN_SECTIONS",
    "SECRET_VARIABLES",
    "LoginUser",
    "PluginSelection",
    "Prepared",
    "Settings",
    "UsageLogging",
    "config_file",
    "environment_names",
    "load_settings",
    "masked",
    "prepare_data_dir",
    "unknown_variables",
    "without_password",
]
