"""Answers that are sent in one piece: accounted for before their first byte goes out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from relay_gateway.errors import FAULTS
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.settle import Settlement

Failed = Callable[[Call, Caller, BaseException], None]
"""Ends a request whose answer could not be accounted for or sent."""


class WholeAnswer(msgspec.Struct):
    """One that waits for the others of its turn."""

    call: Call
    caller: Caller
    status: int
    headers: bytes
    body: bytes
    error: BaseException | None = None
    """Why it cannot be accounted for."""


class WholeAnswers:
    """Accounts for answers and sends them: each at once or, between :meth:`hold` and
    :meth:`release`, all together."""

    def __init__(self, settlement: Settlement, failed: Failed) -> None:
        self._settlement = settlement
        self._failed = failed
        self._held: list[WholeAnswer] | None = None

    def respond(self, call: Call, caller: Caller, status: int, headers: bytes, body: bytes) -> None:
        """Accounts for an answer and sends it, or keeps it while answers are held."""
        if self._held is not None:
            self._held.append(WholeAnswer(call, caller, status, headers, body))
            return
        self._settlement.account(call, caller, len(body))
        _send(call, caller, status, headers, body)

    def hold(self) -> None:
        """Keeps the answers that come from now on."""
        self._held = []

    def account(self) -> None:
        """Accounts for the answers that are held."""
        for one in self._held or ():
            try:
                self._settlement.account(one.call, one.caller, len(one.body))
            except FAULTS as error:  # one request fails, the others go on
                one.error = error

    def release(self) -> list[WholeAnswer]:
        """Keeps no more answers; those that were kept."""
        held, self._held = self._held, None
        return held or []

    def send(self, answers: list[WholeAnswer]) -> None:
        """Sends answers that are accounted for."""
        for one in answers:
            try:
                if one.error is not None:
                    raise one.error
                _send(one.call, one.caller, one.status, one.headers, one.body)
            except FAULTS as error:  # one request fails, the others go on
                self._failed(one.call, one.caller, error)


def _send(call: Call, caller: Caller, status: int, headers: bytes, body: bytes) -> None:
    caller.respond(status, headers, body)
    if call.captured is not None:
        call.captured.close()
