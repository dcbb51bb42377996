"""``relay-gateway demo``: a gateway that answers offline, with a relay key and calls to paste."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import config_path_of
from relay_gateway.cli.serve import run

if TYPE_CHECKING:
    from relay_gateway.secret import Secret
    from relay_gateway.server import Started
    from relay_gateway.settings import Prepared, Settings

FIRST_CALL = "first_call.txt"
"""File in the package of a local provider: calls to paste, with ``$inference_url`` and
``$relay_key`` (:class:`string.Template`)."""
KEY_LIFETIME_HOURS = 24


def demo(
    context: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the data here instead of in a temporary directory."),
    ] = None,
) -> None:
    """Serve offline with a ready relay key, and print calls to try."""
    from relay_gateway.settings import load_settings, prepare_data_dir

    with _directory(data_dir) as directory:
        # Quiet unless asked otherwise, so that the calls to paste stay in sight.
        environ = {"RELAY_LOG_LEVEL": "warning", **os.environ, **_here(directory)}
        prepared = prepare_data_dir(load_settings(environ, config_path_of(context)))
        examples = _first_calls(prepared.settings)
        plaintext = _demo_key(prepared.settings)
        announce = _Announcement(prepared, plaintext, examples)
        raise typer.Exit(run(prepared, announce))


def _here(directory: Path) -> dict[str, str]:
    # Both, because a configuration file may name the database of a real gateway.
    database = f"sqlite:///{directory.absolute() / 'relay.sqlite3'}"
    return {"RELAY_DATA_DIR": str(directory), "RELAY_DATABASE_URL": database}


@contextlib.contextmanager
def _directory(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="relay-demo-") as name:
        yield Path(name)


def _first_calls(settings: Settings) -> list[Template]:
    """What the providers that need no upstream suggest to type first."""
    from importlib.resources import files

    from relay_gateway.errors import PluginUnavailableError
    from relay_gateway.registry import Registry

    registry = Registry.discover(enabled=settings.plugins.enabled)
    local = [provider for provider in registry.upstream_providers.values() if provider.local]
    if not local:
        raise PluginUnavailableError(
            "the demo needs a provider plugin that answers by itself, and none is installed; "
            "install what requirements.txt names, or see: relay-gateway plugins list"
        )
    texts = [files(provider.__module__.partition(".")[0]) / FIRST_CALL for provider in local]
    return [Template(text.read_text("utf-8")) for text in texts if text.is_file()]


def _demo_key(settings: Settings) -> Secret:
    import asyncio
    from datetime import UTC, datetime, timedelta

    from relay_gateway.server import RelayKeyOrder, open_catalog

    async def create() -> Secret:
        expires_at = datetime.now(UTC) + timedelta(hours=KEY_LIFETIME_HOURS)
        async with open_catalog(settings) as admin:
            order = RelayKeyOrder(name="demo", expires_at=expires_at)
            plaintext, _ = await admin.relay_keys.create(order)
            return plaintext

    return asyncio.run(create())


class _Announcement:
    """Prints the addresses, the relay key and the calls, once the gateway answers."""

    def __init__(self, prepared: Prepared, plaintext: Secret, examples: list[Template]) -> None:
        self._prepared = prepared
        self._plaintext = plaintext
        self._examples = examples

    def __call__(self, started: Started) -> None:
        from relay_gateway import __version__
        from relay_gateway.cli.output import say

        key = self._plaintext.reveal()
        say(f"Relay Gateway {__version__}, demo: answers offline, Ctrl-C ends it")
        say(f"  inference plane  {started.inference_url}/v1")
        say(f"  control plane    {started.control_url or 'off'}")
        if started.control_url:
            say(f"  dashboard        {started.control_url}/ui/  (log in with the admin token)")
        say(f"  admin token      {self._prepared.admin_token_file or 'as configured'}")
        say(f"  relay key        {key}  (valid for {KEY_LIFETIME_HOURS} h)")
        for example in self._examples:
            say()
            values = {"inference_url": started.inference_url, "relay_key": key}
            say(example.safe_substitute(values).rstrip())
