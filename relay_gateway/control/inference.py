"""``/inference``: where the inference plane listens, and a request to it from a browser.

A page of the dashboard may talk to nobody but the control plane; what it tries out goes through
here, to the gateway's own inference plane and to nowhere else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import FastAPI, Request
from pydantic import Field, SecretStr
from starlette.responses import JSONResponse, Response, StreamingResponse

from relay_gateway.control.bodies import read_object, validate
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices
from relay_gateway.errors import FieldProblem, InvalidEntityError
from relay_gateway.plugin import CatalogModel
from relay_gateway.secret import Secret

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 120.0


class InferenceAddress(CatalogModel):
    """Where callers on this machine reach the inference plane, and the prefix of its headers."""

    url: str
    header_prefix: str


class Trial(CatalogModel):
    """A request of the inference plane: who asks, which endpoint, and its body."""

    relay_key: Annotated[
        SecretStr,
        Field(min_length=1, max_length=256, json_schema_extra={"pattern": "^[!-~]+$"}),
    ]
    path: Annotated[
        str, Field(max_length=512, pattern=r"^/v1(?:beta)?(?:/[A-Za-z0-9_~:-][A-Za-z0-9._~:-]*)+$")
    ] = "/v1/chat/completions"
    body: dict[str, Any]


class InferenceRoutes:
    """The routes that are about the other plane."""

    def __init__(self, services: ControlServices, docs: Documentation) -> None:
        self._services = services
        self._docs = docs

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        app.add_api_route(
            "/inference",
            self._address,
            methods=["GET"],
            response_model=InferenceAddress,
            tags=["operations"],
            **self._docs.describe(
                Operation(
                    "getInferenceAddress",
                    "Where the inference plane listens",
                    description="As this machine sees it; a proxy in front has an address of its "
                    "own.",
                )
            ),
        )
        app.add_api_route(
            "/inference/try",
            self._try,
            methods=["POST"],
            tags=["operations"],
            **self._docs.describe(
                Operation(
                    "tryInference",
                    "Send one request to the inference plane",
                    (413, 415, 422, 503),
                    description="The answer is that of the inference plane, status and stream "
                    "included. The relay key is used for this and kept nowhere.",
                    no_dry_run="nothing that is stored is changed",
                ),
                body=Trial,
            ),
        )

    async def _address(self) -> Response:
        body = InferenceAddress(
            url=self._services.inference_url, header_prefix=self._services.access.header_prefix
        )
        return JSONResponse(body.model_dump(mode="json", by_alias=True))

    async def _try(self, request: Request) -> Response:
        trial, problems = validate(Trial, await read_object(request))
        if trial is None:
            raise InvalidEntityError(problems)
        key = _header_value(trial.relay_key)
        # Here, because a gateway that nobody tries out from a browser need not load it.
        import httpx

        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        client = httpx.AsyncClient(timeout=timeout, trust_env=False)
        asked = client.build_request(
            "POST",
            self._services.inference_url + trial.path,
            content=msgspec.json.encode(trial.body),
            headers={
                "authorization": f"Bearer {key.reveal()}",
                "content-type": "application/json",
            },
        )
        try:
            answer = await client.send(asked, stream=True)
        except httpx.HTTPError as error:
            await client.aclose()
            raise RefusedError(
                503,
                "inference_unreachable",
                f"the inference plane does not answer at {self._services.inference_url}: "
                f"{type(error).__name__}",
                headers={"Retry-After": "1"},
            ) from None
        return _passed_on(client, answer, self._services.access.header_prefix)


def _header_value(given: SecretStr) -> Secret:
    """A relay key that can be sent. Raises :class:`InvalidEntityError`."""
    text = given.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        message = "must be printable ASCII without spaces"
        raise InvalidEntityError([FieldProblem("relayKey", "pattern", message)])
    return Secret(text)


def _passed_on(client: httpx.AsyncClient, answer: httpx.Response, prefix: str) -> Response:
    name = f"{prefix}Request-Id"
    headers = {
        # Its own, beside that of the control plane.
        f"{prefix}Inference-Request-Id": answer.headers.get(name, ""),
        "Content-Type": answer.headers.get("content-type", "application/octet-stream"),
    }
    return StreamingResponse(_pieces(client, answer), answer.status_code, headers)


async def _pieces(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_bytes():
            yield piece
    finally:
        await answer.aclose()
        await client.aclose()
