"""``/settings``: sections that are changed while the gateway runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from pydantic import create_model
from starlette.responses import JSONResponse, Response

from relay_gateway.catalog.sections import SECTIONS, Section, read_section
from relay_gateway.control.bodies import read_object, validate
from relay_gateway.control.crud import IfMatch, parse_version
from relay_gateway.control.naming import class_name
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import InvalidEntityError
from relay_gateway.plugin import CatalogModel
from relay_gateway.storage.settings import SectionVersion

logger = logging.getLogger(__name__)


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
            **self._docs.describe(Operation("getSettings", "Read every section of the settings")),
        )
        for name, model in SECTIONS.items():
            self._add_section(app, name, model)

    def _add_section(self, app: FastAPI, name: str, model: type[Section]) -> None:
        path, title = f"/settings/{name}", class_name(name)

        async def read() -> Response:
            return self._answer(await self._current(name))

        async def change(request: Request, if_match: IfMatch = None) -> Response:
            data = await read_object(request)
            return self._answer(await self._change(name, data, parse_version(if_match)))

        async def history() -> Response:
            items = [_state(version) for version in await self._store.history(name)]
            return JSONResponse(_json(SectionHistory(items=items)))

        changing = (400, 412, 413, 415, 422, 501)
        for method, place, endpoint, answer, operation, body in (
            ("GET", path, read, model, Operation(f"get{title}", f"Read the section {name}"), None),
            ("PUT", path, change, model,
             Operation(f"put{title}", f"Change fields of the section {name}", changing), model),
            ("GET", f"{path}/history", history, SectionHistory,
             Operation(f"list{title}Changes", f"How the section {name} was changed"), None),
        ):  # fmt: skip
            app.add_api_route(
                place,
                endpoint,
                methods=[method],
                response_model=answer,
                tags=["settings"],
                **self._docs.describe(operation, body=body),
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

    async def _change(
        self, name: str, data: Mapping[str, Any], expected: int | None
    ) -> SectionVersion:
        model = SECTIONS[name]
        given, problems = validate(model, data)
        if given is None:
            raise InvalidEntityError(problems)
        self._refuse_unavailable(name, _json(given), data)
        fields = {key: value for key, value in data.items() if key not in model.unavailable}

        def merge(stored: Mapping[str, Any]) -> dict[str, Any]:
            return {**stored, **fields}

        changed = await self._store.change(name, merge, expected_version=expected)
        try:
            await self._services.refresh()
        except Exception:
            logger.exception("settings are changed, but the snapshot was not rebuilt")
        return changed

    def _refuse_unavailable(
        self, name: str, given: Mapping[str, Any], data: Mapping[str, Any]
    ) -> None:
        in_force = _json(self._section(SectionVersion(section=name)))
        refused = [
            field
            for field in sorted(SECTIONS[name].unavailable & data.keys())
            if given[field] != in_force[field]
        ]
        if refused:
            raise RefusedError(
                501,
                "not_available_yet",
                f"the section {name} cannot change {', '.join(refused)} yet; nothing was changed",
            )

    def _section(self, version: SectionVersion) -> Section:
        # Where records go is told by the configuration, which is then what is in force.
        configured = {"sinks": list(self._services.usage_sinks)}
        stored = configured if version.section == "usage-logging" else version.value
        return read_section(version.section, stored)

    def _answer(self, version: SectionVersion) -> Response:
        shown = _json(self._section(version))
        return JSONResponse(shown, headers={"ETag": f'"{version.version}"'})


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
