"""The AWS backend keeps the promises of every secret backend, against moto with signatures on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from relay_gateway.plugin import SecretBackend, SecretRef
from relay_gateway.testing.conformance import KnownSecret, RemoteSecretConformance, RemoteStore
from relay_gateway.testing.faultproxy import FaultProxy
from relay_gateway_secret_aws import AwsRef

VALUE = "canary-5f1c9e7d2b"


class TestAwsSecrets(RemoteSecretConformance):
    @pytest.fixture
    async def store(self, aws: Any, put: Any, request: Any) -> AsyncIterator[RemoteStore]:
        await put(request.node.name, VALUE)
        await put("picture", b"\xff\xfe\x00picture")

        async def change(value: str) -> None:
            await put(request.node.name, value)

        keys = aws.identities["reader"]
        async with FaultProxy("127.0.0.1", urlsplit(aws.url).port or 0) as link:
            yield RemoteStore(link, change, lambda: [keys["AWS_SECRET_ACCESS_KEY"]])

    @pytest.fixture
    def backend(self, make: Any, store: RemoteStore) -> SecretBackend:
        backend: SecretBackend = make(
            endpoint_url=f"http://127.0.0.1:{store.link.port}",
            connect_timeout=1.0,
            read_timeout=1.0,
        )
        return backend

    @pytest.fixture
    def known(self, request: Any) -> KnownSecret:
        return KnownSecret(AwsRef(secret_id=request.node.name), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        return AwsRef(secret_id="no-such-secret")

    @pytest.fixture
    def denied(self) -> SecretRef:
        return AwsRef(secret_id="picture")
