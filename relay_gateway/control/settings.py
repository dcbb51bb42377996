"""``/settings``: sections that are changed while the gateway runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from pydantic import create_model
from starlette.responses import JSONResponse, Response

from relay_gateway.catalog.sections import SECTIONS, Section, read_section
from relay_gateway.control.bodies import read_object, validate
from relay_gateway.control.crud import DRY_RUN_TEXT, DryRun, IfMatch, parse_version
from relay_gateway.control.effect import take_effect
from relay_gateway.control.entities import DRY_RUN_HEADER
from relay_gateway.control.naming import class_name
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.control.writes import Terms
from relay_gateway.errors import FieldProblem, InvalidEntityError
from relay_gateway.plugin import CatalogModel
from relay_gateway.storage.settings import SectionVersion

READING = "Every field with the value that is in force."
CHANGING = (
    "Changes the fields that are in the body and leaves the others as they are. In force on every "
    f"instance within a second. {DRY_RUN_TEXT}"
)
_SINKS = {"usage-logging": "sinks", "payload-logging": "loggers"}
"""Sections that say where records go, and the field that names it."""
HISTORY = "The newest 100 states, newest first: the fields that were set, by whom and when."


class SectionState(CatalogModel):
    """A section as it was from one change to the next. ``value`` has the fields that were set."""

    version: int
    value: dict[str, Any]
    changed_at: str
    changed_by: str
    revision: int


class SectionHistory(CatalogModel):
    """The states of a section, newest first."""

    items: list[SectionState]


class SettingsRoutes:
    """Reads all sections, and reads, changes and tells the history of each."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._store = services.settings
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        app.add_api_route(
            "/settings",
            self._all,
            methods=["GET"],
            response_model=_all_sections_model(),
            tags=["settings"],
            **self._docs.describe(
                Operation(
                    "getSettings",
                    "Read every section of the settings",
                    description="Every field with the value that is in force.",
                )
            ),
        )
        for name, model in SECTIONS.items():
            self._add_section(app, name, model)

    def _add_section(self, app: FastAPI, name: str, model: type[Section]) -> None:
        path, title = f"/settings/{name}", class_name(name)

        async def read() -> Response:
            return self._answer(await self._current(name))

        async def change(
            request: Request, if_match: IfMatch = None, *, dry_run: DryRun = False
        ) -> Response:
            data = await read_object(request)
            terms = Terms(dry_run=dry_run, expected=parse_version(if_match))
            return self._answer(await self._change(name, data, terms), dry_run=dry_run)

        async def history() -> Response:
            items = [_state(version) for version in await self._store.history(name)]
            return JSONResponse(_json(SectionHistory(items=items)))

        changing = (412, 413, 415, 422)
        for method, place, endpoint, answer, operation, body in (
            ("GET", path, read, model,
             Operation(f"get{title}", f"Read the section {name}", description=READING), None),
            ("PUT", path, change, model,
             Operation(f"put{title}", f"Change fields of the section {name}", changing,
                       description=CHANGING), model),
            ("GET", f"{path}/history", history, SectionHistory,
             Operation(f"list{title}Changes", f"How the section {name} was changed",
                       description=HISTORY), None),
        ):  # fmt: skip
            app.add_api_route(
                place,
                endpoint,
                methods=[method],
                response_model=answer,
                tags=["settings"],
                **self._docs.describe(
                    operation, body=body, versioned=None if answer is SectionHistory else 200
                ),
            )

    async def _all(self) -> Response:
        stored = await self._store.all()
        shown = {
            name: _json(self._section(stored.get(name, SectionVersion(section=name))))
            for name in SECTIONS
        }
        return JSONResponse(shown)

    async def _current(self, name: str) -> SectionVersion:
        return (await self._store.all()).get(name, SectionVersion(section=name))

    async def _change(self, name: str, data: Mapping[str, Any], terms: Terms) -> SectionVersion:
        model = SECTIONS[name]
        given, problems = validate(model, data)
        if given is None:
            raise InvalidEntityError(problems)
        await self._refuse_sinks(name, _json(given), data)

        def merge(stored: Mapping[str, Any]) -> dict[str, Any]:
            return {**stored, **data}

        changed = await self._store.change(
            name, merge, expected_version=terms.expected, dry_run=terms.dry_run
        )
        if not terms.dry_run:
            await take_effect(self._services)
        return changed

    async def _refuse_sinks(
        self, section: str, given: Mapping[str, Any], data: Mapping[str, Any]
    ) -> None:
        """Refuses to send records where they cannot go; each new place is tried before."""
        if section not in _SINKS:
            return
        field, services = _SINKS[section], self._services
        usage = section == "usage-logging"
        refusal = services.refusal_of_sink if usage else services.refusal_of_logger
        in_force = _json(self._section(await self._current(section)))[field]
        problems = [
            FieldProblem(f"{field}[{index}]", "sink_unavailable", reason)
            for index, name in enumerate(given[field] if field in data else ())
            if name not in in_force and (reason := await refusal(name)) is not None
        ]
        if problems:
            raise InvalidEntityError(problems)

    def _section(self, version: SectionVersion) -> Section:
        # Until somebody sets it, where records go is told by the configuration.
        configured = {"sinks": list(self._services.usage_sinks)}
        told = version.section == "usage-logging" and "sinks" not in version.value
        stored = configured if told else version.value
        return read_section(version.section, stored)

    def _answer(self, version: SectionVersion, *, dry_run: bool = False) -> Response:
        shown = _json(self._section(version))
        headers = {DRY_RUN_HEADER: "true"} if dry_run else {}
        return JSONResponse(shown, headers={"ETag": f'"{version.version}"', **headers})


def _state(version: SectionVersion) -> SectionState:
    return SectionState(
        version=version.version,
        value=version.value,
        changed_at=version.changed_at or "",
        changed_by=version.changed_by or "",
        revision=version.revision or 0,
    )


def _json(model: CatalogModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


def _all_sections_model() -> Any:
    fields: dict[str, Any] = {name: (model, ...) for name, model in SECTIONS.items()}
    return create_model("AllSettings", __doc__="Every section by its name.", **fields)
