"""``GET /catalog/resolve``: explanations over HTTP, of a catalog that is written over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.control import ControlServices
from relay_gateway.ids import new_id
from relay_gateway.testing.catalog import TableBackend

from .following import follow_writes


@pytest.fixture
def services(services: ControlServices, tmp_path: Path) -> ControlServices:
    """With a snapshot that follows every write, as in a gateway."""
    services.secret_backends = {"table": TableBackend({}, tmp_path)}
    follow_writes(services)
    return services


@pytest.fixture
async def world(catalog: Any) -> dict[str, str]:
    """A model at two hosts, the second one disabled, a policy and a relay key; ids by name."""
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    east = await catalog.add("hosts", "East", baseUrl="http://127.0.0.1:9", adapter="plain")
    west = await catalog.add(
        "hosts", "West", baseUrl="http://127.0.0.1:9", adapter="plain", enabled=False
    )
    ids = {"east": east["metadata"]["id"], "west": west["metadata"]["id"]}
    deprecated = {"since": "2030-01-01T00:00:00Z", "sunset": None, "replacementId": None}
    bindings = [{"hostId": ids["east"]}, {"hostId": ids["west"]}]
    await catalog.add(
        "models", "M", providerId=vendor, bindings=bindings, aliases=["short"],
        deprecated=deprecated,
    )  # fmt: skip
    policy = await catalog.add("policies", "All", models=["m"], deny=["@north"])
    ids["policy"] = policy["metadata"]["id"]
    value = {"kind": "table", "entry": "k"}
    key = await catalog.add(
        "host-keys", "K", hostId=ids["east"], policyId=ids["policy"], valueFrom=value
    )
    ids["host key"] = key["metadata"]["id"]
    relay_key = await catalog.add("relay-keys", "App", policyId=ids["policy"])
    ids["relay key"] = relay_key["relayKey"]["metadata"]["id"]
    return ids


async def resolve(admin: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer = await admin.get("/catalog/resolve", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refused(admin: httpx.AsyncClient, **query: str) -> tuple[int, str]:
    answer = await admin.get("/catalog/resolve", params=query)
    return answer.status_code, answer.json()["error"]["code"]


async def test_a_request_is_explained_from_the_key_to_the_host_key(
    admin: httpx.AsyncClient, world: dict[str, str]
) -> None:
    found = await resolve(admin, model="short", relayKeyId=world["relay key"])
    explained = found["explanation"]
    assert explained["outcome"] == {
        "verdict": "routed",
        "message": "the request is sent to east",
        "hosts": ["east"],
        "status": None,
        "code": None,
        "retryAfter": None,
        "body": None,
    }
    assert explained["request"] == {
        "model": "short",
        "relayKey": "app",
        "endpoint": "chat",
        "wireFormat": "plain.chat",
        "host": None,
        "clientIp": None,
    }
    assert [step["step"] for step in explained["steps"] if step["ok"]] == [
        "relay-key", "policy", "model", "grants", "hosts", "host-keys"
    ]  # fmt: skip
    (candidate,) = explained["candidates"]
    assert (candidate["host"], candidate["upstreamName"]) == ("east", "m")
    assert candidate["hostKeys"][0]["id"] == world["host key"]
    assert explained["leftOut"] == [{"host": "west", "reason": "the host 'west' is disabled"}]
    assert found["deprecated"]["since"] == "2030-01-01T00:00:00Z"


async def test_a_refusal_has_the_status_and_the_body_that_callers_get(
    admin: httpx.AsyncClient, world: dict[str, str]
) -> None:
    by_slug = await resolve(admin, model="nope", relayKeyId="app")
    outcome = by_slug["explanation"]["outcome"]
    assert (outcome["verdict"], outcome["status"]) == ("refused", 404)
    assert outcome["body"]["error"]["code"] == outcome["code"] == "model_not_found"
    pinned = await resolve(admin, model="m", relayKeyId="app", host="west")
    assert pinned["explanation"]["outcome"]["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("end", "words"),
    [("revoke", "the key was revoked at 20"), ("disable", "'app' is disabled")],
)
async def test_a_key_that_no_request_can_come_with_says_why(
    admin: httpx.AsyncClient, world: dict[str, str], end: str, words: str
) -> None:
    url = f"/relay-keys/by-id/{world['relay key']}"
    if end == "revoke":
        await admin.post(f"{url}/revoke")
    else:
        key = (await admin.get("/relay-keys/app")).json()
        await admin.put(url, json={**key, "spec": {**key["spec"], "enabled": False}})
    explained = (await resolve(admin, model="m", relayKeyId="app"))["explanation"]
    assert explained["outcome"]["status"] == 401
    assert words in explained["steps"][0]["message"]
    assert len(explained["steps"]) == 1


async def test_a_model_that_is_disabled_says_so(
    admin: httpx.AsyncClient, world: dict[str, str]
) -> None:
    model = (await admin.get("/models/m")).json()
    model["spec"]["enabled"] = False
    await admin.put(f"/models/by-id/{model['metadata']['id']}", json=model)
    explained = (await resolve(admin, model="m", relayKeyId="app"))["explanation"]
    assert explained["outcome"]["code"] == "model_not_found"
    reasons = {item["reason"] for item in explained["leftOut"]}
    assert reasons == {"the model 'm' is disabled"}


async def test_without_a_key_it_lists_who_may_use_the_model(
    admin: httpx.AsyncClient, catalog: Any, world: dict[str, str]
) -> None:
    await catalog.add("policies", "Another", models=["*"])
    await catalog.add("policies", "None", models=["other"])
    first = (await resolve(admin, model="m", limit="1"))["users"]
    assert [item["policy"] for item in first["policies"]] == ["all"]
    assert first["policies"][0]["relayKeys"] == ["app"]
    second = (await resolve(admin, model="m", limit="1", cursor=first["nextCursor"]))["users"]
    (another,) = second["policies"]
    assert (another["policy"], another["callable"], another["relayKeyCount"]) == (
        "another", True, 0
    )  # fmt: skip
    assert second["nextCursor"] is None
    assert await refused(admin, model="nope") == (404, "not_found")


async def test_parameters_are_read_strictly(
    admin: httpx.AsyncClient, world: dict[str, str]
) -> None:
    asked = {"model": "m", "relayKeyId": "app"}
    assert (await resolve(admin, **asked, endpoint="/v1/plain"))["explanation"]
    assert (await resolve(admin, **asked, wireFormat="plain.chat"))["explanation"]
    bad = (400, "invalid_parameter")
    assert await refused(admin, **asked, endpoint="embeddings") == bad
    assert await refused(admin, **asked, endpoint="chat", wireFormat="acme.chat") == bad
    assert await refused(admin, **asked, clientIp="localhost") == bad
    assert await refused(admin, model="m", cursor="x") == bad
    assert await refused(admin, relayKeyId="app") == bad
    assert await refused(admin, **asked, hosts="east") == (400, "unknown_parameter")
    assert await refused(admin, model="m", relayKeyId=new_id()) == (404, "not_found")


async def test_without_a_catalog_there_is_nothing_to_explain(
    admin: httpx.AsyncClient, world: dict[str, str], services: ControlServices
) -> None:
    services.live.expire()
    assert await refused(admin, model="m", relayKeyId="app") == (503, "not_ready")


async def test_nothing_secret_is_in_an_explanation(
    admin: httpx.AsyncClient, world: dict[str, str], services: ControlServices
) -> None:
    sealed = (await services.store.get("relay key", world["relay key"])).sealed
    text = str(await resolve(admin, model="m", relayKeyId="app"))
    text += str(await resolve(admin, model="m"))
    assert sealed["digest"] not in text
