"""Hosts behind an egress proxy that lets in who knows its password, from the API to the wire."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relay_gateway.testing.connect_proxy import ConnectProxy
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.scenario import Scenario
from relay_gateway.testing.script import json_response
from relay_gateway.testing.upstream import ScriptedUpstream

NAME = "models.test"


def certificate(folder: Path) -> tuple[str, ssl.SSLContext]:
    """A file with a certificate for ``NAME``, and a server context that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown, private = folder / "certificate.pem", folder / "key.pem"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, locked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, private)
    return str(shown), context


@dataclass(frozen=True, slots=True)
class Proxied:
    """A gateway whose two hosts, one plain and one with TLS, are beyond a proxy each."""

    scenario: Scenario
    password: str
    plain: ConnectProxy
    secure: ConnectProxy
    hosts: dict[str, str]
    relay_key: str

    async def ask(self, model: str) -> httpx.Response:
        url = f"{self.scenario.gateway.inference_url}/v1/chat/completions"
        bearer = {"Authorization": f"Bearer {self.relay_key}"}
        async with httpx.AsyncClient(headers=bearer) as client:
            return await client.post(url, json={"model": model, "messages": []})

    async def host(self, name: str) -> dict[str, Any]:
        answer = await self.scenario.admin.get(f"/hosts/{self.hosts[name]}")
        found: dict[str, Any] = answer.json()
        return found

    async def replace(self, name: str, **fields: Any) -> httpx.Response:
        host = await self.host(name)
        host["spec"].update(fields)
        return await self.scenario.admin.put(f"/hosts/by-id/{self.hosts[name]}", json=host)


@pytest.fixture
async def proxied(scenario: Scenario, tmp_path: Path) -> AsyncIterator[Proxied]:
    password = scenario.canary.secret("proxy password")
    ca_file, context = certificate(tmp_path)
    plain, secure = (ConnectProxy(login=f"relay:{password}") for _ in range(2))
    async with AsyncExitStack() as stack:
        beyond = ScriptedUpstream(lambda _: json_response(200, {}), tls=context)
        await stack.enter_async_context(beyond)
        await stack.enter_async_context(plain.running(scenario.upstream.port))
        await stack.enter_async_context(secure.running(beyond.port))
        fields: dict[str, dict[str, Any]] = {
            "plain": {"baseUrl": "http://10.1.2.3/v1", "proxyUrl": plain.url},
            "secure": {
                "baseUrl": f"https://{NAME}/v1",
                "proxyUrl": secure.url,
                "tls": {"caFile": ca_file},
            },
        }
        provider = await scenario.create("providers", "Acme")
        policy = await scenario.create("policies", "Everything", models=["*"])
        credential = {"kind": "stored", "value": f"relay:{password}"}
        hosts = {}
        for name, spec in fields.items():
            hosts[name] = await scenario.create(
                "hosts", name, adapter="openai", noAuth=True, proxyCredential=credential, **spec
            )
            await scenario.create(
                "models", name, name=name, providerId=provider, bindings=[{"hostId": hosts[name]}]
            )
        relay_key = await scenario.relay_key("app", policy)
        yield Proxied(scenario, password, plain, secure, hosts, relay_key)


async def test_a_stored_proxy_credential_reaches_the_proxy_and_nobody_else(
    proxied: Proxied, database: dict[str, str], request: pytest.FixtureRequest
) -> None:
    for name, proxy in (("plain", proxied.plain), ("secure", proxied.secure)):
        answer = await proxied.ask(name)
        assert answer.status_code == 200, answer.text
        assert proxy.opened == 1
        shown = (await proxied.host(name))["spec"]["proxyCredential"]
        assert shown.keys() == {"kind", "keyId", "updatedAt"}
    # What was read can be written back, and means the value that is there.
    assert (await proxied.replace("plain", maxConnections=7)).status_code == 200
    assert (await proxied.ask("plain")).status_code == 200
    assert proxied.password.encode() not in proxied.scenario.upstream.received
    await check_a_wrong_password(proxied)
    refused = await proxied.replace("plain", proxyUrl=f"http://relay:{proxied.password}@127.0.0.1")
    assert refused.status_code == 422
    assert "proxyCredential" in refused.json()["error"]["fields"][0]["message"]
    dump = ""
    if database:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        dump = server.dump(database["RELAY_DATABASE_URL"])
    await proxied.scenario.sweep(dump)
    assert f"the egress proxy of host {proxied.hosts['secure']} refused" in (
        proxied.scenario.gateway.stderr + proxied.scenario.gateway.stdout
    )


async def check_a_wrong_password(proxied: Proxied) -> None:
    wrong = f"relay:{proxied.scenario.canary.secret('wrong password')}"
    changed = await proxied.replace("secure", proxyCredential={"kind": "stored", "value": wrong})
    assert changed.status_code == 200, changed.text
    answer = await proxied.ask("secure")
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "egress_proxy"
    assert "127.0.0.1" not in answer.text
    record = await proxied.scenario.log(answer.headers["x-relay-request-id"])
    assert {attempt["error"] for attempt in record["attempts"]} == {"egress_proxy"}
    assert proxied.secure.opened == 1
