"""What a request is expected to use, before it is sent, and what it has used, when it has ended."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from relay_gateway.catalog.pricing import price
from relay_gateway.catalog.snapshot import Model, Policy, Pricing
from relay_gateway.catalog.specs import Meter
from relay_gateway.plugin.usage import UsageRecord

BYTES_PER_TOKEN: Final = 4
TOKENS_PER_BLOB: Final = 1000
"""For each piece of embedded base64, such as a picture: its bytes say nothing about its tokens."""
DEFAULT_OUTPUT: Final = 4096
"""Tokens of answer, where neither caller, policy nor model say how many there may be."""

_BLOB = re.compile(rb"[A-Za-z0-9+/=_-]{1024,}")


class Estimate(msgspec.Struct, frozen=True):
    """Tokens that a request is expected to use, and what they cost where that has a price."""

    input: int
    output: int
    pricing: Pricing | None

    def of(self, meter: Meter) -> int:
        """How much of ``meter``."""
        if meter == "tokens":
            return self.input + self.output
        if meter == "tokens.input":
            return self.input
        if meter == "tokens.output":
            return self.output
        if meter == "cost":
            return self._cost()
        return 1

    def _cost(self) -> int:
        tokens = {"input": self.input, "output": self.output}
        return price(self.pricing, tokens, {}).nanos or 0


def input_tokens(body: bytes) -> int:
    """Tokens of a JSON body, as far as its length tells."""
    size, blobs = len(body), 0
    if b"base64" in body or b"data:" in body:
        for match in _BLOB.finditer(body):
            size -= match.end() - match.start()
            blobs += 1
    return max(1, size // BYTES_PER_TOKEN) + TOKENS_PER_BLOB * blobs


def output_tokens(asked: int | None, policy: Policy | None, model: Model | None) -> int:
    """Tokens of answer that may come: what was ``asked`` for, else what policy and model allow."""
    if asked is not None:
        return asked
    allowed = [
        most
        for most in (
            policy.max_output_tokens if policy is not None else None,
            model.max_output_tokens if model is not None else None,
        )
        if most is not None
    ]
    return min(allowed, default=DEFAULT_OUTPUT)


def used(record: UsageRecord, meter: Meter, claimed: int) -> int:
    """How much of ``meter`` a request has used whose record this is."""
    tokens = record.tokens
    if record.outcome != "ok" and not tokens:
        return 0
    if meter in ("requests", "concurrency"):
        return 1
    if record.usage_source == "none":
        return claimed
    if meter == "cost":
        return record.cost_nanos or 0
    incoming, outgoing = tokens.get("input", 0), tokens.get("output", 0)
    if meter == "tokens":
        return incoming + outgoing
    return incoming if meter == "tokens.input" else outgoing
