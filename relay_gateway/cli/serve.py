"""``relay-gateway serve``: both planes, until a signal."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import typer

from relay_gateway.cli.invocation import config_path_of, prepared_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from relay_gateway.server import Started
    from relay_gateway.settings import Prepared

SELDOM = (20_000, 5, 1000)
"""Thresholds of the garbage collector until the planes are up and set their own: nearly all that is
loaded stays, and looking through it again and again takes a fifth of the time of a start."""


def serve(context: typer.Context) -> None:
    """Serve the inference plane and the control plane until SIGTERM or Ctrl-C."""
    load_lightly()
    prepared = prepared_of(context)
    raise typer.Exit(
        run(prepared, lambda started: _announce(started, prepared), config_path_of(context))
    )


def load_lightly() -> None:
    """Has what is loaded from here on take less time and memory; to be called before any of it."""
    from relay_gateway.cli.deferred_imports import load_without_unused

    gc.set_threshold(*SELDOM)
    load_without_unused()


def run(
    prepared: Prepared, announce: Callable[[Started], None], config_path: Path | None = None
) -> int:
    """Serves with logging set up; the exit code of the process."""
    from relay_gateway.log import configure_logging
    from relay_gateway.server import serve as serve_planes
    from relay_gateway.server.open_files import prepare_table

    prepare_table()  # before the log has its thread
    settings = prepared.settings
    credentials = (settings.admin_token, settings.admin_password)
    secrets = (
        *settings.master_key,
        *filter(None, credentials),
        *(user.password for user in settings.users),
    )
    handler = configure_logging(settings.log_level, settings.log_format, hide=secrets)
    try:
        _warn_of_unknown_variables()
        return serve_planes(settings, announce=announce, config_path=config_path)
    finally:
        handler.close()


def _warn_of_unknown_variables() -> None:
    import logging

    from relay_gateway.settings import unknown_variables

    logger = logging.getLogger(__name__)
    for name in unknown_variables(os.environ):
        logger.warning("the variable %s is not a setting and is ignored", name)


def _announce(started: Started, prepared: Prepared) -> None:
    from relay_gateway import __version__
    from relay_gateway.cli.output import say

    say(f"Relay Gateway {__version__}")
    say(f"  inference plane  {started.inference_url}/v1")
    say(f"  control plane    {started.control_url or 'off'}")
    if started.control_url:
        say(f"  dashboard        {started.control_url}/ui/  (log in with the admin token)")
    say(f"  data directory   {prepared.settings.data_dir}")
    if prepared.admin_token_file:
        say(f"  admin token      {prepared.admin_token_file}{_new(prepared, 'admin-token')}")
    if prepared.master_key_file:
        say(f"  master key       {prepared.master_key_file}{_new(prepared, 'master-key')}")
    say("Next, in another terminal: relay-gateway keys create my-application")


def _new(prepared: Prepared, name: str) -> str:
    return "  (just made)" if any(path.name == name for path in prepared.created) else ""
