"""Every error that the document names, reached on every route that names it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from relay_gateway.control import ControlServices
from relay_gateway.control.bodies import MAX_BODY_BYTES
from relay_gateway.control.guard import PROBES
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.ids import new_id
from relay_gateway.storage import SessionStore

from .documented import ADMIN, COOKIE, SAFE, Op, client_of, example, one_of_each

JSON = {"Content-Type": "application/json"}
ELSEWHERE = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
AT_HOME = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
PROVEN_ELSEWHERE = {
    # A defect: test_guard.
    *(("*", status) for status in (500,)),
    # Throttling, a catalog that is not loaded, keys of the ring: each has tests of its own.
    ("logIn", 401),
    ("logIn", 403),
    ("logIn", 429),
    ("logIn", 503),
    ("getReadiness", 503),
    # A relay.toml that is not valid: the tests of reloading.
    ("reloadPlugins", 422),
    ("testHost", 429),
    ("rotateMasterKey", 409),
    # A file owns it: the tests of apply.
    ("deleteRelayKey", 409),
    ("rotateHostKey", 409),
    ("rotateRelayKey", 409),
    ("revokeRelayKey", 409),
    ("resolveModel", 404),
}
"""Documented errors that other tests reach, each with its own surroundings."""


class BrokenSessions(SessionStore):
    """Sessions whose database cannot be asked."""

    def __init__(self) -> None:
        pass

    async def find(self, token_hash: str) -> Any:
        raise StorageUnavailableError("the database cannot be asked right now")


@pytest.fixture
async def closed(services: ControlServices) -> AsyncIterator[httpx.AsyncClient]:
    """A client without credentials."""
    async with client_of(services) as client:
        yield client


def refused(answer: httpx.Response, op: Op, status: int, code: str) -> tuple[str, int]:
    """The error that was reached; it must be this one, and be documented."""
    assert answer.status_code == status, (op.method, op.path, answer.text)
    assert answer.json()["error"]["code"] == code, (op.method, op.path, answer.text)
    assert status in op.errors, (op.method, op.path, status)
    return op.id, status


async def test_every_documented_error_can_be_reached(
    services: ControlServices, ops: list[Op], closed: httpx.AsyncClient, catalog: Any
) -> None:
    closed.headers.pop("Authorization", None)
    reached = {
        *await at_the_door(services, ops, closed),
        *await of_parameters_and_bodies(ops, closed),
        *await of_places(ops, closed),
        *await of_conflicts(ops, closed, catalog),
        *await of_what_is_not_there(services, ops),
    }
    documented = {(op.id, status) for op in ops for status in op.errors}
    missing = {
        (name, status)
        for name, status in documented - reached - PROVEN_ELSEWHERE
        if ("*", status) not in PROVEN_ELSEWHERE
    }
    assert missing == set()
    assert reached <= documented


async def at_the_door(
    services: ControlServices, ops: list[Op], client: httpx.AsyncClient
) -> set[tuple[str, int]]:
    """Who is not known, comes from another site, or cannot be looked up."""
    reached = set()
    services.access = replace(services.access, allowed_hosts=("127.0.0.1",))
    sessions, services.sessions = services.sessions, BrokenSessions()
    async with (
        client_of(services, Host="elsewhere.example") as stranger,
        client_of(services, **COOKIE) as unsure,
    ):
        for op in ops:
            if op.path not in PROBES:
                answer = await stranger.request(op.method, op.url())
                reached.add(refused(answer, op, 421, "unknown_host"))
            if op.public:
                continue
            answer = await client.request(op.method, op.url())
            reached.add(refused(answer, op, 401, "unauthenticated"))
            answer = await unsure.request(op.method, op.url(), headers=AT_HOME)
            reached.add(refused(answer, op, 503, "storage_unavailable"))
            if op.method not in SAFE:
                answer = await unsure.request(op.method, op.url(), headers=ELSEWHERE)
                reached.add(refused(answer, op, 403, "cross_site_request"))
    services.sessions = sessions
    return reached


async def of_parameters_and_bodies(
    ops: list[Op], client: httpx.AsyncClient
) -> set[tuple[str, int]]:
    """A parameter that nobody knows, and bodies that are none, of every operation."""
    reached = set()
    for op in ops:
        answer = await client.request(op.method, op.url(), params={"nonsense": 1}, headers=ADMIN)
        reached.add(refused(answer, op, 400, "unknown_parameter"))
        assert "nonsense" in answer.text
        if not op.takes_body:
            continue
        for content, headers, status, code in (
            (b"{}", {}, 415, "unsupported_media_type"),
            (b"{", JSON, 400, "invalid_json"),
            (b" " * (MAX_BODY_BYTES + 1), JSON, 413, "request_too_large"),
            (b'{"nonsense": 1}', JSON, 422, "invalid_entity"),
        ):
            known = {**ADMIN, **headers}
            answer = await client.request(op.method, op.url(), content=content, headers=known)
            if status == 422 and answer.status_code == 404:
                continue  # what is replaced is looked for first; of_conflicts has one
            reached.add(refused(answer, op, status, code))
    return reached


async def of_places(ops: list[Op], client: httpx.AsyncClient) -> set[tuple[str, int]]:
    """Ids and names that nothing has."""
    reached = set()
    for op in ops:
        if "{" not in op.path:
            continue
        for ref in (new_id(), "no-such-thing"):
            body = {"json": example(op)} if op.takes_body else {}
            answer = await client.request(op.method, op.url(ref), headers=ADMIN, **body)
            reached.add(refused(answer, op, 404, "not_found"))
    return reached


async def of_conflicts(
    ops: list[Op], client: httpx.AsyncClient, catalog: Any
) -> set[tuple[str, int]]:
    """Stale versions, taken slugs, entities that others need."""
    client.headers.update(ADMIN)
    entities = await one_of_each(catalog)
    reached = set()
    for op in ops:
        kind = op.path.split("/")[1]
        if "If-Match" in op.parameters:
            body = {"json": example(op)} if op.takes_body else {}
            stale = {"If-Match": "99"}
            url = op.url(entities.get(kind, {}).get("metadata", {}).get("id"))
            if kind == "settings":
                body = {"json": {}}
            answer = await client.request(op.method, url, headers=stale, **body)
            reached.add(refused(answer, op, 412, "version_conflict"))
    for plural, entity in entities.items():
        reached |= await of_one_kind(client, ops, plural, entity)
    return reached


async def of_one_kind(
    client: httpx.AsyncClient, ops: list[Op], plural: str, entity: dict[str, Any]
) -> set[tuple[str, int]]:
    reached = set()
    metadata, spec = entity["metadata"], dict(entity["spec"])
    fresh = {"displayName": "again", "slug": metadata["slug"]}
    for name in ("prefix", "revokedAt", "lastUsedAt"):
        spec.pop(name, None)
    for op in (op for op in ops if op.path.split("/")[1] == plural):
        url = op.url(metadata["id"])
        if op.id.startswith("create"):
            answer = await client.post(url, json={"metadata": fresh, "spec": spec})
            reached.add(refused(answer, op, 409, "slug_taken"))
        elif op.id.startswith("replace"):
            other = {"metadata": {"displayName": "x", "slug": "other"}, "spec": spec}
            made = await client.post(f"/{plural}", json=other)
            assert made.status_code == 201, made.text
            made_entity = made.json().get("relayKey", made.json())
            taken = {"metadata": fresh, "spec": spec}
            answer = await client.put(op.url(made_entity["metadata"]["id"]), json=taken)
            reached.add(refused(answer, op, 409, "slug_taken"))
            answer = await client.put(url, json={"nonsense": 1})
            reached.add(refused(answer, op, 422, "invalid_entity"))
        elif op.id.startswith("delete") and plural != "relay-keys":
            answer = await client.delete(url)
            reached.add(refused(answer, op, 409, "still_referenced"))
        elif op.id.startswith("rotate"):
            answer = await client.post(url, json={"nonsense": 1})
            reached.add(refused(answer, op, 422, "invalid_entity"))
        elif op.id == "testHost":
            answer = await client.post(url)
            reached.add(refused(answer, op, 409, "host_not_in_use"))
    return reached


async def of_what_is_not_there(services: ControlServices, ops: list[Op]) -> set[tuple[str, int]]:
    """Usage that cannot be read."""
    services.usage_reader = None
    reached = set()
    async with client_of(services, **ADMIN) as client:
        for op in ops:
            if 501 not in op.errors:
                continue
            answer = await client.get(op.url())
            reached.add(refused(answer, op, 501, "usage_not_readable"))
    return reached
