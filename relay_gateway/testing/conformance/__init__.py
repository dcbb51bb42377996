"""What every plugin of a kind must do, as test classes to subclass in the plugin's own tests.

    class TestConformance(SecretBackendConformance):
        @pytest.fixture
        def backend(self, tmp_path): ...

A suite asks what a plugin can do, never which one it is. What only some can do has a suite of its
own, so that no test is there that would have nothing to test. A failure says which promise of the
base class is broken and what the gateway would suffer from it.
"""

from relay_gateway.testing.conformance.codecs import CodecConformance, ConversationSample
from relay_gateway.testing.conformance.guards import (
    GuardConformance,
    ResponseGuardConformance,
    StreamGuardConformance,
)
from relay_gateway.testing.conformance.local_providers import (
    LocalProviderConformance,
    LocalSample,
)
from relay_gateway.testing.conformance.payloads import PayloadLoggerConformance
from relay_gateway.testing.conformance.providers import UpstreamProviderConformance
from relay_gateway.testing.conformance.remote_secrets import RemoteSecretConformance, RemoteStore
from relay_gateway.testing.conformance.secrets import (
    DeniedSecretConformance,
    KnownSecret,
    MissingSecretConformance,
    SealingConformance,
    SecretBackendConformance,
)
from relay_gateway.testing.conformance.seeds import CatalogSeedConformance
from relay_gateway.testing.conformance.sink_credentials import SinkCredentialConformance
from relay_gateway.testing.conformance.stores import StateStoreConformance
from relay_gateway.testing.conformance.usage import UsageReaderConformance, UsageSinkConformance
from relay_gateway.testing.conformance.wire_formats import (
    AnswerSample,
    StreamSample,
    WireFormatConformance,
)

__all__ = [
    "AnswerSample",
    "CatalogSeedConformance",
    "CodecConformance",
    "ConversationSample",
    "DeniedSecretConformance",
    "GuardConformance",
    "KnownSecret",
    "LocalProviderConformance",
    "LocalSample",
    "MissingSecretConformance",
    "PayloadLoggerConformance",
    "RemoteSecretConformance",
    "RemoteStore",
    "ResponseGuardConformance",
    "SealingConformance",
    "SecretBackendConformance",
    "SinkCredentialConformance",
    "StateStoreConformance",
    "StreamGuardConformance",
    "StreamSample",
    "UpstreamProviderConformance",
    "UsageReaderConformance",
    "UsageSinkConformance",
    "WireFormatConformance",
]
