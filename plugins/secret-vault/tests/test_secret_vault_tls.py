"""Vault's certificate is checked, against the configured authorities where there are some."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relay_gateway.errors import SecretUnavailableError
from relay_gateway_secret_vault.testing import FakeVault


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a key and its self-signed certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vault")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form, locked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, form, locked)
    file = tmp_path_factory.mktemp("tls") / "vault.pem"
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[FakeVault]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with FakeVault("root-token-of-the-tests", tls=context) as vault:
        yield vault


async def test_a_certificate_of_the_configured_authority_is_accepted(
    make: Any, secure: FakeVault, certificate: Path
) -> None:
    await make(secure.url, ca_file=str(certificate)).aopen()
    assert secure.requests == ["auth/token/lookup-self"]


async def test_f32_another_certificate_is_never_accepted(make: Any, secure: FakeVault) -> None:
    with pytest.raises(SecretUnavailableError, match="SSLError"):
        await make(secure.url).aopen()
    assert secure.requests == []
