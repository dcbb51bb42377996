"""Where settings come from: defaults, then ``relay.toml``, then ``RELAY_*`` variables."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from relay_gateway.errors import SettingsError
from relay_gateway.settings.model import TABLES, Settings

PREFIX = "RELAY_"
CONFIG_VARIABLE = "RELAY_CONFIG"
SECRET_VARIABLES = (
    "RELAY_ADMIN_PASSWORD",
    "RELAY_ADMIN_TOKEN",
    "RELAY_DATABASE_URL",
    "RELAY_MASTER_KEY",
    "RELAY_STATE_URL",
)
"""Those that are credentials, or contain one."""
APPLICATION_VARIABLE = "RELAY_KEY"
"""Where the documentation has applications keep their key: often in the same shell."""
DEFAULT_CONFIG = Path("relay.toml")


def environment_names() -> dict[str, str]:
    """Variable → setting, for every setting that has a variable."""
    names = (name for name in Settings.model_fields if name not in TABLES)
    return {PREFIX + name.upper(): name for name in names}


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """``RELAY_*`` variables that mean nothing here.

    They are worth a warning and are no error, because container platforms invent such names
    (``RELAY_SERVICE_HOST`` for a service called relay).
    """
    known = {CONFIG_VARIABLE, APPLICATION_VARIABLE, *environment_names()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def config_file(environ: Mapping[str, str], config_path: Path | None = None) -> Path | None:
    """The configuration file in use: ``config_path``, else what ``RELAY_CONFIG`` names, else
    ``./relay.toml`` where that exists. Raises :class:`SettingsError` for a named one that does not.
    """
    named = config_path or (Path(value) if (value := environ.get(CONFIG_VARIABLE)) else None)
    if named is None:
        return DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None
    if not named.is_file():
        raise SettingsError(f"the configuration file {named} does not exist or is not a file")
    return named


def load_settings(environ: Mapping[str, str], config_path: Path | None = None) -> Settings:
    """The settings of this process. An empty variable counts as absent.

    Raises :class:`SettingsError` with one line for each setting that is unknown or has a bad
    value; no line quotes a value.
    """
    path = config_file(environ, config_path)
    variables = {
        setting: variable
        for variable, setting in environment_names().items()
        if environ.get(variable)
    }
    from_environment = {setting: environ[variable] for setting, variable in variables.items()}
    try:
        return Settings(**(_read(path) | from_environment))
    except ValidationError as error:
        raise SettingsError("\n".join(_problems(error, variables, path))) from error


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from error


def _problems(error: ValidationError, variables: Mapping[str, str], path: Path | None) -> list[str]:
    lines = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        # A default that builds on a refused setting; the refused one has its own line.
        if detail["type"] == "default_factory_not_called":
            continue
        where = variables.get(str(detail["loc"][0])) or f"{path}: {_toml_key(detail)}"
        lines.append(f"{where}: {_wording(detail)}")
    return list(dict.fromkeys(lines))


def _toml_key(detail: ErrorDetails) -> str:
    *tables, key = (part for part in detail["loc"] if isinstance(part, str))
    return f"[{'.'.join(tables)}] {key}" if tables else key


def _wording(detail: ErrorDetails) -> str:
    if detail["type"] != "extra_forbidden":
        message = detail["msg"].removeprefix("Value error, ")
        return message[0].lower() + message[1:]
    close = difflib.get_close_matches(str(detail["loc"][-1]), list(Settings.model_fields), n=1)
    return "unknown setting" + (f"; did you mean {close[0]}?" if close else "")
