"""Settings as they may be shown: every credential replaced by a mask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from relay_gateway.secret import MASK
from relay_gateway.settings.fields import PluginSection
from relay_gateway.settings.model import PLUGIN_SECTIONS, Settings

_URL_PASSWORD = re.compile(r"(?<=://)([^/?#@:]*):[^/?#]*@")
_QUERY_PASSWORD = re.compile(r"([?&]password=)[^&#]*")


def masked(settings: Settings, sections: Mapping[str, PluginSection]) -> dict[str, Any]:
    """The settings in values of JSON, without any credential, nor its length.

    ``sections`` are the plugins' tables with their credentials already masked: only a plugin's own
    configuration model knows which of its fields are credentials.
    """
    shown = settings.model_dump(exclude=set(PLUGIN_SECTIONS))
    shown["data_dir"] = str(settings.data_dir)
    shown["database_url"] = without_password(settings.database_url)
    shown["state_url"] = without_password(settings.state_url)
    shown["control_port"] = "off" if settings.control_port is None else settings.control_port
    shown["master_key"] = [MASK for _ in settings.master_key]
    shown["admin_token"] = MASK if settings.admin_token else None
    shown["admin_password"] = MASK if settings.admin_password else None
    shown["users"] = [{"username": user.username, "password": MASK} for user in settings.users]
    for name in ("egress_deny", "trusted_proxies"):
        shown[name] = [str(network) for network in shown[name]]
    return shown | {name: section for name, section in sections.items() if section}


def without_password(url: str) -> str:
    """``url`` with its password, and any ``password`` of its query, replaced by a mask."""
    return _QUERY_PASSWORD.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1:{MASK}@", url))
