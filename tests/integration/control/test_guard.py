from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.control.bodies import MAX_BODY_BYTES
from relay_gateway.control.guard import PUBLIC_PATHS, SECURITY_HEADERS
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.ids import new_id
from relay_gateway.storage import CatalogStore

ADMIN_TOKEN = "admin-token-3f9c"


class BrokenStore(CatalogStore):
    """A store whose every call raises the given error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattribute__(self, name: str) -> Any:
        raise object.__getattribute__(self, "_error")


def client_of(services: ControlServices) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_control_app(services))
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def test_t56_every_documented_operation_but_the_public_ones_needs_authentication(
    anonymous: httpx.AsyncClient, services: ControlServices
) -> None:
    async with client_of(services) as admin:
        document = (await admin.get("/openapi.json")).json()
    refused = 0
    for path, item in document["paths"].items():
        url = path.replace("{id}", new_id()).replace("{ref}", "x").replace("{request_id}", "x")
        for method in item:
            answer = await anonymous.request(method.upper(), url)
            if path == "/auth/login":
                assert error_of(answer) == (415, "unsupported_media_type")
            elif path in PUBLIC_PATHS:
                assert answer.status_code == 200
            else:
                assert error_of(answer) == (401, "unauthenticated"), (method, path)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                refused += 1
    assert refused > 60


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/docs", "/redoc", "/version/", "/healthz/x", "/uix", "/UI/main.js"],
)
async def test_what_does_not_exist_cannot_be_told_from_what_does(
    anonymous: httpx.AsyncClient, path: str
) -> None:
    assert error_of(await anonymous.get(path)) == (401, "unauthenticated")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {ADMIN_TOKEN}",
        ADMIN_TOKEN,
        f"Bearer {ADMIN_TOKEN}x",
        f"Bearer {ADMIN_TOKEN[:-1]}",
    ],
)
async def test_t74_a_wrong_credential_is_an_error_and_never_nobody(
    anonymous: httpx.AsyncClient, header: str
) -> None:
    answer = await anonymous.get("/providers", headers={"Authorization": header})
    assert error_of(answer) == (401, "unauthenticated")
    assert ADMIN_TOKEN not in answer.text


async def test_without_a_configured_token_nobody_gets_in_and_the_answer_says_why(
    services: ControlServices,
) -> None:
    services.admin_token = None
    async with client_of(services) as client:
        answer = await client.get("/providers")
    assert error_of(answer) == (401, "unauthenticated")
    assert "RELAY_ADMIN_TOKEN" in answer.text


async def test_every_answer_carries_the_security_headers(
    anonymous: httpx.AsyncClient, services: ControlServices
) -> None:
    async with client_of(services) as admin:
        answers = [
            await anonymous.get("/version"),
            await anonymous.get("/nothing"),
            await admin.get("/nothing"),
            await admin.get("/providers"),
            await admin.patch("/providers"),
        ]
    for answer in answers:
        assert (
            SECURITY_HEADERS.items()
            <= {name: answer.headers.get(name) for name in SECURITY_HEADERS}.items()
        )


async def test_unknown_paths_and_methods_are_told_apart(admin: httpx.AsyncClient) -> None:
    assert error_of(await admin.get("/nothing")) == (404, "unknown_endpoint")
    assert error_of(await admin.get("/providers/")) == (404, "unknown_endpoint")
    answer = await admin.patch(f"/providers/by-id/{new_id()}")
    assert error_of(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, PUT"
    assert "DELETE, PUT" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b'{"a": NaN}',
        b'{"a": 1e999, "b": Infinity}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"metadata": {"displayName": "a\\u0000b"}, "spec": {}}',
        b'{"a\\u0000": 1}',
        b"[" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    admin: httpx.AsyncClient, content: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await admin.post("/providers", content=content, headers=headers)
    assert error_of(answer) == (400, "invalid_json")


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_another_media_type_is_refused(
    admin: httpx.AsyncClient, media_type: str | None
) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    answer = await admin.post("/providers", content=b"{}", headers=headers)
    assert error_of(answer) == (415, "unsupported_media_type")


async def test_a_media_type_with_parameters_is_accepted(admin: httpx.AsyncClient) -> None:
    sent = json.dumps({"metadata": {"displayName": "x"}, "spec": {}})
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await admin.post("/providers", content=sent, headers=headers)).status_code == 201


async def test_a_body_above_the_limit_is_refused_before_it_is_all_read(
    admin: httpx.AsyncClient,
) -> None:
    chunk = b" " * 65536
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 10 * MAX_BODY_BYTES:
            sent += len(chunk)
            yield chunk

    headers = {"Content-Type": "application/json"}
    answer = await admin.post("/providers", content=endless(), headers=headers)
    assert error_of(answer) == (413, "request_too_large")
    assert sent <= MAX_BODY_BYTES + 2 * len(chunk)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.get("/providers"),
        lambda client: client.get("/providers/x"),
        lambda client: client.post(
            "/providers", json={"metadata": {"displayName": "x"}, "spec": {}}
        ),
        lambda client: client.delete(f"/providers/by-id/{new_id()}"),
    ],
)
async def test_f03_a_database_that_is_down_is_503_with_retry_after_and_never_401(
    services: ControlServices, call: Callable[[httpx.AsyncClient], Any]
) -> None:
    services.store = BrokenStore(StorageUnavailableError("the database cannot be asked right now"))
    async with client_of(services) as client:
        answer = await call(client)
    assert error_of(answer) == (503, "storage_unavailable")
    assert answer.headers["retry-after"] == "2"


async def test_t11_a_defect_is_a_500_that_says_nothing_and_a_log_that_does(
    services: ControlServices, caplog: pytest.LogCaptureFixture
) -> None:
    services.store = BrokenStore(ZeroDivisionError("inner detail"))
    async with client_of(services) as client:
        answer = await client.get("/providers")
        assert error_of(answer) == (500, "internal_error")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "inner detail" not in answer.text
    assert "inner detail" in caplog.text


async def test_websockets_are_closed_unanswered(services: ControlServices) -> None:
    app = create_control_app(services)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/version", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
