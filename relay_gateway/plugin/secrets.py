"""Secret backends: from a ``valueFrom`` reference to a credential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relay_gateway.plugin.base import CatalogModel, ConfigT, Plugin
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


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedSecret:
    """A credential with its facts. ``ttl`` is in seconds; ``None`` leaves it to the gateway's
    default."""

    value: Secret
    ttl: float | None = None
    version: str | None = None


class SecretBackend(Plugin[ConfigT]):
    """Turns a reference into a credential. ``name`` is the ``kind`` of its references.

    ``Ref`` is what an administrator writes, ``StoredRef`` what the catalog keeps, ``PublicRef``
    what reads show; they differ only for a backend that keeps the value in the catalog itself.
    """

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
