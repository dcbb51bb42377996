"""Sections of the settings: read, changed field by field, remembered, and refused when idle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.sections import SECTIONS, read_runtime_settings
from relay_gateway.control import ControlServices
from relay_gateway.storage import AuditLog, CatalogStore
from relay_gateway.storage.audit import AuditQuery
from relay_gateway.testing.databases import migrated

DEFAULTS: dict[str, dict[str, Any]] = {
    "proxy-mode": {"enabled": False, "allowUnauthenticated": False},
    "payload-logging": {
        "enabled": False,
        "loggers": [],
        "maxBytes": 1048576,
        "redact": [],
        "headers": [],
    },
    "usage-logging": {"sinks": ["database"]},
    "routing": {"maxAttempts": 3, "retryBudgetRatio": 0.2},
    "inference": {
        "exposeUpstreamErrors": True,
        "injectStreamUsage": True,
        "streamPingSeconds": 15.0,
    },
}


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with migrated(database_url) as engine:
        yield engine


@pytest.fixture(autouse=True)
def sinks(services: ControlServices) -> None:
    services.usage_sinks = ("database",)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def test_every_section_has_its_defaults(admin: httpx.AsyncClient) -> None:
    assert (await admin.get("/settings")).json() == DEFAULTS
    assert DEFAULTS.keys() == SECTIONS.keys()
    for name, section in DEFAULTS.items():
        answer = await admin.get(f"/settings/{name}")
        assert (answer.json(), answer.headers["etag"]) == (section, '"0"')
    assert error_of(await admin.get("/settings/nothing")) == (404, "unknown_endpoint")


async def test_proxy_mode_is_turned_on_with_the_admin_bearer(
    admin: httpx.AsyncClient, store: CatalogStore
) -> None:
    answer = await admin.put("/settings/proxy-mode", json={"enabled": True})
    assert answer.status_code == 200
    assert answer.json() == {"enabled": True, "allowUnauthenticated": False}
    assert read_runtime_settings((await store.load()).settings).proxy_mode.enabled


async def test_a_put_changes_only_its_fields_and_counts_as_a_write(
    admin: httpx.AsyncClient, store: CatalogStore, surroundings: Any
) -> None:
    before = await store.revision()
    await admin.put("/settings/inference", json={"exposeUpstreamErrors": False})
    answer = await admin.put("/settings/inference", json={"injectStreamUsage": False})
    assert answer.json() == {
        "exposeUpstreamErrors": False,
        "injectStreamUsage": False,
        "streamPingSeconds": 15.0,
    }
    assert answer.headers["etag"] == '"2"'
    assert await store.revision() == before + 2
    assert surroundings.refreshes == 2
    found = read_runtime_settings((await store.load()).settings)
    assert not found.inference.expose_upstream_errors
    assert not found.inference.inject_stream_usage
    assert found.routing.max_attempts == 3


async def test_a_section_that_was_read_can_be_put_back(admin: httpx.AsyncClient) -> None:
    for name, section in DEFAULTS.items():
        answer = await admin.put(f"/settings/{name}", json=section)
        assert (answer.status_code, answer.json()) == (200, section), answer.text


@pytest.mark.parametrize(
    ("section", "body", "field"),
    [
        ("routing", {"maxAttempts": 0}, "maxAttempts"),
        ("routing", {"maxAttempts": 21}, "maxAttempts"),
        ("routing", {"maxAttempts": "3"}, "maxAttempts"),
        ("routing", {"maxAttempts": None}, "maxAttempts"),
        ("inference", {"exposeUpstreamErrors": 1}, "exposeUpstreamErrors"),
        ("inference", {"other": True}, "other"),
        ("proxy-mode", {"enabled": "yes"}, "enabled"),
        ("payload-logging", {"maxBytes": 16_777_217}, "maxBytes"),
        ("payload-logging", {"redact": ["/fine", "(not"]}, "redact[1]"),
        ("payload-logging", {"redact": ["a*"]}, "redact[0]"),
        ("payload-logging", {"headers": ["accept", "Cookie"]}, "headers[1]"),
    ],
)
async def test_bad_fields_are_named_and_nothing_is_changed(
    admin: httpx.AsyncClient, problem_fields: Any, section: str, body: Any, field: str
) -> None:
    answer = await admin.put(f"/settings/{section}", json=body)
    assert set(problem_fields(answer)) == {field}
    assert (await admin.get(f"/settings/{section}")).headers["etag"] == '"0"'


async def test_t58_a_version_that_is_not_the_current_one_is_412(
    admin: httpx.AsyncClient,
) -> None:
    first = await admin.put(
        "/settings/routing", json={"maxAttempts": 2}, headers={"If-Match": '"0"'}
    )
    assert first.status_code == 200
    second = await admin.put(
        "/settings/routing", json={"maxAttempts": 9}, headers={"If-Match": '"0"'}
    )
    assert error_of(second) == (412, "version_conflict")
    assert (await admin.get("/settings/routing")).json()["maxAttempts"] == 2


async def test_every_state_is_remembered_with_who_made_it(
    admin: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    for attempts in (2, 5):
        await admin.put("/settings/routing", json={"maxAttempts": attempts})
    newest, oldest = (await admin.get("/settings/routing/history")).json()["items"]
    assert [newest["version"], oldest["version"]] == [2, 1]
    assert [newest["value"], oldest["value"]] == [{"maxAttempts": 5}, {"maxAttempts": 2}]
    assert newest["changedBy"] == "admin"
    assert newest["changedAt"] > oldest["changedAt"]
    record = (await AuditLog(engine).page(AuditQuery(limit=1)))[0]
    assert (record.kind, record.target, record.revision) == ("settings", "routing", 2)
    assert (record.before, record.after) == ({"maxAttempts": 2}, {"maxAttempts": 5})


async def test_what_a_newer_version_stored_does_not_keep_this_one_from_serving(
    admin: httpx.AsyncClient, store: CatalogStore
) -> None:
    stored: dict[str, dict[str, Any]] = {
        "routing": {"maxAttempts": -1, "unheardOf": 1},
        "inference": {"x": {}},
    }
    found = read_runtime_settings(stored)
    assert found.routing.max_attempts == 3
    assert found == read_runtime_settings({})


async def test_t59_a_change_that_cannot_be_recorded_is_not_made(
    admin: httpx.AsyncClient, engine: AsyncEngine, store: CatalogStore
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit_records RENAME TO gone"))
    answer = await admin.put("/settings/routing", json={"maxAttempts": 9})
    assert error_of(answer) == (503, "storage_unavailable")
    assert (await store.load()).settings == {}
    assert await store.revision() == 0
    assert (await admin.get("/settings/routing")).status_code == 200
