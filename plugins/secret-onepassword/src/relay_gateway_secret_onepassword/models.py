"""What an operator configures, what an administrator writes as ``valueFrom``, what Connect says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from pydantic import ConfigDict, Field, SecretStr

from relay_gateway.plugin import PluginConfig, SecretRef

KIND = "onepassword"
TOKEN_VARIABLE = "OP_CONNECT_TOKEN"  # noqa: S105 - a name

Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]


class OnePasswordConfig(PluginConfig):
    """``[secret_backends.onepassword]``."""

    # What a validation error quotes of its input could be a token.
    model_config = ConfigDict(hide_input_in_errors=True)

    url: str = Field(
        pattern=r"^https?://[^\s/?#@]+/?$",
        max_length=512,
        description="Where the Connect server listens (`http://HOST:PORT`).",
    )
    token: SecretStr | None = Field(
        default=None, description="Access token. Unset: `token_file`, else `OP_CONNECT_TOKEN`."
    )
    token_file: Path | None = Field(
        default=None, description="A file with the access token, read at each fetch."
    )
    timeout_seconds: float = Field(
        default=4.0,
        gt=0,
        le=60,
        allow_inf_nan=False,
        description="How long a fetch may take, with all of its requests.",
    )
    ttl_seconds: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="How long a value counts as fresh. Unset: 300 s.",
    )


class OnePasswordRef(SecretRef):
    """``{"kind": "onepassword", "vault": "…", "item": "…", "field": "…"}``: where in 1Password the
    credential lies. Each part is told by its name or by its id."""

    kind: Literal["onepassword"] = "onepassword"
    vault: Annotated[Name, Field(description="Name or id of the vault.")]
    item: Annotated[Name, Field(description="Title or id of the item.")]
    field: Annotated[Name, Field(description="Label or id of the field.")]
    section: Annotated[
        Name | None,
        Field(description="Label or id of the section, where fields of several have one name."),
    ] = None

    @property
    def place(self) -> str:
        """What messages call the secret."""
        parts = (self.vault, self.item, *filter(None, (self.section,)), self.field)
        return f"field {'/'.join(parts)!r}"


class Found(msgspec.Struct, frozen=True):
    """An entry of a list of vaults or items."""

    id: str


class Section(msgspec.Struct, frozen=True):
    """A section of an item, or a field's reference to it."""

    id: str = ""
    label: str | None = None


class ItemField(msgspec.Struct, frozen=True):
    """A field of an item."""

    id: str = ""
    label: str | None = None
    value: str | None = None
    section: Section | None = None

    def __repr__(self) -> str:
        return f"ItemField({self.id!r})"


class Item(msgspec.Struct, frozen=True):
    """An item with all that is in it."""

    version: int = 0
    fields: tuple[ItemField, ...] = ()
    sections: tuple[Section, ...] = ()
