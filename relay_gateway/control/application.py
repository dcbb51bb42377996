"""The application: what routes are said to answer is prepared when its document is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

OLD_MODELS = "pydantic.v1"


class ControlApplication(FastAPI):
    """An application of routes that make their answers themselves.

    The models of answers are then of use to the OpenAPI document only, and FastAPI would make a
    validator for each of them: time at every start and memory for as long as the process.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._described: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As in FastAPI; ``response_model`` and ``responses`` are kept for the document."""
        self._described.append((path, endpoint, options))
        served = {**options, "response_model": None, "responses": None}
        with _without_old_models():
            super().add_api_route(path, endpoint, **served)

    def described_routes(self) -> Sequence[BaseRoute]:
        """The routes with everything that was said about them, made for this call."""
        router = APIRouter()
        for path, endpoint, options in self._described:
            router.add_api_route(path, endpoint, **options)
        return router.routes


@contextmanager
def _without_old_models() -> Iterator[None]:
    """Has no parameter taken for a model of Pydantic 1. FastAPI would load all of that library to
    find out, and takes its absence for an answer."""
    if OLD_MODELS in sys.modules:
        yield
        return
    modules = cast("dict[str, Any]", sys.modules)
    modules[OLD_MODELS] = None
    try:
        yield
    finally:
        del modules[OLD_MODELS]
