"""What ``plugins check`` finds out about an installed plugin, without a configuration of it."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any, Literal

import msgspec

from relay_gateway import __version__
from relay_gateway.cli.installed_plugins import InstalledPlugin
from relay_gateway.errors import ConfigurationError
from relay_gateway.registry import PluginState

CONFORMANCE_GROUP = "relay_gateway.conformance"
"""Entry points of a plugin's distribution that name modules with its conformance tests."""
PUBLIC = ("relay_gateway.plugin", "relay_gateway.errors")
SUITE_SECONDS = 600.0
_PYTEST_INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
Outcome = Literal["passed", "failed", "skipped"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. ``subject`` groups findings, ``reason`` says what is wrong and
    what to do, empty for what passed."""

    subject: str
    claim: str
    outcome: Outcome
    reason: str = ""


def check(
    plugin: InstalledPlugin, suites: Sequence[Path] = (), *, with_suites: bool = True
) -> list[Finding]:
    """Everything that can be said about the plugin; ``suites`` are test files or directories in
    place of the modules that its distribution names.

    ``with_suites`` is false where they ran already, for another plugin of the distribution. Raises
    :class:`ConfigurationError` where the extra ``testing`` is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in ("packaging", "pytest")):
        raise ConfigurationError(
            "plugins check runs tests, and what they need is not installed; install "
            "relay-gateway[testing]"
        )
    findings = [*_distribution(plugin), *_configuration(plugin)]
    return findings + (list(_suites(plugin, suites)) if with_suites else [])


def _judged(subject: str, claim: str, problem: str) -> Finding:
    return Finding(subject, claim, "failed" if problem else "passed", problem)


def _distribution(plugin: InstalledPlugin) -> Iterator[Finding]:
    subject, info = "distribution", plugin.info
    usable = info.state not in (PluginState.QUARANTINED, PluginState.DISCOVERED)
    problem = "" if usable else f"it is {info.state}: {info.error}"
    yield _judged(subject, "it is imported and registered", problem)
    if plugin.distribution is None or plugin.entry_point is None:
        yield Finding(
            subject, "its metadata can be read", "failed", "it cannot: install the plugin anew"
        )
        return
    yield _judged(subject, "it says which gateways it works with", _core(plugin.distribution))
    foreign = sorted(_foreign_imports(plugin.distribution, plugin.entry_point))
    yield _judged(
        subject,
        "it imports nothing of the gateway but relay_gateway.plugin and relay_gateway.errors",
        "" if not foreign else f"these may change without notice: {', '.join(foreign)}",
    )


def _core(distribution: Distribution) -> str:
    from packaging.requirements import Requirement

    wanted = [Requirement(line) for line in distribution.requires or ()]
    core = [one for one in wanted if one.name == "relay-gateway" and not one.marker]
    if not core:
        return "add relay-gateway to the dependencies, with a range such as >=0.1,<1"
    specifier = core[0].specifier
    if not specifier.contains(__version__, prereleases=True):
        return f"it asks for relay-gateway{specifier}, this is {__version__}"
    if not any(each.operator in ("<", "<=", "==", "~=") for each in specifier):
        return f"relay-gateway{specifier} has no upper bound: add the next major version, <1"
    return ""


def _foreign_imports(distribution: Distribution, point: EntryPoint) -> Iterator[str]:
    """Modules of the gateway that are not public and that the plugin's package imports; the suite
    is another matter, for nothing at run time imports it."""
    tests = {each.module for each in distribution.entry_points.select(group=CONFORMANCE_GROUP)}
    for name, path in _modules(point.module):
        if name in tests:
            continue
        for module in _imports(ast.parse(path.read_text("utf-8"))):
            gateway = module.partition(".")[0] == "relay_gateway"
            if gateway and not any(f"{module}.".startswith(f"{one}.") for one in PUBLIC):
                yield f"{module} (in {name})"


