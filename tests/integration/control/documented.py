"""The operations of the OpenAPI document, and what the tests of all of them ask with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.ids import new_id

ADMIN_TOKEN = "admin-token-3f9c"
ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
COOKIE = {"Cookie": "relay_session=made-up"}
SAFE = ("get", "head")


@dataclass(frozen=True)
class Op:
    """An operation of the document."""

    path: str
    method: str
    raw: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.raw["operationId"])

    @property
    def public(self) -> bool:
        return not self.raw["security"]

    @property
    def takes_body(self) -> bool:
        return "requestBody" in self.raw

    @property
    def parameters(self) -> set[str]:
        return {parameter["name"] for parameter in self.raw.get("parameters", ())}

    @property
    def errors(self) -> set[int]:
        return {int(status) for status in self.raw["responses"] if int(status) >= 400}

    def url(self, ref: str | None = None) -> str:
        filled = re.sub(r"\{\w+\}", ref or new_id(), self.path)
        return f"{filled}?model=x" if self.path == "/catalog/resolve" else filled


def client_of(services: ControlServices, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_control_app(services))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


def example(op: Op) -> Any:
    return op.raw["requestBody"]["content"]["application/json"]["example"]


async def one_of_each(catalog: Any) -> dict[str, dict[str, Any]]:
    """An entity of every kind, each of which another refers to."""
    vendor = await catalog.add("providers")
    host = await catalog.add("hosts", baseUrl="http://127.0.0.1:9", adapter="echoes")
    rate = {"meter": "tokens.input", "amount": "0.15"}
    pricing = await catalog.add("pricings", rates=[rate])
    binding = {"hostId": host["metadata"]["id"], "pricingId": pricing["metadata"]["id"]}
    vendor_id = vendor["metadata"]["id"]
    model = await catalog.add("models", providerId=vendor_id, bindings=[binding])
    await catalog.add("models", "b", providerId=vendor_id, fallbacks=[model["metadata"]["id"]])
    rule = {"meter": "requests", "amount": 5, "windowSeconds": 60}
    limit = await catalog.add("rate-limits", rules=[rule])
    policy = await catalog.add("policies", models=["*"])
    policy_id, limit_id = policy["metadata"]["id"], limit["metadata"]["id"]
    host_key = await catalog.add(
        "host-keys",
        hostId=host["metadata"]["id"],
        policyId=policy_id,
        valueFrom={"kind": "variable", "variable": "SOME_KEY"},
    )
    await catalog.add("policies", "b", hostKeyIds=[host_key["metadata"]["id"]])
    issued = await catalog.add("relay-keys", policyId=policy_id, rateLimitIds=[limit_id])
    return {
        "providers": vendor,
        "hosts": host,
        "pricings": pricing,
        "models": model,
        "rate-limits": limit,
        "policies": policy,
        "host-keys": host_key,
        "relay-keys": issued["relayKey"],
    }
