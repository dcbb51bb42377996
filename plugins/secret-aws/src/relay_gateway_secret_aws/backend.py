"""The backend: asks Secrets Manager in a thread, and picks the credential out of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from relay_gateway.errors import (
    SecretDeniedError,
    SecretNotFoundError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import (
    PluginContext,
    ResolvedSecret,
    RowBinding,
    SecretBackend,
    SecretRef,
    credential_in,
)
from relay_gateway_secret_aws.clients import Clients
from relay_gateway_secret_aws.models import CURRENT, KIND, AwsConfig, AwsRef
from relay_gateway_secret_aws.refusals import Refusal, failed, refused


class AwsSecrets(SecretBackend[AwsConfig]):
    """Credentials from AWS Secrets Manager.

    The SDK is loaded and credentials are looked for when the first secret is asked for, so that an
    installed but unused plugin costs nothing.
    """

    name: ClassVar[str] = KIND
    Config = AwsConfig
    Ref = AwsRef

    def __init__(self, config: AwsConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._clients = Clients(config, context)

    async def aclose(self) -> None:
        """Closes the connections to AWS."""
        self._clients.forget()

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The secret's text, or the member ``jsonKey`` of it; ``version`` is AWS's version id.

        Raises :class:`SecretNotFoundError` for a secret, stage or member that is not there,
        :class:`SecretDeniedError` for what may not be read or is no credential,
        :class:`SecretUnavailableError` when AWS throttles, fails or cannot be reached.
        """
        if not isinstance(stored, AwsRef):
            raise SecretRefError(f"a reference of kind {stored.kind!r} is not one to AWS")
        answer = await self.context.run_blocking(self._fetch, stored)
        value = credential_in(_text(answer, stored), stored.place)
        return ResolvedSecret(value, self.config.ttl_seconds, answer.get("VersionId"))

    def _fetch(self, ref: AwsRef) -> Mapping[str, Any]:
        answer = self._ask(ref)
        if _is_stale(answer):
            self._clients.forget()
            answer = self._ask(ref)
        if _is_stale(answer):
            # A client keeps the credentials that it found, or did not find, when it was made.
            self._clients.forget()
        # Raised here, where no error of the SDK is left that could become its context.
        if isinstance(answer, Refusal):
            raise answer.error
        return answer

    def _ask(self, ref: AwsRef) -> Mapping[str, Any] | Refusal:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            client = self._clients.of(ref.named_region)
            answer: Mapping[str, Any] = client.get_secret_value(
                SecretId=ref.secret_id, VersionStage=ref.version_stage or CURRENT
            )
        except ClientError as error:
            return refused(error.response, ref.place)
        except (BotoCoreError, HTTPClientError) as error:
            return failed(error, ref.place)
        return answer


def _is_stale(answer: Mapping[str, Any] | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.stale


def _text(answer: Mapping[str, Any], ref: AwsRef) -> str:
    text = answer.get("SecretString")
    if text is None and "SecretBinary" in answer:
        text = _decoded(answer["SecretBinary"], ref)
    if text is None:
        # The SDK takes any page with status 200 for an answer.
        raise SecretUnavailableError(f"what answered for {ref.place} was not Secrets Manager")
    return str(text) if ref.json_key is None else _member(str(text), ref.json_key, ref)


def _decoded(value: bytes, ref: AwsRef) -> str:
    text = value.decode("utf-8", "replace")
    if "\N{REPLACEMENT CHARACTER}" in text:
        raise SecretDeniedError(f"the binary value of {ref.place} is no text, so it is no host key")
    return text


def _member(text: str, key: str, ref: AwsRef) -> str:
    document = _parsed(text)
    if not isinstance(document, dict):
        raise SecretDeniedError(
            f"the value of {ref.place} is no JSON object; leave out jsonKey to use all of it"
        )
    if key not in document:
        raise SecretNotFoundError(f"the JSON object of {ref.place} has no such key")
    value = document[key]
    if not isinstance(value, str):
        raise SecretDeniedError(f"the value of {ref.place} is no string")
    return value


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
