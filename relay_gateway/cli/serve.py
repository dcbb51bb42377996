"""``relay-gateway serve``: both planes, until a signal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from relay_gateway.cli.invocation import prepared_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay_gateway.server import Started
    from relay_gateway.settings import Prepared


def serve(context: typer.Context) -> None:
    """Serve the inference plane and the control plane until SIGTERM or Ctrl-C."""
    prepared = prepared_of(context)
    raise typer.Exit(run(prepared, lambda started: _announce(started, prepared)))


def run(prepared: Prepared, announce: Callable[[Started], None]) -> int:
    """Serves with logging set up; the exit code of the process."""
    from relay_gateway.log import configure_logging
    from relay_gateway.server import serve as serve_planes

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
        return serve_planes(settings, announce=announce)
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
    say(f"  data directory   {prepared.settings.data_dir}")
    if prepared.admin_token_file:
        say(f"  admin token      {prepared.admin_token_file}{_new(prepared, 'admin-token')}")
    if prepared.master_key_file:
        say(f"  master key       {prepared.master_key_file}{_new(prepared, 'master-key')}")
    say("Next, in another terminal: relay-gateway keys create my-application")


def _new(prepared: Prepared, name: str) -> str:
    return "  (just made)" if any(path.name == name for path in prepared.created) else ""
