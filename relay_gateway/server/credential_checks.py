"""Whether the credentials of a catalog can be had, and where they are from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, TypeVar

from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.errors import RelayError
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.known_credentials import CredentialSource
from relay_gateway.pipeline.proxy_logins import ProxyLogins
from relay_gateway.plugin import SystemClock
from relay_gateway.registry import Plugins
from relay_gateway.secret import Secret
from relay_gateway.server.finding import Finding

AT_ONCE = 8

SourceT_contra = TypeVar("SourceT_contra", bound=CredentialSource, contravariant=True)
SourceT = TypeVar("SourceT", bound=CredentialSource)


class _Fetching(Protocol[SourceT_contra]):
    async def get(self, source: SourceT_contra, /) -> Secret: ...

    def describe(self, source_id: str, /) -> dict[str, object]: ...


async def check_credentials(snapshot: Snapshot, plugins: Plugins) -> list[Finding]:
    """One finding per host key, and per host with a login at its egress proxy."""
    credentials = Credentials(plugins.secret_backends, SystemClock())
    logins = ProxyLogins(plugins.secret_backends, SystemClock())
    keys = {f"host key {key.slug}": key for key in snapshot.host_keys.values()}
    proxies = {
        f"egress proxy of host {host.slug}": host.proxy_credential
        for host in snapshot.hosts.values()
        if host.proxy_credential is not None
    }
    try:
        found = await _checked(credentials, plugins, keys)
        return found + await _checked(logins, plugins, proxies)
    finally:
        await credentials.aclose()
        await logins.aclose()


async def _checked(
    credentials: _Fetching[SourceT], plugins: Plugins, sources: Mapping[str, SourceT]
) -> list[Finding]:
    """Fetches all of them, a few at a time: each has a deadline of its own."""
    room = asyncio.Semaphore(AT_ONCE)

    async def check(subject: str, source: SourceT) -> Finding:
        place = _place(plugins, source)
        async with room:
            try:
                await credentials.get(source)
            except RelayError as error:
                return Finding(subject, False, f"not resolved by {place}: {error}")
        return Finding(subject, True, _resolved(place, credentials.describe(source.id)))

    checks = [check(subject, source) for subject, source in sources.items()]
    return list(await asyncio.gather(*checks))


def _place(plugins: Plugins, source: CredentialSource) -> str:
    """The backend and what reads show of the reference."""
    public = plugins.secret_backends[source.backend].publish(source.stored)
    fields = public.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"kind"})
    told = ", ".join(f"{name} {value}" for name, value in fields.items())
    return f"{source.backend} ({told})" if told else source.backend


def _resolved(place: str, state: Mapping[str, object]) -> str:
    version = f", version {state['version']}" if state["version"] is not None else ""
    return f"resolved by {place}{version}; fetched again after {state['refreshSeconds']} s"
