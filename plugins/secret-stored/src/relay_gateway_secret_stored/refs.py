"""The three faces of a stored credential: as written, as kept, as shown."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr

from relay_gateway.plugin import SecretRef


def decode(text: str) -> bytes:
    """The bytes of ``text`` in standard base64; one spelling only. Raises :class:`ValueError`."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("must be standard base64") from error
    # Unused bits of the last character would otherwise be a part of the row that nothing protects.
    if encode(data) != text:
        raise ValueError("must be standard base64 in its one canonical spelling")
    return data


def encode(data: bytes) -> str:
    """``data`` in standard base64."""
    return base64.b64encode(data).decode("ascii")


def _check_base64(text: str) -> str:
    decode(text)
    return text


Base64 = Annotated[str, Field(max_length=65536), AfterValidator(_check_base64)]
KeyId = Annotated[str, Field(max_length=64)]


class ValueRef(SecretRef):
    """``{"kind": "stored", "value": "…"}``: what an administrator writes.

    ``value`` is write-only; left out on an update it keeps the value that is there. ``keyId`` and
    ``updatedAt`` may come back from a read and are ignored.
    """

    # What a validation error quotes of its input could be the credential.
    model_config = ConfigDict(hide_input_in_errors=True)

    kind: Literal["stored"] = "stored"
    value: SecretStr | None = Field(
        default=None,
        description="The credential; never shown again. Left out on an update, it stays.",
    )
    key_id: KeyId | None = Field(
        default=None, description="The master key that seals the value, from a read; ignored."
    )
    updated_at: datetime | None = Field(
        default=None, description="Since when the value is there, from a read; ignored."
    )


class PublicRef(SecretRef):
    """What reads show: which master key seals the value, and since when it is there."""

    kind: Literal["stored"] = "stored"
    key_id: KeyId
    updated_at: datetime


class SealedRef(SecretRef):
    """What the catalog keeps.

    ``ciphertext`` is the value under a key of its own, ``wrappedKey`` that key under the master key
    ``keyId``; each has its nonce. Binary members are base64.
    """

    kind: Literal["stored"] = "stored"
    v: Literal[1] = 1
    key_id: KeyId
    updated_at: datetime
    nonce: Base64
    ciphertext: Base64
    key_nonce: Base64
    wrapped_key: Base64
