"""Credentials by reference: asked of a secret backend, kept a while, asked again when refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relay_gateway.errors import SecretError, StorageUnavailableError
from relay_gateway.plugin import PluginContext, ResolvedSecret, Secret
from relay_gateway_log_s3.config import BucketConfig

DEFAULT_TTL: Final = 300.0
LATER: Final = 15.0
"""Seconds after which a backend that could not be asked is asked again, while old keys are used."""


class AccessKeys(msgspec.Struct, frozen=True, eq=False):
    """What requests are signed with."""

    access_key_id: str
    secret: Secret
    token: Secret | None = None

    def arguments(self) -> dict[str, str]:
        """As the SDK wants them."""
        found = {
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret.reveal(),
        }
        return found if self.token is None else {**found, "aws_session_token": self.token.reveal()}

    def same_as(self, other: AccessKeys | None) -> bool:
        """Whether ``other`` signs alike."""
        return other is not None and self.arguments() == other.arguments()


class AccessKeySource:
    """The keys behind ``value_from`` of one section."""

    def __init__(self, config: BucketConfig, context: PluginContext, section: str) -> None:
        self._config = config
        self._context = context
        self._section = section
        self._keys: AccessKeys | None = None
        self._good_until = 0.0
        self._turn = asyncio.Lock()

    async def current(self) -> AccessKeys | None:
        """The keys to use now; ``None`` where the configuration names no reference. Raises
        :class:`StorageUnavailableError`."""
        reference = self._config.value_from
        if reference is None:
            return None
        async with self._turn:
            if self._keys is None or self._context.clock.monotonic() >= self._good_until:
                await self._renew(reference)
            return self._keys

    def doubt(self) -> None:
        """They were refused: the next who wants them has them fetched anew."""
        self._good_until = 0.0

    async def _renew(self, reference: Mapping[str, Any]) -> None:
        try:
            resolved = await self._context.resolve_secret(reference)
            keys = self._read(resolved)
        except SecretError as error:
            self._bear(error)
            return
        ttl = DEFAULT_TTL if resolved.ttl is None else resolved.ttl
        self._good_until = self._context.clock.monotonic() + ttl
        if not keys.same_as(self._keys):
            self._keys = keys

    def _bear(self, error: SecretError) -> None:
        """Goes on with the keys that are there, if any."""
        told = f"the credentials of [{self._section}] cannot be had: {error}"
        if self._keys is None:
            raise StorageUnavailableError(told) from error
        self._context.logger.warning("%s; those from before stay in use", told)
        self._good_until = self._context.clock.monotonic() + LATER

    def _read(self, resolved: ResolvedSecret) -> AccessKeys:
        if self._config.access_key_id is not None:
            return AccessKeys(self._config.access_key_id, resolved.value)
        members = _members(resolved.value)
        access_key_id, secret, token = (
            members.get(name) for name in ("accesskeyid", "secretaccesskey", "sessiontoken")
        )
        if not access_key_id or not secret:
            raise SecretError(
                "the value is no JSON object with accessKeyId and secretAccessKey; if it is the "
                "secret access key alone, set access_key_id"
            )
        return AccessKeys(access_key_id, Secret(secret), Secret(token) if token else None)


def _members(value: Secret) -> dict[str, str]:
    """The strings in a JSON object, by name without case and underscores; nothing of another
    text."""
    try:
        found = json.loads(value.reveal())
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name.replace("_", "").lower().removeprefix("aws"): text
        for name, text in found.items()
        if isinstance(text, str)
    }
