"""Entry point of ``relay-gateway``: the commands, and what errors mean for the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from relay_gateway import __version__
from relay_gateway.cli import (
    apply,
    audit,
    catalog,
    config,
    demo,
    doctor,
    export,
    keys,
    master_key,
    migrate,
    plugins,
    serve,
    usage,
    users,
)
from relay_gateway.errors import ConfigurationError, RelayError

EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(
    name="relay-gateway",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(serve.serve)
app.command()(demo.demo)
app.command()(migrate.migrate)
app.command()(doctor.doctor)
app.command()(apply.apply)
app.command()(export.export)
app.command()(usage.tail)
app.add_typer(usage.app, name="usage")
app.add_typer(keys.app, name="keys")
app.add_typer(master_key.app, name="master-key")
app.add_typer(users.app, name="users")
app.add_typer(audit.app, name="audit")
app.add_typer(catalog.app, name="catalog")
app.add_typer(plugins.app, name="plugins")
app.add_typer(config.app, name="config")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the signature of a typer callback
    if wanted:
        typer.echo(f"relay-gateway {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    config_path: Annotated[
        Path | None,
        typer.Option("--config", help="Configuration file instead of ./relay.toml."),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback acts
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """A self-hosted LLM gateway: relay keys in, host keys out."""
    context.obj = config_path


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits: 0 done, 1 failed, 2 wrong usage or configuration."""
    try:
        app(arguments)
    except ConfigurationError as error:
        _end(error, EXIT_USAGE)
    except RelayError as error:
        _end(error, EXIT_FAILED)


def _end(error: RelayError, code: int) -> None:
    from relay_gateway.cli.output import complain

    lines = str(error).splitlines() or [type(error).__name__]
    for line in lines:
        complain(f"error: {line}")
    raise SystemExit(code) from error


if __name__ == "__main__":
    main()
