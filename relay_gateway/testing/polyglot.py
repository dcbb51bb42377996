"""A gateway process before a speaking upstream, with one model per wire format, for tests that
block: whatever clients do, they do it in the thread of the test."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.speakers import speak
from relay_gateway.testing.upstream import ScriptedUpstream

HOST_SECRET = f"sk-{secrets.token_hex(20)}"
LOG_SECONDS = 10.0
START_SECONDS = 60.0
RATES = [
    {"meter": "tokens.input", "amount": "2"},
    {"meter": "tokens.cacheRead", "amount": "1"},
    {"meter": "tokens.output", "amount": "10"},
]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SpokenHost:
    """How the one upstream is a host of one wire format: ``path`` follows its address."""

    adapter: str
    wire_formats: tuple[str, ...]
    path: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


class Polyglot:
    """Serves one model per entry of ``hosts``, named like its key. A context manager.

    ``settings`` are sections that are put before the first request.
    """

    def __init__(
        self,
        directory: Path,
        hosts: Mapping[str, SpokenHost],
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.upstream = ScriptedUpstream(speak)
        self.gateway = GatewayProcess(directory, {"RELAY_LOG_LEVEL": "warning"})
        self.relay_key = ""
        self._hosts = hosts
        self._settings = settings or {}
        self._host_ids: dict[str, str] = {}
        self._key_ids: list[str] = []
        self._pricing = self._vendor = self._policy = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self.admin: httpx.Client

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._open(), START_SECONDS)
            self.admin = httpx.Client(
                base_url=self.gateway.control_url,
                headers={"authorization": f"Bearer {self.gateway.admin_token}"},
                trust_env=False,
            )
            self._fill()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.admin.close()
        self._close()

    @property
    def url(self) -> str:
        """The inference plane."""
        return self.gateway.inference_url

    @property
    def ledger(self) -> list[SeenRequest]:
        """What the upstream has seen."""
        return self.upstream.ledger

    def run(self, work: Coroutine[Any, Any, Result], seconds: float = 30.0) -> Result:
        """Runs ``work`` in the event loop of the upstream and waits for it."""
        running: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return running.result(seconds)

    def create(self, plural: str, display_name: str, **spec: Any) -> str:
        """Creates an entity and gives its id."""
        body = {"metadata": {"displayName": display_name}, "spec": spec}
        answer = self.admin.post(f"/{plural}", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["id"])

    def model(self, name: str, *hosts: str) -> None:
        """A model that is tried at ``hosts`` in this order."""
        bindings = [
            {"hostId": self._host_ids[host], "priority": place, "pricingId": self._pricing}
            for place, host in enumerate(hosts)
        ]
        self.create("models", name, name=name, providerId=self._vendor, bindings=bindings)

    def host(self, name: str, spoken: SpokenHost, url: str | None = None) -> None:
        """A host with one key; ``url`` is that of the speaking upstream unless told otherwise."""
        base = (url or self.upstream.url) + spoken.path
        formats = list(spoken.wire_formats)
        self._host_ids[name] = host = self.create(
            "hosts",
            name,
            baseUrl=base,
            adapter=spoken.adapter,
            wireFormats=formats,
            **spoken.fields,
        )
        value = {"kind": "stored", "value": HOST_SECRET}
        self._key_ids.append(
            self.create("host-keys", name, hostId=host, policyId=self._policy, valueFrom=value)
        )

    def recover(self) -> None:
        """Puts every host key, and its host, back to use and empties the upstream's ledger."""
        for key_id in self._key_ids:
            assert self.admin.post(f"/host-keys/by-id/{key_id}/reset").status_code == 200
        self.ledger.clear()

    def until_served(self, name: str) -> None:
        """Waits until the catalog that is served has the model."""
        deadline = time.monotonic() + LOG_SECONDS
        headers = {"authorization": f"Bearer {self.relay_key}"}
        while name not in httpx.get(f"{self.url}/v1/models", headers=headers).text:
            assert time.monotonic() < deadline, f"{name} is not served"
            time.sleep(0.02)

    def log(self, request_id: str) -> dict[str, Any]:
        """The usage record of a request, as soon as it has been delivered."""
        deadline = time.monotonic() + LOG_SECONDS
        while True:
            answer = self.admin.get(f"/logs/{request_id}")
            if answer.status_code == 200:
                record: dict[str, Any] = answer.json()["log"]
                return record
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.02)

    def last_log(self) -> dict[str, Any]:
        """The usage record of the latest request, for clients that do not show its id."""
        items: list[dict[str, Any]] = self.admin.get("/logs", params={"limit": 1}).json()["items"]
        return items[0]

    async def _open(self) -> None:
        await self._stack.enter_async_context(self.upstream)
        await self._stack.enter_async_context(self.gateway)

    def _fill(self) -> None:
        for section, fields in self._settings.items():
            assert self.admin.put(f"/settings/{section}", json=fields).status_code == 200
        self._vendor = self.create("providers", "Acme")
        self._pricing = self.create("pricings", "Prices", rates=RATES)
        self._policy = self.create("policies", "All", models=["*"])
        for name, spoken in self._hosts.items():
            self.host(name, spoken)
            self.model(name, name)
        body = {"metadata": {"displayName": "app"}, "spec": {"policyId": self._policy}}
        self.relay_key = self.admin.post("/relay-keys", json=body).json()["plaintext"]
        for name in [*self._hosts][-1:]:
            self.until_served(name)

    def _close(self) -> None:
        self.run(self._stack.aclose(), START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
