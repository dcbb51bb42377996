"""No route is served that does not say who may call it, or says other than the guard does."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import FastAPI
from fastapi.routing import APIRoute


def check_declared_access(app: FastAPI, public: Collection[str]) -> None:
    """Raises :class:`RuntimeError` naming a route of ``app`` without declared access, one that is
    declared public and is not among the ``public`` paths, or the reverse."""
    for route in app.routes:
        path = getattr(route, "path", str(route))
        extra = route.openapi_extra if isinstance(route, APIRoute) else None
        if not extra or "security" not in extra:
            raise RuntimeError(
                f"the route {path} does not say who may call it; "
                "describe it with `Documentation.describe`"
            )
        if (extra["security"] == []) != (path in public):
            raise RuntimeError(
                f"the route {path} is declared {'closed' if path in public else 'public'}, and "
                "the guard treats it otherwise"
            )
