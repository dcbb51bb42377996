"""What holds for every route, asked of every route that the document has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from relay_gateway.catalog.kinds import PLURALS
from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.control.declared_access import check_declared_access
from relay_gateway.control.guard import PUBLIC_PATHS

from .documented import COOKIE, Op, example

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "control-api.md"


def faults(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    rooted = {**schema, "components": document["components"]}
    return [error.message for error in Draft202012Validator(rooted).iter_errors(value)]


def contents(document: dict[str, Any], op: Op) -> Iterator[dict[str, Any]]:
    """Every JSON body that an operation takes or gives."""
    holders = [op.raw.get("requestBody", {}), *op.raw["responses"].values()]
    for holder in holders:
        if "$ref" in holder:
            name = holder["$ref"].rsplit("/", 1)[1]
            resolved = document["components"]["responses"][name]
        else:
            resolved = holder
        if "application/json" in resolved.get("content", {}):
            yield resolved["content"]["application/json"]


async def test_every_operation_is_told_in_words_and_by_valid_examples(
    document: dict[str, Any], ops: list[Op]
) -> None:
    assert len({op.id for op in ops}) == len(ops) > 80
    for op in ops:
        assert op.raw["summary"], op.path
        assert len(op.raw["description"]) > 8, op.path
        assert op.raw["tags"], op.path
        assert (
            not op.takes_body or "example" in op.raw["requestBody"]["content"]["application/json"]
        )
        bodies = list(contents(document, op))
        assert bodies
        for body in bodies:
            assert faults(document, body["schema"], body["example"]) == [], (op.id, body["example"])


async def test_routes_document_and_page_name_the_same_operations(
    services: ControlServices, ops: list[Op]
) -> None:
    routes = create_control_app(services).routes
    running = {
        (method.lower(), route.path)
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert len(routes) == len(running)
    assert {(op.method, op.path) for op in ops} == running
    page = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^ `]*)`", PAGE.read_text("utf-8")))
    assert {(method.lower(), path) for method, path in page} == running


async def test_links_of_what_is_made_lead_to_all_that_takes_its_id(ops: list[Op]) -> None:
    by_id = {op.id: op for op in ops}
    makers = [op for op in ops if "201" in op.raw["responses"]]
    assert len(makers) == len(PLURALS)
    for maker in makers:
        links = maker.raw["responses"]["201"]["links"]
        below = {op.id for op in ops if op.path.startswith(f"{maker.path}/")}
        assert set(links) == below
        for name, link in links.items():
            (parameter,) = link["parameters"]
            assert f"{{{parameter}}}" in by_id[name].path


async def public_route() -> None:
    """A route of a test."""


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (None, "does not say who may call it"),
        ({"tags": ["x"]}, "does not say who may call it"),
        ({"security": []}, "declared public"),
    ],
)
def test_t56_a_route_without_declared_access_cannot_be_registered(
    extra: dict[str, Any] | None, message: str
) -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route("/x", public_route, openapi_extra=extra)
    with pytest.raises(RuntimeError, match=f"/x .*{message}"):
        check_declared_access(app, PUBLIC_PATHS)


def test_t56_a_public_route_that_is_declared_closed_is_refused_too() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route("/version", public_route, openapi_extra={"security": [{"adminBearer": []}]})
    with pytest.raises(RuntimeError, match="/version is declared closed"):
        check_declared_access(app, PUBLIC_PATHS)


async def test_t45_no_route_but_login_and_logout_sets_a_cookie(
    ops: list[Op], admin: httpx.AsyncClient
) -> None:
    setting = set()
    for op in ops:
        body = {"json": example(op)} if op.takes_body else {}
        answer = await admin.request(op.method, op.url(), headers=COOKIE, **body)
        if "set-cookie" in answer.headers:
            setting.add(op.id)
    assert setting == {"logOut"}
