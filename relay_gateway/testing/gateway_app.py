"""A whole gateway for the end-to-end tests of a plugin: no network, no catalog to begin with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import httpx

from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.upstream import ScriptedUpstream

WAIT_SECONDS = 10.0
LOOK_SECONDS = 0.02
REQUEST_ID = "x-relay-request-id"


class GatewayApp:
    """A gateway process with the plugins that are installed, a host that the test plays, and a
    relay key for every model. An async context manager; the fixture ``relay_gateway_app`` is one.

    ``upstream`` is the host (:class:`ScriptedUpstream`), ``admin`` a client of the control plane,
    ``relay_toml`` the text of the configuration file, ``environ`` further variables of the process.
    """

    def __init__(
        self, directory: Path, relay_toml: str = "", environ: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.upstream = ScriptedUpstream()
        self.gateway = GatewayProcess(
            directory, {"RELAY_LOG_LEVEL": "warning", **_search_path(), **(environ or {})}
        )
        self.relay_key = ""
        self.admin: httpx.AsyncClient
        self._relay_toml = relay_toml
        self._caller: httpx.AsyncClient
        self._stack = AsyncExitStack()
        self._policy = ""

    async def __aenter__(self) -> Self:
        (self.directory / "relay.toml").write_text(self._relay_toml, "utf-8")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.upstream)
            await stack.enter_async_context(self.gateway)
            self.admin = await stack.enter_async_context(self.gateway.control())
            self._caller = await stack.enter_async_context(
                httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=WAIT_SECONDS)
            )
            self._policy = await self.create("policies", "All", models=["*"])
            self.relay_key = await self._mint()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Address of the inference plane, without a path; what the base URL of a client begins
        with."""
        return self.gateway.inference_url

    async def create(self, plural: str, display_name: str, **spec: Any) -> str:
        """Creates an entity of the catalog (``"hosts"``) with the members of ``spec``; its id.

        An answer other than 201 fails the test with the gateway's words.
        """
        body = {"metadata": {"displayName": display_name}, "spec": spec}
        answer = await self.admin.post(f"/{plural}", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["id"])

    async def serve(
        self,
        model: str,
        *,
        adapter: str,
        wire_formats: Sequence[str],
        upstream_model: str | None = None,
        value_from: Mapping[str, Any] | None = None,
        adapter_config: Mapping[str, Any] | None = None,
        path: str = "/v1",
    ) -> str:
        """Has ``model`` answered by the upstream through the provider ``adapter``, and waits until
        it is; the id of the host.

        ``value_from`` is the reference to the host's credential; without one the host takes none.
        """
        host = await self.create(
            "hosts",
            model,
            baseUrl=self.upstream.url + path,
            adapter=adapter,
            wireFormats=list(wire_formats),
            noAuth=value_from is None,
            adapterConfig=dict(adapter_config or {}),
        )
        if value_from is not None:
            await self.create(
                "host-keys", model, hostId=host, policyId=self._policy, valueFrom=dict(value_from)
            )
        vendor = await self.create("providers", model)
        binding = {"hostId": host, "upstreamName": upstream_model or model}
        await self.create("models", model, name=model, providerId=vendor, bindings=[binding])
        await self._until_served(model)
        return host

    async def post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Asks the inference plane with the relay key; the answer read to its end."""
        credential = {"authorization": f"Bearer {self.relay_key}", **(headers or {})}
        return await self._caller.post(path, json=body, headers=credential)

    async def log(self, answer: httpx.Response | str) -> dict[str, Any]:
        """The usage record of an answer, or of a request id, as ``GET /logs`` has it, as soon as a
        sink has stored it.

        It needs a usage sink that can be read.
        """
        request_id = answer if isinstance(answer, str) else answer.headers[REQUEST_ID]
        path = f"/logs/{request_id}"
        async with asyncio.timeout(WAIT_SECONDS):
            while (found := await self.admin.get(path)).status_code != 200:  # noqa: ASYNC110 - a process
                await asyncio.sleep(LOOK_SECONDS)
        record: dict[str, Any] = found.json()["log"]
        return record

    async def _mint(self) -> str:
        body = {"metadata": {"displayName": "app"}, "spec": {"policyId": self._policy}}
        answer = await self.admin.post("/relay-keys", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["plaintext"])

    async def _until_served(self, model: str) -> None:
        credential = {"authorization": f"Bearer {self.relay_key}"}
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                answer = await self._caller.get("/v1/models", headers=credential)
                if model in answer.text:
                    return
                await asyncio.sleep(LOOK_SECONDS)


def _search_path() -> dict[str, str]:
    """Where this process finds plugins besides the environment that Python runs in."""
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": path} if path else {}