def _modules(root: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(root)
    if spec is None or spec.origin is None:
        return
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        yield root, origin
        return
    for path in sorted(origin.parent.rglob("*.py")):
        parts = path.relative_to(origin.parent).with_suffix("").parts
        yield ".".join((root, *(part for part in parts if part != "__init__"))), path


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _configuration(plugin: InstalledPlugin) -> Iterator[Finding]:
    for attribute in ("Config", "HostConfig", "Ref"):
        model: Any = getattr(plugin.item, attribute, None)
        if model is None:
            continue
        fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
        bare = [name for name, field in fields.items() if not field.description]
        yield _judged(
            "configuration",
            f"every field of {attribute} says what it means",
            "" if not bare else f"give {', '.join(bare)} a description: Field(description=…)",
        )
        yield _judged("configuration", f"{attribute} has a JSON schema", _schema_problem(model))


def _schema_problem(model: Any) -> str:
    try:
        model.model_json_schema()
    except Exception as error:  # noqa: BLE001 - a plugin's own types may raise anything
        return f"forms and documentation cannot show it: {error}"
    return ""


def _suites(plugin: InstalledPlugin, given: Sequence[Path]) -> Iterator[Finding]:
    targets = [str(path.absolute()) for path in given] or list(_named(plugin.distribution))
    if not targets:
        yield Finding(
            "conformance",
            "it names its conformance suite",
            "skipped",
            f"name a module with its test classes under the entry-point group {CONFORMANCE_GROUP}, "
            "or pass --suite with the path of its tests",
        )
        return
    yield from _run(targets)


def _named(distribution: Distribution | None) -> Iterator[str]:
    points = distribution.entry_points if distribution is not None else None
    for point in points.select(group=CONFORMANCE_GROUP) if points is not None else ():
        spec = importlib.util.find_spec(point.module)
        if spec is not None and spec.origin is not None:
            yield spec.origin
        else:
            raise ConfigurationError(
                f"the conformance suite {point.module} is not there; install the plugin anew"
            )


def _run(targets: Sequence[str]) -> Iterator[Finding]:
    """Runs the tests in a process of its own, so that nothing of them stays here."""
    with tempfile.TemporaryDirectory(prefix="relay-check-") as name:
        directory = Path(name)
        ini, report = directory / "pytest.ini", directory / "report.jsonl"
        ini.write_text(_PYTEST_INI, "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-c", str(ini)]
        command += ["-p", "relay_gateway.testing.check_report", "-p", "no:cacheprovider"]
        command += ["--import-mode=importlib", f"--rootdir={directory}", *targets]
        environ = {**os.environ, "RELAY_CHECK_REPORT": str(report)}
        output, code = _await(command, environ, directory)
        lines = report.read_text("utf-8").splitlines() if report.is_file() else []
        findings = [_finding(json.loads(line)) for line in lines]
    yield from findings
    if not findings or (code and all(one.outcome != "failed" for one in findings)):
        yield Finding("conformance", "the suite ran", "failed", " ".join(output[-1000:].split()))


def _await(command: Sequence[str], environ: dict[str, str], directory: Path) -> tuple[str, int]:
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that runs this, and an installed suite
            command,
            env=environ,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SUITE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {SUITE_SECONDS:g} s", 1
    return done.stdout, done.returncode


def _finding(line: dict[str, str]) -> Finding:
    """``a/b.py::TestAcme::test_it_works[one]`` as a claim in words."""
    _, *path = line["test"].split("::")
    subject = path[0].removeprefix("Test") if len(path) > 1 else "conformance"
    name, bracket, case = (path[-1] if path else "the suite can be imported").partition("[")
    claim = name.removeprefix("test_").replace("_", " ")
    outcome: Outcome = "passed"
    if line["outcome"] != "passed":
        outcome = "skipped" if line["outcome"] == "skipped" else "failed"
    reason = "" if outcome == "passed" else line["reason"]
    return Finding(subject, f"{claim} ({case[:-1]})" if bracket else claim, outcome, reason)
