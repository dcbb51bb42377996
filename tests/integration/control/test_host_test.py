"""``POST /hosts/by-id/{id}/test``: one real call, on real sockets, and what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.control import ControlServices
from relay_gateway.control.host_test import TESTS_PER_MINUTE
from relay_gateway.http.client import HttpClient
from relay_gateway.ids import new_id
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.probe import HostProber
from relay_gateway.plugin import SystemClock, UpstreamRequest
from relay_gateway.storage.audit import AuditQuery
from relay_gateway.testing.catalog import TableBackend
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.script import Close, Hang, json_response
from relay_gateway.testing.upstream import ScriptedUpstream

from .following import follow_writes

CREDENTIAL = "sk-made-up-credential"


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda _: json_response(200, {"data": []})) as upstream:
        yield upstream


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.fixture
def services(
    services: ControlServices, client: HttpClient, tmp_path: Path, fake_clock: FakeClock
) -> ControlServices:
    """With a snapshot that follows every write and a client that really calls."""
    backend = TableBackend({"k": CREDENTIAL}, tmp_path)
    services.secret_backends = {"table": backend}
    services.clock = fake_clock
    credentials = Credentials(services.secret_backends, SystemClock())
    services.prober = HostProber(services.providers, client, credentials, deadline=0.5)
    follow_writes(services)
    return services


class Hosts:
    """Hosts with or without a key, and tests of them."""

    def __init__(self, catalog: Any, admin: httpx.AsyncClient) -> None:
        self.catalog = catalog
        self.admin = admin

    async def add(self, url: str, entry: str | None = "k", **spec: Any) -> str:
        host = await self.catalog.add("hosts", baseUrl=url, **{"adapter": "plain", **spec})
        host_id = str(host["metadata"]["id"])
        if entry is not None:
            value = {"kind": "table", "entry": entry}
            await self.catalog.add(
                "host-keys", hostId=host_id, policyId=await self.catalog.policy(), valueFrom=value
            )
        return host_id

    async def test(self, host_id: str, **query: str) -> dict[str, Any]:
        answer = await self.admin.post(f"/hosts/by-id/{host_id}/test", params=query)
        assert answer.status_code == 200, answer.text
        assert CREDENTIAL not in answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def hosts(catalog: Any, admin: httpx.AsyncClient) -> Hosts:
    return Hosts(catalog, admin)


async def test_a_host_that_answers_is_asked_once_for_its_models(
    hosts: Hosts, upstream: ScriptedUpstream, services: ControlServices
) -> None:
    host_id = await hosts.add(f"{upstream.url}/v1")
    found = await hosts.test(host_id)
    assert (found["ok"], found["reachable"], found["status"]) == (True, True, 200)
    assert found["latencyMs"] >= 0
    assert found["error"] is None
    assert "takes the credential" in found["message"]
    (request,) = upstream.ledger
    assert (request.method, request.target) == ("GET", "/v1/models")
    assert f"Bearer {CREDENTIAL}".encode() in upstream.received
    audited = await services.audit.page(AuditQuery(equal={"action": "test"}))
    assert [(item.target, item.detail) for item in audited] == [
        (host_id, {"hostKeyId": found["hostKeyId"]})
    ]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, "credential_refused"),
        (403, "credential_refused"),
        (429, "throttled"),
        (500, "upstream_failed"),
        (404, "unexpected_answer"),
        (307, "upstream_redirect"),
    ],
)
async def test_a_refusal_is_classified_and_never_quoted(
    hosts: Hosts, status: int, error: str
) -> None:
    body = {"error": f"bad key {CREDENTIAL}", "quoted": "upstream words"}
    async with ScriptedUpstream(lambda _: json_response(status, body)) as upstream:
        found = await hosts.test(await hosts.add(upstream.url))
    assert (found["ok"], found["reachable"]) == (False, True)
    assert (found["status"], found["error"]) == (status, error)
    assert "upstream words" not in str(found)
    assert found["message"]


async def test_a_host_that_cannot_be_reached_says_what_to_check(hosts: Hosts) -> None:
    async with ScriptedUpstream(lambda _: [Close()]) as upstream:
        url = upstream.url
        closing = await hosts.test(await hosts.add(url))
    assert (closing["reachable"], closing["error"]) == (False, "upstream_closed")
    gone = await hosts.test(await hosts.add(url))
    assert (gone["reachable"], gone["status"]) == (False, None)
    assert gone["error"] == "upstream_unreachable"
    assert "baseUrl" in gone["message"]


@pytest.mark.parametrize("address", ["http://169.254.169.254", "http://[::ffff:169.254.169.254]"])
async def test_t03_forbidden_addresses_are_not_dialled_for_a_test_either(
    hosts: Hosts, address: str
) -> None:
    found = await hosts.test(await hosts.add(address))
    assert (found["reachable"], found["error"]) == (False, "upstream_unreachable")
    assert "never dialled" in found["message"]


async def test_a_host_that_hangs_is_given_up_at_the_deadline(hosts: Hosts) -> None:
    async with ScriptedUpstream(lambda _: [Hang()]) as upstream:
        found = await hosts.test(await hosts.add(upstream.url))
        assert found["error"] == "upstream_timeout"
        assert "within 0.5 s" in found["message"]
        await upstream.wait_for_cancellation()


async def test_a_key_that_cannot_be_resolved_is_the_answer(
    hosts: Hosts, upstream: ScriptedUpstream
) -> None:
    found = await hosts.test(await hosts.add(upstream.url, entry="absent"))
    assert found["error"] == "secret_not_found"
    assert len(upstream.ledger) == 0


async def test_a_host_without_a_key_is_asked_without_a_credential(hosts: Hosts) -> None:
    async with ScriptedUpstream(lambda _: json_response(401, {})) as upstream:
        host_id = await hosts.add(upstream.url, entry=None)
        found = await hosts.test(host_id)
        assert b"authorization" not in upstream.received.lower()
    assert (found["error"], found["hostKeyId"]) == ("credential_needed", None)


async def test_the_key_to_test_with_can_be_named(
    hosts: Hosts, upstream: ScriptedUpstream, catalog: Any
) -> None:
    host_id = await hosts.add(upstream.url, entry="absent")
    value = {"kind": "table", "entry": "k"}
    key = await catalog.add(
        "host-keys", hostId=host_id, policyId=await catalog.policy(), valueFrom=value
    )
    found = await hosts.test(host_id, hostKeyId=key["metadata"]["id"])
    assert (found["ok"], found["hostKeyId"]) == (True, key["metadata"]["id"])
    other = await hosts.admin.post(f"/hosts/by-id/{host_id}/test", params={"hostKeyId": new_id()})
    assert (other.status_code, other.json()["error"]["code"]) == (404, "not_found")


async def test_a_disabled_host_is_not_tested(hosts: Hosts, upstream: ScriptedUpstream) -> None:
    host_id = await hosts.add(upstream.url, entry=None, enabled=False)
    answer = await hosts.admin.post(f"/hosts/by-id/{host_id}/test")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "host_not_in_use")
    assert "is disabled" in answer.text
    for unknown in (new_id(), "acme"):
        answer = await hosts.admin.post(f"/hosts/by-id/{unknown}/test")
        assert answer.status_code == 404


async def test_tests_are_limited_and_a_refused_one_calls_nothing(
    hosts: Hosts, upstream: ScriptedUpstream, fake_clock: FakeClock
) -> None:
    host_id = await hosts.add(upstream.url)
    for _ in range(TESTS_PER_MINUTE):
        await hosts.test(host_id)
    refused = await hosts.admin.post(f"/hosts/by-id/{host_id}/test")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_tests")
    assert len(upstream.ledger) == TESTS_PER_MINUTE
    fake_clock.advance(int(refused.headers["retry-after"]))
    assert (await hosts.test(host_id))["ok"]


async def test_a_provider_that_raises_is_named_and_not_quoted(
    hosts: Hosts, upstream: ScriptedUpstream, services: ControlServices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def broken(*_: object) -> UpstreamRequest:
        raise ValueError(CREDENTIAL)

    monkeypatch.setattr(services.providers["plain"], "probe", broken)
    found = await hosts.test(await hosts.add(upstream.url))
    assert found["error"] == "adapter_failed"
    assert "'plain' raised ValueError" in found["message"]


async def test_a_local_host_needs_no_call(
    hosts: Hosts, services: ControlServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(services.providers["plain"]), "local", True)
    found = await hosts.test(await hosts.add("http://127.0.0.1:9"))
    assert (found["ok"], found["status"]) == (True, None)


async def test_t59_a_test_that_cannot_be_recorded_is_not_made(
    hosts: Hosts, upstream: ScriptedUpstream, engine: Any
) -> None:
    from sqlalchemy import text

    host_id = await hosts.add(upstream.url)
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit_records RENAME TO gone"))
    answer = await hosts.admin.post(f"/hosts/by-id/{host_id}/test")
    assert answer.status_code == 503
    assert len(upstream.ledger) == 0
