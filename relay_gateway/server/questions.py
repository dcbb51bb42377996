"""What the control process may ask of a worker."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from relay_gateway.observe.series import Series

State = dict[str, Any]
"""The state of a host or a host key in one process, as the control plane shows it."""


class TellMetrics(msgspec.Struct, frozen=True, tag="metrics"):
    """For everything that was counted: a :class:`.Report`."""


class TellHostKeys(msgspec.Struct, frozen=True, tag="host-keys"):
    """For the states of these host keys: a list, in the order of ``ids``."""

    ids: tuple[str, ...]


class ResetHostKey(msgspec.Struct, frozen=True, tag="reset-host-key"):
    """That a host key be put back to use; nothing is answered."""

    id: str


class TellHosts(msgspec.Struct, frozen=True, tag="hosts"):
    """For the states of these hosts: a list, in the order of ``ids``."""

    ids: tuple[str, ...]


class ResetHost(msgspec.Struct, frozen=True, tag="reset-host"):
    """That a host be asked again; nothing is answered."""

    id: str


class ReloadPlugins(msgspec.Struct, frozen=True, tag="reload-plugins"):
    """That plugins be configured as ``relay.toml`` says now: a :class:`.ProcessReload`."""


Question = TellMetrics | TellHostKeys | ResetHostKey | TellHosts | ResetHost | ReloadPlugins


class Asked(Protocol):
    """Who answers: a gateway."""

    def series(self) -> list[Series]:
        """Everything that was counted."""

    def host_key_state(self, key_id: str) -> State:
        """The state of one host key here."""

    def reset_host_key(self, key_id: str) -> None:
        """Puts a host key back to use."""

    def host_state(self, host_id: str) -> State:
        """The state of one host here."""

    def reset_host(self, host_id: str) -> None:
        """Has a host asked again."""


def encoded(question: Question) -> bytes:
    """A question as it is sent."""
    return msgspec.msgpack.encode(question)
