"""Secret backends: from a ``valueFrom`` reference to a credential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from relay_gateway.errors import SecretDeniedError, SecretNotFoundError
from relay_gateway.plugin.base import CatalogModel, ConfigT, Plugin
from relay_gateway.plugin.resolved import ResolvedSecret
from relay_gateway.secret import Secret


class SecretRef(CatalogModel):
    """Base of the models of ``valueFrom``. A subclass declares ``kind: Literal["…"] = "…"``."""

    kind: str


@dataclass(frozen=True, slots=True)
class RowBinding:
    """The row and field that a stored secret belongs to; whoever seals it binds it to this place.

    ``generation`` grows by one with each new value of the field, so an old value cannot be put back
    unnoticed.
    """

    kind: str
    id: str
    field: str
    generation: int


def credential_in(text: str, place: str) -> Secret:
    """The credential that was read at ``place`` (``"variable ACME_KEY"``), without one newline at
    its end.

    Raises :class:`SecretNotFoundError` where nothing is left, :class:`SecretDeniedError` for what
    no header could carry.
    """
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise SecretNotFoundError(f"the value of {place} is empty; write the host key there")
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise SecretDeniedError(
            f"the value of {place} cannot be a host key: it must be printable ASCII without spaces "
            "at its ends"
        )
    return Secret(value)


class SecretBackend(Plugin[ConfigT]):
    """Turns a reference into a credential. ``name`` is the ``kind`` of its references.

    ``Ref`` is what an administrator writes, ``StoredRef`` what the catalog keeps, ``PublicRef``
    what reads show; they differ only for a backend that keeps the value in the catalog itself.

    ``seals`` says that it does so with the master keys of its context: ``StoredRef`` then has a
    ``keyId``, and :meth:`key_ids` and :meth:`wrap` are there.
    """

    seals: ClassVar[bool] = False
    Ref: ClassVar[type[SecretRef]]
    StoredRef: ClassVar[type[SecretRef] | None] = None
    PublicRef: ClassVar[type[SecretRef] | None] = None

    def check(self, ref: SecretRef) -> None:
        """Refuses a reference that may not be used here, by :class:`SecretRefError`; no I/O."""

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        """What the catalog keeps for ``ref``: by default ``ref`` itself.

        ``previous`` is what it kept before (``None`` on create), of type ``StoredRef``. Raises
        :class:`SecretRefError` when a value is needed and missing.
        """
        return ref

    def publish(self, stored: SecretRef) -> SecretRef:
        """What reads show of a kept reference; never anything a credential could be had from."""
        return stored

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The credential behind a kept reference.

        Called off the request path, at most once at a time for one reference, under a deadline of
        the gateway's (5 s). Raises :class:`SecretNotFoundError`, :class:`SecretDeniedError` or
        :class:`SecretUnavailableError`; messages name the reference, never the value.
        """
        raise NotImplementedError

    def key_ids(self) -> Sequence[str]:
        """The ids of the master keys that open values, the one that seals first; possibly none.

        The same key has the same id everywhere, and the id tells nothing about the key. Raises
        :class:`SecretUnavailableError` when the backend is not open.
        """
        return ()

    async def wrap(
        self, value: Secret, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        """What the catalog keeps for ``value``, sealed with the first of :meth:`key_ids`.

        With ``previous``, which holds the same value under another key, everything else that was
        kept stays as it is. Raises :class:`SecretRefError` without a key to seal with.
        """
        raise NotImplementedError
