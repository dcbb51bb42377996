"""Writes the pages of docs/reference that say what the code says; ``--check`` only compares.

Run it with ``tox run -e docs``, where the plugins of this repository are installed.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import typer.main
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from relay_gateway import errors, plugin
from relay_gateway.cli.main import app as command_line
from relay_gateway.control import create_control_app
from relay_gateway.control.services import ControlServices
from relay_gateway.observe.bounded import NONE, OTHER
from relay_gateway.observe.families import FAMILIES
from relay_gateway.observe.requests import MAX_COMBINATIONS
from relay_gateway.plugin import PluginContext, hookspecs
from relay_gateway.registry import Plugins, Registry
from relay_gateway.settings import PLUGIN_SECTIONS, LoginUser, Settings, environment_names

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
NEEDED = {
    "secret_backends": {
        "onepassword": {"url": "http://127.0.0.1:8080"},
        "vault": {"address": "http://127.0.0.1:8200"},
    },
    "usage_sinks": {"s3": {"bucket": "usage"}},
    "payload_loggers": {"s3": {"bucket": "payloads"}},
}
"""Sections of the plugins that are there only with one; what is in them is in no page."""
NOTICE = "<!-- Written by docs/generate.py from the code; edit that instead. -->\n"


def settings_page() -> Iterator[str]:
    """Every setting with its variable, default and meaning."""
    yield "# Settings\n"
    yield NOTICE
    yield (
        "From `./relay.toml` (or the file that `--config` or `RELAY_CONFIG` names) and from "
        "variables; a variable wins over the file. An empty variable counts as absent. An unknown "
        "key in the file is refused by name. Lists are arrays in the file and comma-separated in "
        "a variable. `relay-gateway config show` prints what is in force.\n"
    )
    yield "| variable | key in `relay.toml` | default | meaning |\n|---|---|---|---|"
    for variable, name in environment_names().items():
        field = Settings.model_fields[name]
        computed = name == "database_url"
        shown = "in the data directory" if computed else _default(field.default)
        yield f"| `{variable}` | `{name}` | {shown} | {field.description} |"
    yield "\n## Tables\n\nOnly in `relay.toml`.\n\n| key | default | meaning |\n|---|---|---|"
    for table in ("plugins", "usage_logging", "guarding", "spool"):
        model = Settings.model_fields[table].annotation
        assert isinstance(model, type)  # noqa: S101 - for the type checker
        assert issubclass(model, BaseModel)  # noqa: S101
        for key, field in model.model_fields.items():
            yield f"| `[{table}] {key}` | {_default(field.default)} | {field.description} |"
    for key, field in LoginUser.model_fields.items():
        yield f"| `[[users]] {key}` | required | {field.description} |"
    for table in PLUGIN_SECTIONS:
        yield f"| `[{table}.NAME]` | | {Settings.model_fields[table].description} |"


def _default(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`"
    return f"`{value}`"


def plugin_sections_page() -> Iterator[str]:
    """The configuration of the plugins of this repository, and of hosts that use them."""
    registry = _own_plugins()
    yield "# Sections of the plugins\n"
    yield NOTICE
    yield (
        "What the plugins of this repository read from their own tables of `relay.toml`. Each "
        "table may also have `required = true`: the gateway then refuses to start while the plugin "
        "cannot be opened.\n"
    )
    for table in PLUGIN_SECTIONS:
        for name, registered in sorted(getattr(registry, table).items()):
            yield f"## `[{table}.{name}]`\n"
            yield from _fields(registered.Config)
            if host_config := getattr(registered, "HostConfig", None):
                yield f"`adapterConfig` of a host whose `adapter` is `{name}`:\n"
                yield from _fields(host_config)


def _fields(model: type[BaseModel]) -> Iterator[str]:
    if not model.model_fields:
        yield "Nothing to configure.\n"
        return
    if "__doc__" in vars(model) and model.__doc__:
        yield _text(model.__doc__) + "\n"
    yield "| key | default | meaning |\n|---|---|---|"
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else _default(field.get_default())
        meaning = _text(field.description or "").replace("\n", " ")
        yield f"| `{field.alias or name}` | {default} | {meaning} |"
    yield ""


def plugin_api_page() -> Iterator[str]:
    """Hooks and the public names of relay_gateway.plugin, from their docstrings."""
    yield "# Plugin API\n"
    yield NOTICE
    yield "## Hooks\n"
    yield _text(hookspecs.__doc__) + "\n"
    for name, hook in _hooks().items():
        yield f"### `{name}{_signature(hook)}`\n\n{_text(hook.__doc__)}\n"
    yield "## Names of `relay_gateway.plugin`\n"
    for name in plugin.__all__:
        thing = getattr(plugin, name)
        if inspect.isclass(thing):
            yield from _class(name, thing)
        elif inspect.isfunction(thing):
            yield f"### `{name}{_signature(thing)}`\n\n{_text(thing.__doc__)}\n"


def _hooks() -> dict[str, Callable[[], object]]:
    return {
        name: hook for name, hook in vars(hookspecs).items() if name.startswith("relay_register_")
    }


def _class(name: str, documented: type) -> Iterator[str]:
    yield f"### `{name}`\n\n{_text(documented.__doc__)}\n"
    yield from _attributes(documented)
    for member, value in vars(documented).items():
        function = inspect.unwrap(value) if inspect.isfunction(value) else None
        if function is None or member.startswith("_") or not function.__doc__:
            continue
        prefix = "async " if inspect.iscoroutinefunction(function) else ""
        yield f"* `{prefix}{member}{_signature(function)}`\n"
        yield _indented(_text(function.__doc__)) + "\n"


def _attributes(documented: type) -> Iterator[str]:
    """Attributes with a text of their own, which stands below them in the source."""
    (body,) = ast.parse(inspect.getsource(documented)).body
    assert isinstance(body, ast.ClassDef)  # noqa: S101 - for the type checker
    for before, after in itertools.pairwise(body.body):
        text = after.value if isinstance(after, ast.Expr) else None
        if isinstance(before, ast.AnnAssign) and isinstance(text, ast.Constant):
            yield f"* `{ast.unparse(before)}`\n"
            yield _indented(_text(str(text.value))) + "\n"


def _signature(function: Callable[..., object]) -> str:
    # Annotations are kept as text, which would be shown in quotes.
    return str(inspect.signature(function)).replace("'", "")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def exceptions_page() -> Iterator[str]:
    """The exception tree."""
    yield "# Exceptions\n"
    yield NOTICE
    yield _text(errors.__doc__)


def command_line_page() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield "# Command line\n"
    yield NOTICE
    yield (
        "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. Data goes to standard "
        "output, messages to standard error.\n"
    )
    command = cast("Any", typer.main.get_command(command_line))
    yield from _command("relay-gateway", command)


def _command(path: str, command: Any) -> Iterator[str]:
    yield f"## `{path}`\n\n{_text(command.help or '')}\n"
    for parameter in command.params:
        if parameter.name == "help":
            continue
        names = ", ".join(f"`{name}`" for name in parameter.opts)
        if parameter.param_type_name == "argument":
            names = f"`{(parameter.name or '').upper()}`"
        default = parameter.default
        shown = "" if default in (None, False) or callable(default) else f" Default: `{default}`."
        yield f"* {names}: {_text(getattr(parameter, 'help', None) or '')}{shown}"
    yield ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(f"{path} {name}", inner)


def endpoints_page() -> Iterator[str]:
    """What each plane answers."""
    plugins = _configured(_own_plugins())
    yield "# Endpoints\n"
    yield NOTICE
    yield (
        "## Inference plane\n\nAuthenticated by a relay key, in `X-Relay-API-Key`, `Authorization: "
        "Bearer`, `x-api-key` or `x-goog-api-key`. Every path is also there below the `pathPrefix` "
        "of a host. `GET /v1/models` and `GET /v1/models/{id}` list what the key may use, in the "
        "words of the API that the caller's headers belong to; "
        f"{_own_listings(plugins)}"
        "`GET /healthz` and `GET /readyz` are public.\n\n"
        "| endpoint | wire format | body | streams |\n|---|---|---|---|"
    )
    for wire_format in plugins.wire_formats.values():
        for endpoint in wire_format.endpoints:
            streams = "yes" if endpoint.streams else "no"
            body = {"json": "JSON", "form": "form", "either": "JSON or form"}[endpoint.body]
            name = wire_format.name
            yield f"| `{endpoint.method} {endpoint.path}` | `{name}` | {body} | {streams} |"
    yield (
        "\n## Control plane\n\nAuthenticated by `Authorization: Bearer ADMIN_TOKEN` or the "
        "cookie of a session, except `/version`, `/auth/login`, `/healthz` and `/readyz`, and "
        "`/metrics` where the settings make it public. `GET "
        "/openapi.json` has the bodies.\n\n"
        "| endpoint | what it does |\n|---|---|"
    )
    for route in create_control_app(_services(plugins)).routes:
        if isinstance(route, APIRoute):
            methods = ", ".join(sorted(route.methods or ()))
            yield f"| `{methods} {route.path}` | {route.summary} |"


def _own_listings(plugins: Plugins) -> str:
    """Where dialects list models besides the common place."""
    paths = sorted(dialect.models_path for dialect in plugins.dialects.values())
    return "".join(
        f"`GET {path}` and `GET {path}/{{id}}` do so in theirs; " for path in paths if path
    )


def control_api() -> Iterator[str]:
    """The operations of the control plane, from the OpenAPI document."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # run as a script, only this directory is there
    from docs.control_api import control_api_page

    yield "# Control plane API\n"
    yield NOTICE
    routes = create_control_app(_services(_configured(_own_plugins()))).routes
    (route,) = (route for route in routes if getattr(route, "path", "") == "/openapi.json")
    assert isinstance(route, APIRoute)  # noqa: S101 - for the type checker
    answer: Response = asyncio.run(cast("Any", route.endpoint()))
    yield from control_api_page(json.loads(bytes(answer.body)))


