"""Who the gateway is to the servers: asked for with each new connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from redis.credentials import CredentialProvider

from relay_gateway.errors import SecretError
from relay_gateway.plugin import PluginContext, Secret

DEFAULT_TTL: Final = 300.0
LATER: Final = 15.0
"""Seconds after which a backend that could not be asked is asked again, while there is an old
password."""


class Login(CredentialProvider):
    """An account with a password that is known from the beginning; ``None`` is none."""

    def __init__(self, username: str | None, password: Secret | None) -> None:
        self._username = username
        self._password = password

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """Account and password, or the password alone."""
        secret = await self.current()
        password = "" if secret is None else secret.reveal()
        return (password,) if self._username is None else (self._username, password)

    async def current(self) -> Secret | None:
        """The password to use now."""
        return self._password

    def doubt(self) -> None:
        """The server refused it."""


class FileLogin(Login):
    """The password is in a file, which may change at any time."""

    def __init__(self, username: str | None, file: Path, context: PluginContext) -> None:
        super().__init__(username, None)
        self._file = file
        self._context = context

    async def current(self) -> Secret:
        """What is in the file. Raises :class:`OSError`."""
        text = await self._context.run_blocking(self._file.read_text, "utf-8")
        self._password = Secret(text.strip())
        self._context.hide(self._password)
        return self._password


class ReferredLogin(Login):
    """The password is in a secret backend; one that was refused is fetched anew."""

    def __init__(
        self, username: str | None, reference: Mapping[str, Any], context: PluginContext
    ) -> None:
        super().__init__(username, None)
        self._reference = reference
        self._context = context
        self._good_until = 0.0
        self._turn = asyncio.Lock()

    async def current(self) -> Secret | None:
        """The value behind the reference. Raises :class:`SecretError` when there never was one."""
        async with self._turn:
            if self._password is None or self._context.clock.monotonic() >= self._good_until:
                await self._renew()
            return self._password

    def doubt(self) -> None:
        self._good_until = 0.0

    async def _renew(self) -> None:
        try:
            resolved = await self._context.resolve_secret(self._reference)
        except SecretError as error:
            if self._password is None:
                raise
            self._context.logger.warning("the password of before stays in use: %s", error)
            ttl: float | None = LATER
        else:
            self._password, ttl = resolved.value, resolved.ttl
        seconds = DEFAULT_TTL if ttl is None else ttl
        self._good_until = self._context.clock.monotonic() + seconds
