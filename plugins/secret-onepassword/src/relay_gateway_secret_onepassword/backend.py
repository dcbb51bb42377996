"""The backend: finds the one field that a reference means."""

from __future__ import annotations

from typing import ClassVar

from relay_gateway.errors import SecretDeniedError, SecretNotFoundError, SecretRefError
from relay_gateway.plugin import (
    PluginContext,
    ResolvedSecret,
    RowBinding,
    SecretBackend,
    SecretRef,
    credential_in,
)
from relay_gateway_secret_onepassword.connect import Connect
from relay_gateway_secret_onepassword.models import (
    KIND,
    Item,
    ItemField,
    OnePasswordConfig,
    OnePasswordRef,
)


class OnePasswordSecrets(SecretBackend[OnePasswordConfig]):
    """Credentials from fields of items in 1Password, read through a Connect server."""

    name: ClassVar[str] = KIND
    Config = OnePasswordConfig
    Ref = OnePasswordRef

    def __init__(self, config: OnePasswordConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._connect = Connect(config, context)

    async def aopen(self) -> None:
        """Asks for the vaults. Raises :class:`SecretError` where that fails; resolving does not
        depend on it."""
        await self._connect.check()

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The value of the field; ``version`` is that of its item.

        Raises :class:`SecretNotFoundError` for a vault, item or field that is not there,
        :class:`SecretDeniedError` for what the token may not read, for a name that several things
        have, and for a value that is no credential, :class:`SecretUnavailableError` when Connect
        fails or cannot be reached.
        """
        if not isinstance(stored, OnePasswordRef):
            raise SecretRefError(f"a reference of kind {stored.kind!r} is not one to 1Password")
        item = await self._connect.item(stored)
        field = _the_field(item, stored)
        value = credential_in(field.value or "", stored.place)
        return ResolvedSecret(value, self.config.ttl_seconds, str(item.version))


def _the_field(item: Item, ref: OnePasswordRef) -> ItemField:
    found = [field for field in item.fields if ref.field in (field.id, field.label)]
    if ref.section is not None:
        sections = {part.id for part in item.sections if ref.section in (part.id, part.label)}
        found = [field for field in found if field.section and field.section.id in sections]
    if not found:
        raise SecretNotFoundError(f"1Password has no {ref.place}; the item is there")
    if len(found) > 1:
        raise SecretDeniedError(
            f"1Password has {len(found)} fields for {ref.place}: tell the section or the field's id"
        )
    return found[0]