def metrics_page() -> Iterator[str]:
    """Every metric of ``GET /metrics``."""
    yield "# Metrics\n"
    yield NOTICE
    yield (
        "`GET /metrics` of the control plane, in the text format of Prometheus; see [Watch it with "
        "Prometheus](../how-to/watch-with-prometheus.md).\n\n"
        "Labels are slugs of the catalog and words of the program, never text of callers: a model "
        f"or host that is in no catalog is `{OTHER}`, and `{NONE}` is what a request did not get "
        "to. A slug is that of the moment when it was first seen. A process tells "
        f"{MAX_COMBINATIONS} combinations of endpoint, model, host and outcome apart and counts "
        f"further ones as `{OTHER}`.\n\n"
        "With several workers, one scrape has the metrics of all processes: series without the "
        "label `process` are sums.\n\n"
        "| metric | type | labels | meaning |\n|---|---|---|---|"
    )
    for family in FAMILIES.values():
        labels = ", ".join(f"`{label}`" for label in family.exposed_labels)
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"
    yield "\n## Buckets\n\nUpper bounds in seconds.\n\n| histogram | buckets |\n|---|---|"
    for family in FAMILIES.values():
        if family.bounds_ms:
            bounds = ", ".join(f"{bound / 1000:g}" for bound in family.bounds_ms)
            yield f"| `{family.name}` | {bounds} |"


