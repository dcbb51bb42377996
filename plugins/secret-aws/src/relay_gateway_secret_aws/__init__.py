"""Secret backend ``aws-secrets-manager``: host keys from AWS Secrets Manager."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_aws.backend import AwsSecrets
from relay_gateway_secret_aws.models import AwsConfig, AwsRef

__all__ = ["AwsConfig", "AwsRef", "AwsSecrets"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    return (AwsSecrets,)
