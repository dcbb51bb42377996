"""The Connect server's API, as far as one field is read through it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from relay_gateway.errors import (
    SecretDeniedError,
    SecretError,
    SecretNotFoundError,
    SecretUnavailableError,
)
from relay_gateway.plugin import PluginContext, Secret
from relay_gateway_secret_onepassword.models import Found, Item, OnePasswordConfig, OnePasswordRef
from relay_gateway_secret_onepassword.token import own_token

T = TypeVar("T")
MAX_BODY = 4 * 1024 * 1024
_ID = re.compile(r"[a-z0-9]{26}")


class Connect:
    """Reads items. Everything raises :class:`SecretError`, without an error of httpx behind it."""

    def __init__(self, config: OnePasswordConfig, context: PluginContext) -> None:
        self._config = config
        self._context = context
        self._token = Secret("")

    async def item(self, ref: OnePasswordRef) -> Item:
        """The item of ``ref``: three requests at most, one for each name and one for the item."""
        return await self._in_time(self._item(ref), ref.place)

    async def check(self) -> None:
        """Whether the server is there and takes the token."""
        place = "the vaults"
        await self._in_time(self._get("vaults", tuple[Found, ...], place), place)

    async def _in_time(self, asking: Awaitable[T], place: str) -> T:
        try:
            async with asyncio.timeout(self._config.timeout_seconds):
                return await asking
        except TimeoutError:
            pass
        seconds = self._config.timeout_seconds
        raise SecretUnavailableError(
            f"1Password Connect did not answer for {place} within {seconds:g} s"
        )

    async def _item(self, ref: OnePasswordRef) -> Item:
        vault = await self._id("vaults", "name", ref.vault, f"vault {ref.vault!r}")
        place = f"item {ref.item!r} of vault {ref.vault!r}"
        items = f"vaults/{quote(vault, safe='')}/items"
        item = await self._id(items, "title", ref.item, place)
        return await self._get(f"{items}/{quote(item, safe='')}", Item, place)

    async def _id(self, path: str, attribute: str, name: str, place: str) -> str:
        if _ID.fullmatch(name):
            return name
        wanted = name.replace("\\", "\\\\").replace('"', '\\"')
        query = quote(f'{attribute} eq "{wanted}"', safe="")
        found = await self._get(f"{path}?filter={query}", tuple[Found, ...], place)
        if not found:
            raise SecretNotFoundError(f"1Password shows the gateway's token no {place}")
        if len(found) > 1:
            raise SecretDeniedError(f"1Password has {len(found)} of {place}: tell it by its id")
        return found[0].id

    async def _get(self, path: str, model: type[T], place: str) -> T:
        # The token may be in a file.
        token = await self._context.run_blocking(own_token, self._config, self._context)
        if not self._token.matches(token.reveal()):
            self._token = token
            self._context.hide(token)
        status, body = await self._ask(path, token, place)
        if status != 200:
            raise _refusal(status, place)
        try:
            return msgspec.json.decode(body, type=model)
        except msgspec.DecodeError:
            pass
        raise SecretUnavailableError(f"what answered for {place} was not 1Password Connect")

    async def _ask(self, path: str, token: Secret, place: str) -> tuple[int, bytes]:
        import httpx

        url = f"{self._config.url.rstrip('/')}/v1/{path}"
        headers = {"Authorization": f"Bearer {token.reveal()}", "Accept": "application/json"}
        try:
            async with self._context.http.stream("GET", url, headers=headers) as answer:
                body = bytearray()
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > MAX_BODY:
                        break
                return answer.status_code, bytes(body)
        except httpx.HTTPError as error:
            kind = type(error).__name__
        raise SecretUnavailableError(f"1Password Connect could not be asked for {place} ({kind})")


def _refusal(status: int, place: str) -> SecretError:
    told = f"1Password Connect answered {status} for {place}"
    if status == 404:
        return SecretNotFoundError(f"{told}: it does not exist, or the token may not see it")
    if status in (401, 403):
        return SecretDeniedError(f"{told}: check the token and the vaults it was made for")
    if status == 429 or status >= 500:
        return SecretUnavailableError(f"{told}: it will be asked again later")
    return SecretDeniedError(f"{told}: check the reference and [secret_backends.onepassword]")
