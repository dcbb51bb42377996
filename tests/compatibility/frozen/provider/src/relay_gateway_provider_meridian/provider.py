"""The provider: how hosts of this kind are asked. No sockets here; those are the gateway's."""

from __future__ import annotations

from pydantic import Field

from relay_gateway.plugin import (
    AdapterConfig,
    PluginConfig,
    Secret,
    UpstreamCall,
    UpstreamProvider,
    encode_headers,
)
from relay_gateway_provider_meridian.formats import TalkFormat


class MeridianHost(AdapterConfig):
    """``adapterConfig`` of a host whose ``adapter`` is ``meridian``."""

    tenant: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="Sent with each request as `meridian-tenant`.",
    )


class MeridianProvider(UpstreamProvider[PluginConfig]):
    """Speaks ``meridian.talk`` with a bearer token."""

    name = "meridian"
    HostConfig = MeridianHost
    wire_formats = (TalkFormat.name,)
    defines = (TalkFormat,)
    response_headers = frozenset({b"retry-after"})

    def headers(self, call: UpstreamCall) -> bytes:
        """The usual headers, and the tenant of the host where it has one."""
        tenant = call.host.config.tenant
        extra = encode_headers({"meridian-tenant": tenant}) if tenant else b""
        return super().headers(call) + extra

    def credential(self, secret: Secret) -> bytes:
        """The header line that carries the credential."""
        return b"authorization: Bearer %s\r\n" % secret.reveal().encode("ascii")
