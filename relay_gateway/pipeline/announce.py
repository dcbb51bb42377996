"""The word that goes to the ledger before an upstream is asked, so that a request is accounted for
even if the process does not live to finish it."""

from __future__ import annotations

from typing import Protocol

from relay_gateway.catalog.snapshot import Host, HostKey, Model
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.call import Call

RETRY_AFTER = 5


class Ledger(Protocol):
    """Who keeps account of requests."""

    @property
    def full(self) -> bool:
        """Whether there is no room for the record of another request."""

    def announce(self, request_id: str, opened: object) -> None:
        """Keeps the beginning of a request until its record comes."""

    def hold(self) -> None:
        """Writes nothing until :meth:`release`, which follows without anything in between that
        others could see."""

    def release(self) -> None:
        """Writes all that came since :meth:`hold`."""


class NoLedger:
    """Keeps nothing; for a pipeline without delivery."""

    full = False

    def announce(self, request_id: str, opened: object) -> None:
        """Does nothing."""

    def hold(self) -> None:
        """Does nothing."""

    def release(self) -> None:
        """Does nothing."""


class Announcer:
    """Tells ``ledger`` of each request once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def announce(
        self, call: Call, model: Model | None, host: Host | None, key: HostKey | None
    ) -> None:
        """Has ``call`` accounted for, which is about to be sent to ``host``. Raises
        :class:`RequestRefusedError` (503) where its record would have no room."""
        if call.announced:
            return
        if self._ledger.full:
            raise RequestRefusedError(
                503,
                "overloaded",
                "the gateway cannot write down what requests use, because its disk does not take "
                "it; try again later",
                retry_after=RETRY_AFTER,
            )
        call.announced = True
        relay_key, policy = call.relay_key, call.policy
        opened = (
            call.request_id,
            call.started_ns,
            call.mode,
            call.endpoint.name,
            call.wire_format.name,
            call.streamed,
            call.client_request_id,
            relay_key.id if relay_key is not None else None,
            policy.id if policy is not None else None,
            model.provider_id if model is not None else None,
            model.id if model is not None else None,
            call.requested_model,
            host.id if host is not None else None,
            key.id if key is not None else None,
            call.client_address,
            call.tags if type(call.tags) is dict else {**call.tags},
        )
        self._ledger.announce(call.request_id, opened)
