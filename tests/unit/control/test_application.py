"""Routes of the control plane: what they answer is prepared for the document only."""

from __future__ import annotations

from fastapi.routing import APIRoute
from pydantic import BaseModel

from relay_gateway.control.application import ControlApplication


class Answer(BaseModel):
    text: str


async def nothing() -> None:
    """A route of a test."""


def application() -> ControlApplication:
    app = ControlApplication(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route(
        "/x",
        nothing,
        methods=["GET"],
        response_model=Answer,
        responses={404: {"model": Answer}},
        openapi_extra={"security": []},
    )
    return app


def test_a_route_that_serves_has_no_validators_of_answers() -> None:
    (route,) = application().routes
    assert isinstance(route, APIRoute)
    assert (route.response_field, route.response_fields) == (None, {})
    assert route.openapi_extra == {"security": []}


def test_a_route_that_is_described_has_its_answers() -> None:
    (route,) = application().described_routes()
    assert isinstance(route, APIRoute)
    assert route.path == "/x"
    assert route.response_model is Answer
    assert set(route.response_fields) == {404}
