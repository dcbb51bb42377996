"""What went wrong with a call of AWS, in the words of the gateway.

Nothing that AWS wrote is quoted but its code: its complaint about a signature repeats what was
signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay_gateway.errors import (
    SecretDeniedError,
    SecretError,
    SecretNotFoundError,
    SecretUnavailableError,
)

MISSING = frozenset({"ResourceNotFoundException"})
DELETED = frozenset({"InvalidRequestException"})
STALE = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
    }
)
"""The credentials were good once, or are those of a file that has changed since."""
UNDECRYPTABLE = frozenset({"DecryptionFailure"})
BUSY = frozenset({"LimitExceededException", "ThrottledException", "TooManyRequestsException"})
UNREACHABLE = frozenset(
    {
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "ConnectionError",
        "EndpointConnectionError",
        "HTTPClientError",
        "ProxyConnectionError",
        "ReadTimeoutError",
        "ResponseParserError",
        "SSLError",
    }
)
WITHOUT_CREDENTIALS = frozenset(
    {"CredentialRetrievalError", "MetadataRetrievalError", "NoCredentialsError"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error to raise, and whether other credentials could help."""

    error: SecretError
    stale: bool = False


def refused(response: Mapping[str, Any], place: str) -> Refusal:
    """What an answer of AWS with an error means for ``place``."""
    code = str(response.get("Error", {}).get("Code", "")) or "no code"
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    told = f"AWS answered {status} {code} for {place}"
    if code in MISSING:
        return Refusal(SecretNotFoundError(f"{told}: there is no such secret or version here"))
    if code in DELETED:
        return Refusal(SecretNotFoundError(f"{told}: the secret is being deleted or has no value"))
    if code in UNDECRYPTABLE:
        return Refusal(SecretDeniedError(f"{told}: let the gateway's role use the KMS key"))
    if code in STALE:
        return Refusal(
            SecretDeniedError(f"{told}: the gateway's AWS credentials are expired or unknown"),
            stale=True,
        )
    if "Throttl" in code or code in BUSY or status == 429 or status >= 500:
        return Refusal(SecretUnavailableError(f"{told}: it will be asked again later"))
    return Refusal(
        SecretDeniedError(
            f"{told}: allow the gateway's identity secretsmanager:GetSecretValue on this secret"
            " (and sts:AssumeRole on role_arn, if set)"
        )
    )


def failed(error: Exception, place: str) -> Refusal:
    """What an error of the SDK itself means: AWS was not asked, or did not answer."""
    name = type(error).__name__
    told = f"AWS could not be asked for {place} ({name})"
    if name in WITHOUT_CREDENTIALS:
        how = "give the gateway AWS credentials: variables, a profile or a role"
        return Refusal(SecretUnavailableError(f"{told}: {how}"), stale=True)
    if name in UNREACHABLE:
        return Refusal(SecretUnavailableError(f"{told}: it did not answer in time or at all"))
    if name == "NoRegionError":
        how = "set region in [secret_backends.aws-secrets-manager] or in the reference"
        return Refusal(SecretDeniedError(f"{told}: {how}"))
    return Refusal(SecretDeniedError(f"{told}: check [secret_backends.aws-secrets-manager]"))
