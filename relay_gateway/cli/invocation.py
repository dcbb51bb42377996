"""What every command begins with: the settings of this invocation and the data directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from relay_gateway.settings import Prepared, Settings


def settings_of(context: typer.Context) -> Settings:
    """The settings from the environment and the file that ``--config`` names; not prepared yet."""
    from relay_gateway.settings import load_settings

    return load_settings(os.environ, config_path_of(context))


def prepared_of(context: typer.Context) -> Prepared:
    """The settings with the data directory made and its secrets filled in.

    Refuses a master key ring with an unusable entry before anything is sealed with it, and
    credentials of the control plane that protect too little.
    """
    from relay_gateway.security.access import check_access
    from relay_gateway.security.master_key import check_master_keys
    from relay_gateway.server.hardening import harden_process
    from relay_gateway.settings import prepare_data_dir

    harden_process()
    prepared = prepare_data_dir(settings_of(context))
    check_master_keys(prepared.settings.master_key)
    check_access(prepared.settings)
    return prepared


def config_path_of(context: typer.Context) -> Path | None:
    """What ``--config`` names."""
    path = context.find_root().obj
    return path if isinstance(path, Path) else None
