"""Configuration: each plugin's own section of ``relay.toml`` becomes its own validated model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError

from relay_gateway.errors import PluginConfigError
from relay_gateway.plugin import Plugin, PluginConfig
from relay_gateway.registry.availability import explain_absence
from relay_gateway.registry.collect import Collection
from relay_gateway.registry.discovery import Registered
from relay_gateway.registry.inventory import PluginState, Record
from relay_gateway.registry.kinds import CONFIGURABLE, PluginKind
from relay_gateway.registry.masking import secrets_in
from relay_gateway.registry.vetting import REQUIRED_KEY

Section = Mapping[str, Any]
Sections = Mapping[str, Mapping[str, Section]]
"""Table of sections (``secret_backends``) → name of plugin → its keys and values."""


class Blueprint(msgspec.Struct, frozen=True):
    """What one plugin instance is made from.

    ``required`` refuses the start when the plugin does not open; ``written`` says that
    ``relay.toml`` has a section for it.
    """

    plugin: type[Plugin[Any]]
    config: PluginConfig
    record: Record
    required: bool
    written: bool


Blueprints = Mapping[tuple[PluginKind, str], Blueprint]


class _Reading(msgspec.Struct):
    """One pass over all sections, which remembers every problem: a start shows all of them."""

    blueprints: dict[tuple[PluginKind, str], Blueprint] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)

    def section(self, kind: PluginKind, registered: Registered, written: Section | None) -> None:
        """Reads one plugin's section; ``None`` where ``relay.toml`` has none."""
        plugin: Any = registered.item
        values = dict(written or {})
        required = values.pop(REQUIRED_KEY, False)
        record = registered.record
        record.hide(secrets_in(plugin.Config, values))
        config, problems = _validate(plugin.Config, values)
        if not isinstance(required, bool):
            problems.append(f"{REQUIRED_KEY}: must be true or false")
        if config is not None and not problems:
            key = (kind, registered.name)
            self.blueprints[key] = Blueprint(
                plugin, config, record, required is True, written is not None
            )
            return
        listed = "; ".join(record.wording(problem) for problem in problems)
        where = f"[{kind.plural}.{registered.name}] {listed}"
        if written is None:
            # Installed is not used: a plugin that cannot do without a section waits for one.
            record.enter(PluginState.REGISTERED, f"not configured: relay.toml needs {where}")
        else:
            self.problems.append(f"relay.toml: {where}")


def read_sections(
    collection: Collection, records: Sequence[Record], sections: Sections
) -> Blueprints:
    """Validates every section and gives what to make instances from.

    Raises :class:`PluginConfigError` with one line for each section that does not validate, each
    naming every offending key, and for each that belongs to no installed plugin.
    """
    reading = _Reading()
    reading.problems += _homeless(collection, records, sections)
    for kind in CONFIGURABLE:
        written = sections.get(kind.plural, {})
        for name, registered in collection.plugins[kind].items():
            reading.section(kind, registered, written.get(name))
    if reading.problems:
        raise PluginConfigError("\n".join(reading.problems))
    return reading.blueprints


def _homeless(
    collection: Collection, records: Sequence[Record], sections: Sections
) -> Iterator[str]:
    kinds = {kind.plural: kind for kind in CONFIGURABLE}
    for table, named in sections.items():
        if table not in kinds:
            yield f"relay.toml: [{table}] is for no kind of plugin; there are {', '.join(kinds)}"
            continue
        for name in named:
            if name not in collection.plugins[kinds[table]]:
                reason = explain_absence(kinds[table], name, records)
                yield f"relay.toml: [{table}.{name}] {reason}"


def _validate(model: type[PluginConfig], values: Section) -> tuple[PluginConfig | None, list[str]]:
    # Nothing is raised from the errors caught here: they quote what they refuse.
    try:
        return model.model_validate(values), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return None, [_wording(detail["loc"], detail["type"], detail["msg"]) for detail in details]
    except Exception as error:  # noqa: BLE001 - a plugin's validator may raise anything
        return None, [f"the plugin's own check failed with {type(error).__name__}: {error}"]


def _wording(location: tuple[int | str, ...], code: str, message: str) -> str:
    where = ".".join(str(part) for part in location) or "the section"
    if code == "extra_forbidden":
        return f"{where}: unknown key"
    text = message.removeprefix("Value error, ")
    return f"{where}: {text[:1].lower()}{text[1:]}"
