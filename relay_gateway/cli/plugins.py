"""``relay-gateway plugins``: what is installed, whether it keeps its promises, what it costs; and
the beginning of a new one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from relay_gateway.cli.invocation import prepared_of, settings_of

if TYPE_CHECKING:
    from rich.table import Table

    from relay_gateway.cli.installed_plugins import InstalledPlugin
    from relay_gateway.cli.plugin_bench import Figure
    from relay_gateway.cli.plugin_check import Finding
    from relay_gateway.cli.plugin_trace import Step
    from relay_gateway.plugin import UsageRecord
    from relay_gateway.settings import Settings

app = typer.Typer(help="See, check, measure and write plugins.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name of a plugin, or of its distribution.")]


@app.callback()
def plugins() -> None:
    """See, check, measure and write plugins."""


@app.command("list")
def list_plugins(
    context: typer.Context,
    *,
    as_json: Json = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show modules, configuration and tracebacks too."),
    ] = False,
    sbom: Annotated[
        bool, typer.Option("--sbom", help="Print a bill of materials, as CycloneDX JSON.")
    ] = False,
) -> None:
    """List every installed plugin with its state; a broken one with the reason and what to do.

    Nothing is opened and no section is checked: `doctor` and `config check` do that. The exit code
    is 0 also when plugins are quarantined. Credentials in the configuration are masked.
    """
    from relay_gateway.cli.installed_plugins import installed_plugins
    from relay_gateway.cli.output import say_json

    found = installed_plugins(settings_of(context))
    if sbom:
        from relay_gateway.cli.sbom import sbom as bill

        say_json(bill([one.distribution for one in found if one.distribution is not None]))
    elif as_json:
        say_json([_as_json(one, verbose=verbose) for one in found])
    else:
        _print(found, verbose=verbose)


@app.command("new")
def new(
    kind: Annotated[
        str,
        typer.Argument(
            help="secret-backend, provider, usage-sink, payload-logger, state-store or guard."
        ),
    ],
    name: Annotated[str, typer.Argument(help="What configuration will call it, such as acme.")],
    directory: Annotated[
        Path, typer.Option("--into", help="Where the directory of the distribution goes.")
    ] = Path(),
) -> None:
    """Write a complete, working distribution of a new plugin, to be changed into yours.

    It has a module, a configuration model, tests that subclass the conformance suite, a README and
    a file for continuous integration. Nothing is overwritten.
    """
    from relay_gateway.cli.output import say
    from relay_gateway.cli.scaffolding import scaffold

    root = scaffold(kind, name, directory)
    say(f"wrote {root}; next:")
    for line in (f"cd {root}", 'pip install -e ".[test]"', "pytest"):
        say(f"  {line}")
    say(f"  relay-gateway plugins check {name}")


@app.command("check")
def check(
    context: typer.Context,
    name: Name,
    *,
    suites: Annotated[
        list[Path] | None,
        typer.Option("--suite", help="Run these tests instead of those that it names."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check an installed plugin: its distribution, its configuration, its conformance suite.

    The suite is what the distribution names under the entry-point group
    `relay_gateway.conformance`; it runs in a process of its own and needs the extra `testing`.
    The exit code is 0 when everything passed, and 1 when something did not or was not tested.
    """
    from relay_gateway.cli.installed_plugins import find_plugins
    from relay_gateway.cli.output import say_json
    from relay_gateway.cli.plugin_check import check as look

    found = find_plugins(settings_of(context), name)
    ran: set[str] = set()
    reports = []
    for plugin in found:
        # One distribution has one suite, however many plugins it brings.
        again = plugin.info.distribution in ran
        ran.add(plugin.info.distribution)
        reports.append((plugin, look(plugin, suites or (), with_suites=not again)))
    if as_json:
        say_json([_report(plugin, findings) for plugin, findings in reports])
    else:
        for plugin, findings in reports:
            _say_report(plugin, findings)
    if any(one.outcome != "passed" for _, findings in reports for one in findings):
        raise typer.Exit(1)


