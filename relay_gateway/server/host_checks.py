"""Whether the hosts of a catalog answer, asked in the way of ``POST /hosts/by-id/{id}/test``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from relay_gateway.catalog.snapshot import Host, Snapshot
from relay_gateway.http.client import HttpClient
from relay_gateway.http.egress import Network
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.probe import HostProber
from relay_gateway.pipeline.proxy_logins import ProxyLogins
from relay_gateway.plugin import SystemClock
from relay_gateway.registry import Plugins
from relay_gateway.server.finding import Finding

AT_ONCE = 8


async def check_hosts(
    snapshot: Snapshot, plugins: Plugins, egress_deny: Sequence[Network]
) -> list[Finding]:
    """One finding per host that requests can be sent to: one with a host key, or that needs none.

    A host that answers is in order, also when it has no room right now or does not know the
    question; one that refuses the credential is not.
    """
    clock = SystemClock()
    credentials = Credentials(plugins.secret_backends, clock)
    logins = ProxyLogins(plugins.secret_backends, clock)
    client = HttpClient(egress_deny=egress_deny, logins=logins)
    prober = HostProber(plugins.providers, client, credentials)
    room = asyncio.Semaphore(AT_ONCE)

    async def check(host: Host) -> Finding:
        keys = snapshot.keys_by_host.get(host.id, ())
        async with room:
            report = await prober.probe(host, None if host.no_auth else keys[0])
        ok = report.reachable and report.error != "credential_refused"
        return Finding(f"host {host.slug}", ok, f"{report.message} ({report.latency_ms:g} ms)")

    try:
        hosts = [
            host
            for host in snapshot.hosts.values()
            if host.no_auth or snapshot.keys_by_host.get(host.id)
        ]
        return list(await asyncio.gather(*(check(host) for host in hosts)))
    finally:
        await client.aclose()
        await logins.aclose()
        await credentials.aclose()
