"""Who closes requests in tests of the way back, without prices and sinks."""

from __future__ import annotations

from typing import NamedTuple

from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller


class Account(NamedTuple):
    """How a request had gone when it was accounted for, and how many bytes its answer has, with
    those that still had to go out."""

    outcome: str
    bytes_out: int


class FakeAccounts:
    """Notes what is accounted for and settled; fits the forwarder's port."""

    def __init__(self) -> None:
        self.accounted: list[Account] = []
        """One for each request."""
        self.settled: list[Call] = []

    def account(self, call: Call, caller: Caller, unsent: int) -> None:
        """Notes a request, the first time."""
        if not call.settled:
            call.settled = True
            self.accounted.append(Account(call.outcome, caller.bytes_out + unsent))

    def settle(self, call: Call, caller: Caller) -> None:
        """Notes the end of a request."""
        self.account(call, caller, 0)
        self.settled.append(call)
