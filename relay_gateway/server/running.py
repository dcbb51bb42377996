"""What a gateway that is running says about its host keys, and about all gateways on its database,
for ``relay-gateway doctor``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx

from relay_gateway.server.finding import Finding
from relay_gateway.settings import Settings

SECONDS: Final = 3.0
MAX_KEYS: Final = 1000
NAME: Final = "running gateway"
INSTANCES: Final = "instances"


async def check_running(settings: Settings) -> list[Finding]:
    """One finding per host key that the gateway of these settings leaves out right now, or whose
    host it does, and one per process of a gateway on its database that is silent or lags; one that
    says so where it does not run, or where all is well."""
    if settings.control_port is None or settings.admin_token is None:
        return [Finding(NAME, True, "not asked: it has no control plane or no admin token here")]
    where = f"http://{_address(settings)}:{settings.control_port}"
    headers = {"authorization": f"Bearer {settings.admin_token.reveal()}"}
    try:
        async with httpx.AsyncClient(
            base_url=where, headers=headers, trust_env=False, timeout=SECONDS
        ) as client:
            keys = await client.get("/host-keys", params={"limit": MAX_KEYS})
            instances = await client.get("/instances")
    except httpx.TransportError:
        return [Finding(NAME, True, f"none answers at {where}, so nothing is known to be benched")]
    if keys.status_code != 200:
        told = f"{where} answers {keys.status_code}; is another service there?"
        return [Finding(NAME, True, f"not asked: {told}")]
    found = [one for item in keys.json()["items"] for one in _troubles(item)]
    found = found or [Finding(NAME, True, "all host keys and their hosts are in use")]
    return found + _instances(instances)


def _instances(answer: httpx.Response) -> list[Finding]:
    """What is wrong with processes of gateways, or how many there are."""
    if answer.status_code != 200:
        return [Finding(INSTANCES, True, f"not known: the answer is {answer.status_code}")]
    items: Sequence[Mapping[str, Any]] = answer.json()["items"]
    found = []
    for item in items:
        name = f"instance {item['gateway']} {item['process']} up to date"
        if item["silent"]:
            detail = f"not seen since {item['lastSeenAt']}, for {item['seenSecondsAgo']:.0f} s"
            found.append(Finding(name, False, detail))
        elif item["lagging"]:
            behind, seconds = item["lagRevisions"], item["lagSeconds"]
            found.append(Finding(name, False, f"{behind} revisions behind for {seconds:.0f} s"))
    gateways = len({item["gatewayId"] for item in items})
    fine = f"gateways: {gateways}, processes: {len(items)}; all are heard of and up to date"
    return found or [Finding(INSTANCES, True, fine)]


def _address(settings: Settings) -> str:
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - it is compared, not bound
    host = anywhere.get(settings.control_host, settings.control_host)
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _troubles(item: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with one host key as a list shows it."""
    name, status = f"host key {item['metadata']['slug']} in use", item.get("status") or {}
    found = []
    if status.get("state") in ("benched", "partly-benched"):
        left = status.get("secondsLeft")
        detail = f"{status['state']}, {left:g} s left: {status.get('reason')}"
        found.append(Finding(name, False, detail))
    for bench in status.get("models", ()):
        detail = f"left out for model {bench['modelId']}, {bench['secondsLeft']:g} s left: "
        found.append(Finding(name, False, detail + bench["reason"]))
    host = status.get("host")
    if host and host["state"] != "available":
        left = host["secondsLeft"] or 0.0
        detail = f"its host is {host['state']}, {left:g} s left: {host['reason']}"
        found.append(Finding(name, False, detail))
    return found
