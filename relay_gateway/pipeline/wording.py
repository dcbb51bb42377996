"""How answers are worded; the inference plane knows, the pipeline does not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.pipeline.refusals import Refusal
from relay_gateway.pipeline.reply import Reply

Answer = Callable[[Call, Exchange | Refusal], bytes]
"""Builds the header block of an answer from that of the upstream."""
Retell = Callable[[Call, Refusal], Reply]
"""Words the refusal of an upstream that speaks another format than the caller."""
Refuse = Callable[[Call, RequestRefusedError], Reply]
"""Words a refusal in the caller's dialect."""


class Wire(msgspec.Struct, frozen=True):
    """The three ways to word an answer."""

    answer_headers: Answer
    refuse: Refuse
    retell: Retell