def translation() -> Iterator[str]:
    """What becomes of each field between wire formats."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # run as a script, only this directory is there
    from docs.translation import translation_page

    yield "# Translation\n"
    yield NOTICE
    yield from translation_page(_configured(_own_plugins()).wire_formats.values())


def hosts() -> Iterator[str]:
    """The hosts that a new catalog begins with."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # run as a script, only this directory is there
    from docs.hosts import hosts_page

    yield "# Seeded hosts\n"
    yield NOTICE
    yield from hosts_page(_own_plugins().seeds)


def conformance() -> Iterator[str]:
    """The test kit for plugins."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # run as a script, only this directory is there
    from docs.conformance import conformance_page

    yield "# Conformance suites\n"
    yield NOTICE
    yield from conformance_page(_text)


def plugin_routes() -> Iterator[str]:
    """Which plugins a request goes through."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # run as a script, only this directory is there
    from docs.plugin_routes import plugin_routes_page

    yield "# Plugins by route\n"
    yield NOTICE
    yield from plugin_routes_page(_configured(_own_plugins()).endpoints)


def known_plugins() -> Iterator[str]:
    """All plugins there are."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # run as a script, only this directory is there
    from docs.known_plugins import known_plugins_page

    yield "# Known plugins\n"
    yield NOTICE
    yield from known_plugins_page(ROOT.glob("plugins/*/pyproject.toml"))


def _own_plugins() -> Registry:
    paths = ROOT.glob("plugins/*/pyproject.toml")
    names = [tomllib.loads(path.read_text("utf-8"))["project"]["name"] for path in paths]
    return Registry.discover(enabled=names)


def _configured(registry: Registry) -> Plugins:
    settings = Settings()
    return registry.configure(
        NEEDED, lambda name: PluginContext(name, settings.data_dir, settings.database_url)
    )


def _services(plugins: Plugins) -> ControlServices:
    """Services for an application whose routes are listed and never called."""
    never = cast("Any", None)
    return ControlServices(
        store=never,
        sessions=never,
        settings=never,
        audit=never,
        relay_key_uses=never,
        login_failures=never,
        master_keys=never,
        spending=never,
        instances=never,
        secret_backends=plugins.secret_backends,
        providers=plugins.providers,
        usage_reader=None,
        plugins=never,
        refresh=never,
        reload=never,
        readiness=never,
        host_key_statuses=never,
        reset_host_key=never,
        host_statuses=never,
        reset_host=never,
        admin_token=None,
        version="",
        metrics=never,
        live=never,
        endpoints=(),
        explainer=never,
        prober=never,
    )


def _text(docstring: str | None) -> str:
    """A docstring as Markdown."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r":[a-z]+:`[~.]*([^`]+)`", r"`\1`", text).replace("``", "`")
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "command-line.md": command_line_page,
    "conformance.md": conformance,
    "control-api.md": control_api,
    "endpoints.md": endpoints_page,
    "exceptions.md": exceptions_page,
    "hosts.md": hosts,
    "known-plugins.md": known_plugins,
    "metrics.md": metrics_page,
    "plugin-api.md": plugin_api_page,
    "plugin-routes.md": plugin_routes,
    "plugin-sections.md": plugin_sections_page,
    "settings.md": settings_page,
    "translation.md": translation,
}


def render() -> dict[Path, str]:
    """Every generated page: where it lies, and what it has to say."""
    return {REFERENCE / name: "\n".join(page()).rstrip() + "\n" for name, page in PAGES.items()}


def main(arguments: list[str]) -> int:
    """Writes the pages, or with ``--check`` names those that are out of date; the exit code."""
    stale = []
    for path, text in render().items():
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        stale.append(path)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
    for path in stale:
        print(path.relative_to(ROOT))
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
