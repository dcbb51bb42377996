"""Query parameters: a misspelt one is an error, not something to be ignored."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from relay_gateway.control.problems import RefusedError


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of every route. Raises :class:`RefusedError` (400) naming the parameter."""
    known = _known(request.scope["route"])
    for name in request.query_params:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise RefusedError(
                400, "unknown_parameter", f"there is no parameter {name!r} here; there are: {there}"
            )


def _known(route: APIRoute) -> set[str]:
    declared = {field.alias for field in route.dependant.query_params}
    documented = (route.openapi_extra or {}).get("parameters", ())
    return declared | {parameter["name"] for parameter in documented}
