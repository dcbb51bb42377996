"""The provider: how hosts of this kind are asked. No sockets here; those are the gateway's."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from relay_gateway.plugin import (
    AdapterConfig,
    Classification,
    PluginConfig,
    Scope,
    Secret,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    UpstreamRequest,
    Verdict,
    encode_headers,
)
from relay_gateway_provider_acme.formats import TalkFormat


class AcmeHost(AdapterConfig):
    """``adapterConfig`` of a host whose ``adapter`` is ``acme``."""

    tenant: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="Sent with each request as `acme-tenant`.",
    )


class AcmeProvider(UpstreamProvider[PluginConfig]):
    """Speaks ``acme.talk``; the credential is the header ``acme-key``."""

    name = "acme"
    HostConfig = AcmeHost
    wire_formats = (TalkFormat.name,)
    defines = (TalkFormat,)
    response_headers = frozenset({b"retry-after"})

    def headers(self, call: UpstreamCall) -> bytes:
        """The usual headers, and the tenant of the host where it has one."""
        tenant = call.host.config.tenant
        extra = encode_headers({"acme-tenant": tenant}) if tenant else b""
        return super().headers(call) + extra

    def credential(self, secret: Secret) -> bytes:
        """The header line that carries the credential."""
        return b"acme-key: %s\r\n" % secret.reveal().encode("ascii")

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """As usual, but for two answers that Acme words in its own way."""
        if status == 402:
            # The account has no credit left; another key of the pool may be of another account.
            return Classification(Verdict.CREDENTIAL)
        if status == 429 and b'"model_busy"' in body:
            # This model has no room for this key, which is as good as ever with other models.
            usual = super().classify(status, headers, body)
            return Classification(Verdict.THROTTLED, usual.retry_after, Scope.MODEL)
        return super().classify(status, headers, body)

    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        """Acme has no list of models; to ask who one is costs nothing, too."""
        usual = super().probe(host, secret)
        return UpstreamRequest(f"{host.path}/me".encode("ascii"), usual.headers, b"", b"GET")
