"""``relay-gateway config``: the settings in force, and whether a start would accept them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_gateway.cli.invocation import config_path_of, settings_of

if TYPE_CHECKING:
    from relay_gateway.settings import Settings

app = typer.Typer(help="Show and check the configuration.", no_args_is_help=True)


@app.command()
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every setting in force; credentials are masked."""
    from relay_gateway.cli.output import say_json, say_table
    from relay_gateway.registry import Registry
    from relay_gateway.settings import environment_names, masked

    settings = settings_of(context)
    registry = Registry.discover(enabled=settings.plugins.enabled)
    shown = masked(settings, registry.masked(settings.plugin_sections()))
    if as_json:
        say_json(shown)
        return
    variables = {setting: variable for variable, setting in environment_names().items()}
    rows = [(name, value, variables.get(name)) for name, value in _flat("", shown)]
    say_table(("setting", "value", "variable"), rows)


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Keys and values of a table, those of tables inside it under dotted names."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key}.", value)
        elif isinstance(value, list | tuple):
            yield prefix + key, ", ".join(str(item) for item in value)
        else:
            yield prefix + key, value


@app.command()
def check(context: typer.Context) -> None:
    """Check settings and plugin sections without starting or changing anything."""
    from relay_gateway.cli.output import complain, say
    from relay_gateway.security.access import check_access
    from relay_gateway.security.master_key import check_master_keys
    from relay_gateway.settings import config_file, unknown_variables

    settings = settings_of(context)
    check_master_keys(settings.master_key)
    check_access(settings)
    _check_plugins(settings)
    for name in unknown_variables(os.environ):
        complain(f"warning: the variable {name} is not a setting and is ignored")
    path = config_file(os.environ, config_path_of(context))
    say(f"the configuration is good ({path or 'no configuration file'})")


def _check_plugins(settings: Settings) -> None:
    from relay_gateway.errors import PluginConfigError, PluginUnavailableError
    from relay_gateway.registry import Registry
    from relay_gateway.server.guards import select_guards
    from relay_gateway.server.plugin_instances import configure_plugins

    registry = Registry.discover(enabled=settings.plugins.enabled)
    plugins = configure_plugins(settings, registry, os.environ)
    for name in settings.usage_logging.sinks:
        try:
            plugins.usage_sink(name)
        except PluginUnavailableError as error:
            raise PluginConfigError(f"relay.toml: [usage_logging] sinks: {error}") from error
    try:
        select_guards(settings.guarding.order, plugins)
    except PluginUnavailableError as error:
        raise PluginConfigError(f"relay.toml: [guarding] order: {error}") from error
