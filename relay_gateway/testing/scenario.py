"""A gateway process with an administrator, a scripted upstream and canaries for every secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from relay_gateway.testing.canary import Canary, assert_absent
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.upstream import Answer, ScriptedUpstream

LOG_SECONDS = 5.0


class Scenario:
    """What an acceptance test works with. ``answers`` collects every body the control plane
    gave."""

    def __init__(
        self,
        gateway: GatewayProcess,
        admin: httpx.AsyncClient,
        upstream: ScriptedUpstream,
        canary: Canary,
    ) -> None:
        self.gateway = gateway
        self.admin = admin
        self.upstream = upstream
        self.canary = canary
        self.answers: list[str] = []
        admin.event_hooks["response"] = [self._remember]

    async def post(self, plural: str, display_name: str, **spec: Any) -> dict[str, Any]:
        """Creates an entity by HTTP and gives the answer. ``slug`` in ``spec`` goes into
        metadata."""
        metadata = {"displayName": display_name}
        if "slug" in spec:
            metadata["slug"] = spec.pop("slug")
        answer = await self.admin.post(f"/{plural}", json={"metadata": metadata, "spec": spec})
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def create(self, plural: str, display_name: str, **spec: Any) -> str:
        """Creates an entity by HTTP and gives its id."""
        return str((await self.post(plural, display_name, **spec))["metadata"]["id"])

    async def relay_key(self, name: str, policy_id: str, **spec: Any) -> str:
        """Creates a relay key by HTTP and gives its plaintext, which becomes a canary."""
        created = await self.post("relay-keys", name, policyId=policy_id, **spec)
        return self.canary.adopt(name, created["plaintext"], public=16)

    async def log(self, request_id: str) -> dict[str, Any]:
        """The usage record of a request, as soon as it has been delivered."""
        deadline = asyncio.get_running_loop().time() + LOG_SECONDS
        while True:
            answer = await self.admin.get(f"/logs/{request_id}")
            if answer.status_code == 200:
                record: dict[str, Any] = answer.json()["log"]
                return record
            assert asyncio.get_running_loop().time() < deadline, answer.text
            await asyncio.sleep(0.02)

    async def logs(self, count: int) -> list[dict[str, Any]]:
        """All usage records, newest first, as soon as there are ``count`` of them."""
        deadline = asyncio.get_running_loop().time() + LOG_SECONDS
        while True:
            items: list[dict[str, Any]] = (await self.admin.get("/logs")).json()["items"]
            if len(items) >= count:
                return items
            assert asyncio.get_running_loop().time() < deadline, f"{len(items)} records"
            await asyncio.sleep(0.02)

    async def sweep(self, *texts: str, allowed: tuple[str, ...] = ()) -> None:
        """Ends the gateway and looks for every secret in all that it wrote, answered or printed."""
        await self.gateway.stop()
        secret_files = {"master-key", "admin-token"}
        paths = [p for p in self.gateway.data_dir.rglob("*") if p.name not in secret_files]
        assert_absent(
            self.canary,
            paths=[path for path in paths if path.is_file()],
            texts={
                "stdout": self.gateway.stdout,
                "stderr": self.gateway.stderr,
                **{f"answer {index}": text for index, text in enumerate((*self.answers, *texts))},
            },
            allowed=allowed,
        )

    async def _remember(self, response: httpx.Response) -> None:
        await response.aread()
        if response.request.method != "POST" or "relay-keys" not in str(response.request.url):
            self.answers.append(response.text + str(response.headers))


@asynccontextmanager
async def running_scenario(
    directory: Path,
    answer: Answer,
    environ: Mapping[str, str] | None = None,
    canary: Canary | None = None,
) -> AsyncIterator[Scenario]:
    """A scenario on data below ``directory``; ``environ`` is the gateway's, beyond the defaults."""
    async with (
        ScriptedUpstream(answer) as upstream,
        GatewayProcess(directory, environ) as gateway,
        gateway.control() as admin,
    ):
        yield Scenario(gateway, admin, upstream, canary or Canary())
