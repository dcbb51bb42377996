"""Scaffolds: a complete plugin distribution from the templates in ``scaffold``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

import msgspec

from relay_gateway import __version__
from relay_gateway.errors import ConfigurationError

SUFFIX = ".tmpl"
EVERY = "every"
"""Directory of the templates that each kind of plugin gets."""
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Kind(msgspec.Struct, frozen=True):
    """A kind of plugin as it is scaffolded: how people, distributions and ``relay.toml`` call
    it, and what its section may look like."""

    words: str
    prefix: str
    table: str
    section: str


KINDS = {
    "secret-backend": Kind(
        "secret backend", "secret", "secret_backends", 'directory = "/run/secrets"'
    ),
    "provider": Kind("upstream provider", "provider", "upstream_providers", "# nothing to set"),
    "usage-sink": Kind("usage sink", "log", "usage_sinks", 'file = "usage.sqlite3"'),
    "payload-logger": Kind(
        "payload logger", "payloads", "payload_loggers", 'file = "payloads.sqlite3"'
    ),
    "state-store": Kind("state store", "state", "state_stores", "sweep_every = 1000"),
    "guard": Kind("guard", "guard", "guards", 'words = ["confidential"]'),
}


def core_range(version: str = __version__) -> str:
    """The versions of the gateway that a plugin written today may ask for."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return f">={major}.{minor},<{major + 1}"


def scaffold(kind: str, name: str, directory: Path) -> Path:
    """Writes the distribution of a new plugin below ``directory``; gives its root.

    Raises :class:`ConfigurationError` for an unknown kind, for a name that plugins cannot have,
    and where something of that name lies already: nothing is overwritten.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"{kind!r} is no kind of plugin; there are: {', '.join(KINDS)}")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a plugin; write lower-case letters and digits that "
            "begin with a letter, in words joined by '-', such as acme or acme-cloud"
        )
    values = _values(KINDS[kind], name)
    root = directory / values["distribution"]
    if root.exists():
        raise ConfigurationError(
            f"{root} exists and is not overwritten; choose another name or directory"
        )
    for place, text in _files(kind, values):
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def _values(kind: Kind, name: str) -> dict[str, str]:
    distribution = f"relay-gateway-{kind.prefix}-{name}"
    return {
        "name": name,
        "Name": "".join(word.capitalize() for word in name.split("-")),
        "kind": kind.words,
        "table": kind.table,
        "section": kind.section,
        "distribution": distribution,
        "package": distribution.replace("-", "_"),
        "core": core_range(),
    }


def _files(kind: str, values: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Path and text of each file, templates of every kind first."""
    templates = files("relay_gateway.cli") / "scaffold"
    for part in (EVERY, kind):
        for place, template in _walk(templates / part):
            text = Template(template.read_text("utf-8")).substitute(values)
            yield place.replace("src/package/", f"src/{values['package']}/"), text


def _walk(directory: Traversable, place: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(directory.iterdir(), key=lambda one: one.name):
        # Files whose names begin with a dot are often left out of packages.
        name = entry.name.replace("dot-", ".", 1) if entry.name.startswith("dot-") else entry.name
        if entry.is_dir():
            yield from _walk(entry, f"{place}{name}/")
        elif name.endswith(SUFFIX):
            yield place + name.removesuffix(SUFFIX), entry