@app.command("bench")
def bench(
    context: typer.Context,
    name: Name,
    *,
    seconds: Annotated[
        float, typer.Option(min=0.01, max=60, help="For how long each call is measured.")
    ] = 0.5,
    section: Annotated[
        Path | None,
        typer.Option(help="TOML file with the keys of its section; relay.toml is never used."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="What a secret backend is to resolve, as JSON.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure what a plugin adds per request or per batch, in microseconds.

    The calls of the public API are made in a loop, one after the other, on made-up requests and
    records. Storing plugins are opened on a temporary directory, with the section of `--section`:
    what that names (a bucket, a server) is really written to.
    """
    import asyncio

    from relay_gateway.cli.installed_plugins import find_plugins
    from relay_gateway.cli.output import say_json, say_table
    from relay_gateway.cli.plugin_bench import bench as measure

    keys, wanted = _toml(section), _json_object(reference)
    figures: list[tuple[str, Figure]] = []
    for plugin in find_plugins(settings_of(context), name):
        if plugin.item is not None:
            measured = asyncio.run(measure(plugin, seconds, keys, wanted))
            figures += [(plugin.info.name, one) for one in measured]
    if as_json:
        say_json([{"plugin": of, **asdict(one)} for of, one in figures])
        return
    columns = ("plugin", "call", "per", "median µs", "p99 µs", "calls")
    rows = [
        (of, one.what, one.per, round(one.median_us, 1), round(one.p99_us, 1), one.calls)
        for of, one in figures
    ]
    say_table(columns, rows)


@app.command("explain")
def explain(
    context: typer.Context,
    request_id: Annotated[str, typer.Argument(help="Id of a request, from an answer's header.")],
    *,
    as_json: Json = False,
) -> None:
    """Show which plugins a request went through, in order, with the times that were recorded.

    It is told from the usage record and from the catalog as it is now. What has no time of its own
    is part of the gateway's own time.
    """
    import asyncio

    from relay_gateway.cli.output import say, say_json, say_table

    settings = prepared_of(context).settings
    record, steps = asyncio.run(_traced(settings, request_id))
    if as_json:
        told: dict[str, Any] = {"requestId": record.request_id, "outcome": record.outcome}
        told |= {"durationMs": record.duration_ms, "overheadMs": record.overhead_ms}
        say_json(told | {"steps": [asdict(step) for step in steps]})
        return
    rows = [
        (number, step.kind, step.plugin, step.did, _milliseconds(step.milliseconds))
        for number, step in enumerate(steps, start=1)
    ]
    say_table(("", "kind", "plugin", "what it did", "ms"), rows)
    own = _milliseconds(record.overhead_ms) or "unknown"
    say(f"{record.outcome}, {record.duration_ms:.1f} ms in all; the gateway's own time: {own} ms")


async def _traced(settings: Settings, request_id: str) -> tuple[UsageRecord, list[Step]]:
    from relay_gateway.cli.plugin_trace import Trace
    from relay_gateway.errors import ConfigurationError
    from relay_gateway.registry import Registry
    from relay_gateway.server.usage_access import open_usage

    async with open_usage(settings) as desk:
        record = await desk.reader.get(request_id)
        if record is None:
            raise ConfigurationError(
                f"the usage sink {desk.sink!r} has no record of the request {request_id!r}; "
                "records arrive a moment after the answer, and leave with its retention"
            )
        registry = Registry.discover(enabled=settings.plugins.enabled)
        specs = {row.id: row.spec for row in desk.catalog}
        names = {row.id: row.slug for row in desk.catalog}
        return record, list(Trace(registry, specs, names).steps(record, desk.sink))


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _toml(path: Path | None) -> dict[str, Any]:
    import tomllib

    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} cannot be read as TOML: {error}") from error


def _json_object(text: str | None) -> dict[str, Any] | None:
    import json

    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--reference is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("--reference must be a JSON object")
    return value


def _as_json(plugin: InstalledPlugin, *, verbose: bool) -> dict[str, object]:
    line = asdict(plugin.info)
    if not verbose:
        del line["traceback"]
    return line | {"origin": plugin.origin, "config": plugin.config, "fix": plugin.fix}


def _print(found: Sequence[InstalledPlugin], *, verbose: bool) -> None:
    from rich.console import Console

    from relay_gateway.cli.output import say

    if not found:
        say("no plugin is installed")
        return
    Console(soft_wrap=False).print(_table(found))
    for plugin in found:
        for line in _details(plugin, verbose=verbose):
            say(line)


def _details(plugin: InstalledPlugin, *, verbose: bool) -> list[str]:
    """What has no room in the table: the error with its fix; if ``verbose``, everything."""
    import json

    from relay_gateway.log import escape

    info, lines = plugin.info, []
    if verbose:
        lines.append(f"    from {plugin.origin}")
        if plugin.config is not None:
            lines.append(f"    configured {json.dumps(plugin.config, default=str)}")
    if info.error is not None:
        lines.append(f"    {info.error}")
    if plugin.fix is not None:
        lines.append(f"    what to do: {plugin.fix}")
    if verbose and info.traceback is not None:
        lines += [f"    {line}" for line in info.traceback.splitlines()]
    if lines:
        lines[:0] = ["", f"{info.name} ({info.distribution}):"]
    return [escape(line) for line in lines]


def _table(found: Sequence[InstalledPlugin]) -> Table:
    """Without errors: a sentence in a sixth column would leave none of them room on 80 columns."""
    from rich.table import Table
    from rich.text import Text

    from relay_gateway.log import escape

    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for heading in ("name", "kind", "distribution", "version", "state"):
        # On a narrow terminal the kinds, which are two words, are what is wrapped.
        table.add_column(heading, no_wrap=heading != "kind", overflow="fold")
    for plugin in found:
        info = plugin.info
        row = (info.name, info.kind, info.distribution, info.version, info.state)
        table.add_row(*(Text(escape(cell)) for cell in row))
    return table


def _report(plugin: InstalledPlugin, findings: Sequence[Finding]) -> dict[str, object]:
    info = plugin.info
    return {
        "plugin": info.name,
        "kind": info.kind,
        "distribution": info.distribution,
        "version": info.version,
        "passed": all(one.outcome == "passed" for one in findings),
        "findings": [asdict(one) for one in findings],
    }


def _say_report(plugin: InstalledPlugin, findings: Sequence[Finding]) -> None:
    """Failures in words, everything else as numbers."""
    from relay_gateway.cli.output import say
    from relay_gateway.log import escape

    info = plugin.info
    say(escape(f"{info.kind} {info.name} ({info.distribution} {info.version})"))
    for subject in dict.fromkeys(one.subject for one in findings):
        own = [one for one in findings if one.subject == subject]
        counts = {word: sum(one.outcome == word for one in own) for word in _WORDS}
        told = ", ".join(f"{count} {_WORDS[word]}" for word, count in counts.items() if count)
        say(escape(f"  {subject}: {told}"))
        for one in own:
            if one.outcome != "passed":
                say(escape(f"    {_WORDS[one.outcome]}: {one.claim}"))
                say(escape(f"      {one.reason}"))


_WORDS = {"passed": "kept", "failed": "BROKEN", "skipped": "not tested"}
